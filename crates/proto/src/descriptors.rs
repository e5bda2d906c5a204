//! What compiling gives: an encoded descriptor set, and where its files came from.

use std::path::PathBuf;

use crate::{places, wire_format};

/// Compiled sources: every file and everything it imports, imports first.
#[derive(Debug, Clone)]
pub struct Descriptors {
    pub(crate) files: Vec<File>,
}

/// One compiled file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct File {
    /// The name it is imported by, `shop/v1/shop.proto`.
    pub name: String,
    /// Where it was read from; `None` for files that are built in.
    pub path: Option<PathBuf>,
    /// Whether it was asked for; `false` when it is only imported.
    pub requested: bool,
    pub(crate) encoded: Vec<u8>,
}

impl Descriptors {
    /// The encoded `google.protobuf.FileDescriptorSet` with imports, comments and places.
    pub fn bytes(&self) -> Vec<u8> {
        self.encode(File::bytes)
    }

    /// The same with the comments of methods, the places of their HTTP rules and of rules of
    /// validation as the only `source_code_info`: what a program embeds, so that a server can say
    /// where a route or a rule is written.
    pub fn with_places_of_methods(&self) -> Vec<u8> {
        self.encode(|file| places::of_methods_only(file.bytes()))
    }

    /// The same without `source_code_info`.
    pub fn without_source_info(&self) -> Vec<u8> {
        self.encode(|file| wire_format::without(file.bytes(), SOURCE_CODE_INFO))
    }

    /// The files, each after those it imports.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    fn encode<'a, B: AsRef<[u8]>>(&'a self, bytes: impl Fn(&'a File) -> B) -> Vec<u8> {
        let mut set = Vec::new();
        for file in &self.files {
            wire_format::push_bytes(&mut set, SET_FILE, bytes(file).as_ref());
        }
        set
    }
}

impl File {
    /// The encoded `google.protobuf.FileDescriptorProto`, with source info where there is any.
    pub fn bytes(&self) -> &[u8] {
        &self.encoded
    }
}

/// `FileDescriptorSet.file`.
pub(crate) const SET_FILE: u32 = 1;

/// `FileDescriptorProto.source_code_info`.
const SOURCE_CODE_INFO: u32 = 9;
