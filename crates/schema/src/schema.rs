//! Services that are known only at run time: schemas from `.proto` sources or descriptor sets.
//!
//! A [`Schema`] knows messages and services by name; a [`Message`] is a value of any of its types
//! that converts between protobuf and JSON; [`Schema::serve`] gives a backend the interface of a
//! service, so that a server offers it over all protocols although no code was generated.
//!
//! ```
//! use tidewire_schema::Schema;
//! use tidewire_service::Codec;
//! # let folder = std::env::temp_dir().join("tidewire-schema-doctest");
//! # std::fs::create_dir_all(&folder)?;
//! # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3"; message Item { string name = 1; }"#)?;
//! let schema = Schema::from_folder(&folder)?;
//! let item = schema.decode("Item", Codec::Json, br#"{"name":"tea"}"#)?;
//! assert_eq!(item.encode(Codec::Proto)?, b"\x0a\x03tea"[..]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use buffa::Message as _;
use buffa_descriptor::reflect::{DynamicMessage, DynamicMessageSeed};
use buffa_descriptor::{DescriptorPool, MessageIndex, MethodDescriptor};
use bytes::Bytes;
use serde::de::DeserializeSeed;
use tidewire_proto::{Diagnostics, MethodOptions, Sources};

use tidewire_service::{
    Answer, Call, Codec, Error, Idempotency, Interface, Method, Result, RpcService, Scope, Service,
    Spec, StreamKind,
};

use crate::json::invalid_json;

/// What descriptors may take in memory: the library's own bound ends at a few hundred files.
const DESCRIPTOR_MEMORY_MAX: usize = 1 << 30;

/// Messages and services by name; cheap to clone.
#[derive(Clone)]
pub struct Schema {
    pub(crate) pool: Arc<DescriptorPool>,
    descriptors: Bytes,
}

impl Schema {
    /// Compiles every `.proto` below a folder, which is the root of their imports.
    ///
    /// # Errors
    /// [`SchemaError`] with file, line and column of each fault.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<Self, SchemaError> {
        Self::compile(&Sources::new().folder(folder.as_ref()))
    }

    /// Compiles `.proto` sources.
    ///
    /// # Errors
    /// [`SchemaError`] with file, line and column of each fault.
    pub fn compile(sources: &Sources) -> Result<Self, SchemaError> {
        let descriptors = sources.compile().map_err(SchemaError::Sources)?;
        Self::from_descriptors(descriptors.with_places_of_methods())
    }

    /// Reads an encoded `google.protobuf.FileDescriptorSet` that holds all imports.
    ///
    /// # Errors
    /// When it does not decode, or an import is missing.
    pub fn from_descriptors(descriptors: impl Into<Bytes>) -> Result<Self, SchemaError> {
        let descriptors = descriptors.into();
        let options = buffa::DecodeOptions::new().with_element_memory_limit(DESCRIPTOR_MEMORY_MAX);
        let pool = DescriptorPool::decode_with_options(&descriptors, &options)
            .map_err(|error| SchemaError::Descriptors(error.to_string()))?;
        Ok(Self { pool: Arc::new(pool), descriptors })
    }

    /// The full names of all services.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.pool.services().iter().map(|service| service.full_name())
    }

    /// The interface of a service, or `None` when the schema has no such service.
    ///
    /// # Errors
    /// When an option of a method makes no sense.
    pub fn interface(&self, service: &str) -> Result<Option<Interface>, SchemaError> {
        let Some(found) = self.pool.service_by_name(service) else { return Ok(None) };
        let methods: Result<Vec<_>, _> =
            found.methods().iter().map(|method| self.method(service, method)).collect();
        Ok(Some(Interface::dynamic(service.to_owned(), methods?, self.descriptors.clone())))
    }

    /// Gives `backend` the interface of a service; it is called with raw bytes.
    ///
    /// # Errors
    /// When the schema has no such service, or an option of a method makes no sense.
    pub fn serve<S: Service>(&self, service: &str, backend: S) -> Result<Served<S>, SchemaError> {
        let interface = self.interface(service)?;
        let interface = interface.ok_or_else(|| SchemaError::NoService(service.to_owned()))?;
        Ok(Served { interface, backend })
    }

    /// Decodes a message of the named type.
    ///
    /// Unknown JSON fields are ignored, as generated code does.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument), for JSON with the path of the
    /// field; [`Code::Internal`](tidewire_service::Code::Internal) when the schema has no such type.
    pub fn decode(&self, type_name: &str, codec: Codec, bytes: &[u8]) -> Result<Message> {
        let index = self.index(type_name)?;
        let message = match codec {
            Codec::Proto => DynamicMessage::decode(Arc::clone(&self.pool), index, bytes)
                .map_err(|e| Error::invalid_argument(format!("not a valid {type_name}: {e}")))?,
            Codec::Json => self.read_json(index, bytes, true)?,
        };
        Ok(Message(message))
    }

    /// Decodes JSON that a person wrote: a field that the message does not have is an error.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); what is wrong in the text names line and column.
    pub fn decode_exactly(&self, type_name: &str, json: &[u8]) -> Result<Message> {
        let index = self.index(type_name)?;
        self.read_json(index, json, false).map(Message)
    }

    fn index(&self, type_name: &str) -> Result<MessageIndex> {
        self.pool
            .message_index(type_name)
            .ok_or_else(|| Error::internal(format!("the schema has no message type {type_name}")))
    }

    fn read_json(
        &self,
        index: MessageIndex,
        bytes: &[u8],
        ignore_unknown: bool,
    ) -> Result<DynamicMessage> {
        let seed = DynamicMessageSeed::new(Arc::clone(&self.pool), index)
            .ignore_unknown_fields(ignore_unknown);
        let mut track = serde_path_to_error::Track::new();
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let decoded = seed
            .deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track))
            .and_then(|message| json.end().map(|()| message));
        decoded.map_err(|cause| invalid_json(&cause, Some(&track.path())))
    }

    fn method(&self, service: &str, method: &MethodDescriptor) -> Result<Method, SchemaError> {
        let kind = match (method.is_client_streaming(), method.is_server_streaming()) {
            (false, false) => StreamKind::Unary,
            (true, false) => StreamKind::Client,
            (false, true) => StreamKind::Server,
            (true, true) => StreamKind::Bidi,
        };
        let messages = [
            self.pool.message(method.input()).full_name(),
            self.pool.message(method.output()).full_name(),
        ];
        let mut spec = Spec::dynamic(service, method.name(), kind, messages);
        let Some(options) = method.options() else { return Ok(Arc::new(spec).into()) };
        let encoded = options.encode_to_vec();
        let known = MethodOptions::decode(&encoded).map_err(|why| {
            SchemaError::Descriptors(format!("{service}.{}: {why}", method.name()))
        })?;
        spec.idempotency = idempotency(options.idempotency_level.map_or(0, |level| level as i32));
        spec.ttl_ms = known.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        spec.immutable = known.immutable;
        spec.http_status = known.http_status;
        spec.scope = match known.scope {
            Some(tidewire_proto::Scope::Public) => Scope::Public,
            Some(tidewire_proto::Scope::Vary(names)) => Scope::vary_dynamic(names),
            Some(tidewire_proto::Scope::Caller) | None => Scope::Caller,
        };
        Ok(Arc::new(spec).into())
    }
}

