//! A schema: loading it, and looking up what it has by name.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use buffa_descriptor::reflect::DynamicMessage;
use buffa_descriptor::{DescriptorPool, MessageIndex};
use bytes::Bytes;
use tidewire_proto::Sources;
use tidewire_service::{Codec, Error, Interface, Result};

use crate::json::{self, UnknownMembers};
use crate::types::{EnumType, MessageType};
use crate::{Message, SchemaError, interface};

/// What descriptors may take in memory: the library's own bound ends at a few hundred files.
const DESCRIPTOR_MEMORY_MAX: usize = 1 << 30;

/// Messages, enums and services by name; cheap to clone.
///
/// ```
/// use tidewire_schema::Schema;
/// use tidewire_service::Codec;
/// # let folder = std::env::temp_dir().join("tidewire-schema-doctest");
/// # std::fs::create_dir_all(&folder)?;
/// # std::fs::write(folder.join("shop.proto"), r#"syntax = "proto3";
/// # message Item { string name = 1; }"#)?;
/// let schema = Schema::from_folder(&folder)?;
/// let item = schema.decode("Item", Codec::Json, br#"{"name":"tea"}"#)?;
/// assert_eq!(item.encode(Codec::Proto)?, b"\x0a\x03tea"[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Schema {
    pub(crate) pool: Arc<DescriptorPool>,
    indices: Arc<HashMap<String, MessageIndex, foldhash::fast::RandomState>>,
    descriptors: Bytes,
    edition: u64,
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
        Self::from_descriptors(descriptors.bytes())
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
        let edition = fnv_1a(NOTHING, &descriptors);
        let names = pool.messages().iter().map(|message| message.full_name());
        let named = names.filter_map(|name| Some((name.to_owned(), pool.message_index(name)?)));
        let indices = Arc::new(named.collect());
        Ok(Self { pool: Arc::new(pool), indices, descriptors, edition })
    }

    /// The descriptors as the message library has them, for what is not shown here: options, places
    /// in the source.
    pub fn pool(&self) -> &Arc<DescriptorPool> {
        &self.pool
    }

    /// All files with their imports, as an encoded `google.protobuf.FileDescriptorSet`.
    pub fn descriptors(&self) -> &Bytes {
        &self.descriptors
    }

    /// A number of its descriptors and of `how` they are used: another for others, as a rule, and
    /// the same on every host.
    pub fn edition(&self, how: &[u8]) -> u64 {
        fnv_1a(self.edition, how)
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
        let methods: Result<Vec<_>, _> = found
            .methods()
            .iter()
            .map(|method| interface::method(&self.pool, service, method))
            .collect();
        Ok(Some(Interface::dynamic(service.to_owned(), methods?, self.descriptors.clone())))
    }

    /// A message type, or `None` when the schema has no such type.
    pub fn message_type(&self, type_name: &str) -> Option<MessageType<'_>> {
        let index = self.index_of(type_name)?;
        Some(MessageType { pool: &self.pool, index })
    }

    /// An enum, or `None` when the schema has no such enum.
    pub fn enum_type(&self, type_name: &str) -> Option<EnumType<'_>> {
        let index = self.pool.enum_index(type_name)?;
        Some(EnumType { pool: &self.pool, index })
    }

    /// A message of the named type without any field set.
    ///
    /// # Errors
    /// [`Code::Internal`](tidewire_service::Code::Internal) when the schema has no such type.
    pub fn message(&self, type_name: &str) -> Result<Message> {
        let index = self.index(type_name)?;
        Ok(Message(DynamicMessage::new(Arc::clone(&self.pool), index)))
    }

    /// Decodes a message of the named type.
    ///
    /// Unknown JSON fields are ignored, as generated code does; unknown protobuf fields are kept.
    /// Both ways are bounded: messages nest 100 deep, and lists and maps may take 32 MiB in memory.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](tidewire_service::Code::InvalidArgument), for JSON with the path
    /// of the field; [`Code::Internal`](tidewire_service::Code::Internal) when the schema has no
    /// such type.
    pub fn decode(&self, type_name: &str, codec: Codec, bytes: &[u8]) -> Result<Message> {
        self.decode_at(self.index(type_name)?, codec, bytes)
    }

    pub(crate) fn decode_at(
        &self,
        index: MessageIndex,
        codec: Codec,
        bytes: &[u8],
    ) -> Result<Message> {
        let name = || self.pool.message(index).full_name();
        match codec {
            Codec::Proto => DynamicMessage::decode(Arc::clone(&self.pool), index, bytes)
                .map(Message)
                .map_err(|e| Error::invalid_argument(format!("not a valid {}: {e}", name()))),
            Codec::Json => {
                json::read(&self.pool, index, bytes, UnknownMembers::Ignored).map(Message)
            }
        }
    }

    /// Decodes JSON that a person wrote: a field that the message does not have is an error.
    ///
    /// # Errors
    /// As [`decode`](Self::decode); what is wrong names the field, line and column.
    pub fn decode_exactly(&self, type_name: &str, json: &[u8]) -> Result<Message> {
        let index = self.index(type_name)?;
        json::read(&self.pool, index, json, UnknownMembers::Refused).map(Message)
    }

    /// Decodes JSON, with members that name no field ignored or refused.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_json(
        &self,
        type_name: &str,
        json: &[u8],
        unknown: UnknownMembers,
    ) -> Result<Message> {
        let index = self.index(type_name)?;
        json::read(&self.pool, index, json, unknown).map(Message)
    }

    /// A message of which one field is decoded from JSON: `[1, 2]` is the value of a list, `null`
    /// sets nothing.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), with paths from the message; and
    /// [`Code::Internal`](tidewire_service::Code::Internal) when the type has no such field.
    pub fn decode_field(
        &self,
        type_name: &str,
        field: &str,
        json: &[u8],
        unknown: UnknownMembers,
    ) -> Result<Message> {
        let index = self.index(type_name)?;
        let found = self.pool.message(index).field_by_name(field);
        let found = found.ok_or_else(|| Error::internal(format!("{type_name} has no {field}")))?;
        json::read_field(&self.pool, index, found, json, unknown).map(Message)
    }

    /// Builds a message from JSON that is parsed already, such as a part of a YAML or JSON file.
    ///
    /// # Errors
    /// As [`decode_exactly`](Self::decode_exactly), without line and column.
    pub fn from_json(&self, type_name: &str, json: &serde_json::Value) -> Result<Message> {
        let index = self.index(type_name)?;
        json::read_tree(&self.pool, index, json, UnknownMembers::Refused).map(Message)
    }

    pub(crate) fn index(&self, type_name: &str) -> Result<MessageIndex> {
        self.index_of(type_name)
            .ok_or_else(|| Error::internal(format!("the schema has no message type {type_name}")))
    }

    fn index_of(&self, type_name: &str) -> Option<MessageIndex> {
        self.indices.get(type_name.strip_prefix('.').unwrap_or(type_name)).copied()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("services", &self.services().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The hash FNV-1a of `before` and these bytes.
fn fnv_1a(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The hash of no bytes.
const NOTHING: u64 = 0xcbf2_9ce4_8422_2325;
