//! Where a method's annotation is written, for messages about it.
//!
//! A descriptor set with source info gives file and line; generated code embeds as much of it as is
//! needed here. One without gives the file.

use std::fmt;

use buffa_descriptor::generated::descriptor::FileDescriptorProto;
use buffa_descriptor::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

use tidewire_proto::Position;

use crate::error::RestError;

/// Where a method is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    file: String,
    place: Option<Position>,
    method: String,
}

impl Origin {
    pub(crate) fn of(
        pool: &DescriptorPool,
        service: &ServiceDescriptor,
        method: &MethodDescriptor,
    ) -> Self {
        let file = pool.file_containing_symbol(service.full_name());
        Self {
            file: file.and_then(|file| file.name.clone()).unwrap_or_default(),
            place: file.and_then(|file| place(file, service, method)),
            method: format!("{}.{}", service.full_name(), method.name()),
        }
    }

    /// The file, as it is imported.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Line and column of the annotation, from 1, where the descriptors have source info.
    pub(crate) fn place(&self) -> Option<Position> {
        self.place
    }

    pub(crate) fn error(&self, why: &str) -> RestError {
        RestError(format!("{self}: google.api.http: {why}"))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, place, method } = self;
        match place {
            Some(Position { line, .. }) => write!(f, "{file}:{line} ({method})"),
            None => write!(f, "{file} ({method})"),
        }
    }
}

/// Where the annotation begins, or else the method.
fn place(
    file: &FileDescriptorProto,
    service: &ServiceDescriptor,
    method: &MethodDescriptor,
) -> Option<Position> {
    let path = method_path(file, service, method)?;
    let places = &file.source_code_info.as_option()?.location;
    let option = [&path[..], &[METHOD_OPTIONS, HTTP]].concat();
    let place = places
        .iter()
        .find(|place| place.path.starts_with(&option))
        .or_else(|| places.iter().find(|place| place.path == path))?;
    Position::of_span(&place.span)
}

/// The comment above a method, if the descriptors have comments.
pub(crate) fn comment<'a>(
    pool: &'a DescriptorPool,
    service: &ServiceDescriptor,
    method: &MethodDescriptor,
) -> Option<&'a str> {
    let file = pool.file_containing_symbol(service.full_name())?;
    let path = method_path(file, service, method)?;
    let places = &file.source_code_info.as_option()?.location;
    places.iter().find(|place| place.path == path)?.leading_comments.as_deref().map(str::trim)
}

/// The path of a method in its file's source info.
fn method_path(
    file: &FileDescriptorProto,
    service: &ServiceDescriptor,
    method: &MethodDescriptor,
) -> Option<[i32; 4]> {
    let simple = service.full_name().rsplit('.').next();
    let in_file = file.service.iter().position(|s| s.name.as_deref() == simple)?;
    let name = Some(method.name());
    let in_service = file.service[in_file].method.iter().position(|m| m.name.as_deref() == name)?;
    let index = |index: usize| i32::try_from(index).ok();
    Some([FILE_SERVICE, index(in_file)?, SERVICE_METHOD, index(in_service)?])
}

const FILE_SERVICE: i32 = 6;
const SERVICE_METHOD: i32 = 2;
const METHOD_OPTIONS: i32 = 4;
const HTTP: i32 = 72_295_728;