/// `google.protobuf.MethodOptions.IdempotencyLevel`.
const fn idempotency(level: i32) -> Idempotency {
    match level {
        1 => Idempotency::NoSideEffects,
        2 => Idempotency::Idempotent,
        _ => Idempotency::Unknown,
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("services", &self.services().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// A value of a message type that is known only at run time.
#[derive(Clone)]
pub struct Message(DynamicMessage);

impl Message {
    /// The full name of its type.
    pub fn type_name(&self) -> &str {
        self.0.pool().message(self.0.message_index()).full_name()
    }

    /// Encodes it.
    ///
    /// A `float` field prints in JSON as the nearest double (4.2 as 4.199999809265137), where
    /// generated code prints 4.2; both read back to the same value.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) when it has no JSON form, such as a timestamp out
    /// of range.
    pub fn encode(&self, codec: Codec) -> Result<Bytes> {
        match codec {
            Codec::Proto => self
                .0
                .try_encode_to_vec()
                .map(Bytes::from)
                .map_err(|e| Error::internal("the message cannot be encoded").with_cause(e)),
            Codec::Json => self.0.to_json().map(Bytes::from).map_err(|e| {
                Error::internal(format!("the message has no JSON form: {e}")).with_cause(e)
            }),
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.type_name(), self.0.to_json().unwrap_or_default())
    }
}

/// A backend with the interface of a service of a schema; see [`Schema::serve`].
#[derive(Debug)]
pub struct Served<S> {
    interface: Interface,
    backend: S,
}

impl<S: Service> Service for Served<S> {
    fn call(&self, call: Call) -> Answer {
        self.backend.call(call)
    }
}

impl<S: Service> RpcService for Served<S> {
    fn interface(&self) -> Interface {
        self.interface.clone()
    }
}

/// Why a schema cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum SchemaError {
    /// `.proto` sources with faults.
    Sources(Diagnostics),
    /// Descriptors that do not decode or do not fit together.
    Descriptors(String),
    /// There is no service of this name.
    NoService(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sources(faults) => faults.fmt(f),
            Self::Descriptors(why) => write!(f, "descriptors cannot be used: {why}"),
            Self::NoService(name) => write!(f, "the schema has no service {name}"),
        }
    }
}

impl std::error::Error for SchemaError {}
