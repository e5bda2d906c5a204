//! What a service offers: its methods and their descriptors.
//!
//! The server asks once, at start: for routing, reflection, REST transcoding and documentation.

use std::borrow::Cow;

use crate::{Method, Service, Spec};

/// The methods of one service and the descriptors of their messages.
#[derive(Debug, Clone)]
pub struct Interface {
    name: Cow<'static, str>,
    methods: Vec<Method>,
    descriptors: Cow<'static, [u8]>,
}

/// A service of methods, in contrast to a plain HTTP handler.
pub trait RpcService: Service {
    /// What it offers.
    fn interface(&self) -> Interface;
}

impl Interface {
    /// The interface of a generated service.
    ///
    /// `descriptors` is an encoded `google.protobuf.FileDescriptorSet` with all imports.
    pub fn new(name: &'static str, methods: &[&'static Spec], descriptors: &'static [u8]) -> Self {
        Self {
            name: Cow::Borrowed(name),
            methods: methods.iter().map(|spec| Method::from(*spec)).collect(),
            descriptors: Cow::Borrowed(descriptors),
        }
    }

    /// The interface of a service that is known only at run time.
    pub fn dynamic(name: String, methods: Vec<Method>, descriptors: Vec<u8>) -> Self {
        Self { name: Cow::Owned(name), methods, descriptors: Cow::Owned(descriptors) }
    }

    /// The service's full name, `shop.v1.Contacts`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its methods, in the order of the `.proto`.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// An encoded `google.protobuf.FileDescriptorSet` with all imports.
    pub fn descriptors(&self) -> &[u8] {
        &self.descriptors
    }
}
