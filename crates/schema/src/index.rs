//! Which file declares what, over the descriptors of all services of a server.
//!
//! A file is kept as the bytes in which it came, so that options that nobody here knows stay in it.
//! Fields, oneofs and methods are not listed, being most of a schema: they are looked for in the
//! file of what they are declared in, when asked for.

use std::collections::{BTreeMap, HashMap, HashSet};

use buffa::encoding::{Tag, WireType, decode_varint, skip_field};
use buffa::{DecodeError, DecodeOptions};
use buffa_descriptor::generated::descriptor::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};
use bytes::Buf;

/// The files of a server by name, symbol and extension.
#[derive(Debug, Default)]
pub struct FileIndex {
    files: Vec<File>,
    by_name: HashMap<String, usize>,
    by_symbol: HashMap<String, usize>,
    /// The messages, with the file of each of their extensions by its number.
    messages: HashMap<String, BTreeMap<i32, usize>>,
    /// Where sets lie that were read: the services of one schema share theirs.
    seen: HashSet<(usize, usize)>,
}

#[derive(Debug)]
struct File {
    encoded: Vec<u8>,
    imports: Vec<String>,
}

impl FileIndex {
    /// Adds the files of a `FileDescriptorSet`; of two with one name the first counts.
    ///
    /// # Errors
    /// Bytes that are not such set.
    pub fn add(&mut self, mut set: &[u8]) -> Result<(), DecodeError> {
        if !self.seen.insert((set.as_ptr() as usize, set.len())) {
            return Ok(());
        }
        while set.has_remaining() {
            let tag = Tag::decode(&mut set)?;
            if tag.field_number() != FILE || tag.wire_type() != WireType::LengthDelimited {
                skip_field(tag, &mut set)?;
                continue;
            }
            let length = usize::try_from(decode_varint(&mut set)?).unwrap_or(usize::MAX);
            let (encoded, rest) = set.split_at_checked(length).ok_or(DecodeError::UnexpectedEof)?;
            set = rest;
            self.add_file(encoded)?;
        }
        Ok(())
    }

    fn add_file(&mut self, encoded: &[u8]) -> Result<(), DecodeError> {
        let file = decode(encoded)?;
        let name = file.name.unwrap_or_default();
        if self.by_name.contains_key(&name) {
            return Ok(());
        }
        let at = self.files.len();
        self.by_name.insert(name, at);
        self.files.push(File { encoded: encoded.to_vec(), imports: file.dependency });
        let package = file.package.unwrap_or_default();
        for message in &file.message_type {
            self.add_message(&package, message, at);
        }
        for declared in &file.enum_type {
            self.add_enum(&package, declared, at);
        }
        self.add_extensions(&package, &file.extension, at);
        for service in &file.service {
            self.add_symbol(&package, service.name.as_deref(), at);
        }
        Ok(())
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto, at: usize) {
        let name = self.add_symbol(scope, message.name.as_deref(), at);
        for nested in &message.nested_type {
            self.add_message(&name, nested, at);
        }
        for declared in &message.enum_type {
            self.add_enum(&name, declared, at);
        }
        self.add_extensions(&name, &message.extension, at);
        self.messages.entry(name).or_default();
    }

    /// Values are siblings of their enum, as in C++.
    fn add_enum(&mut self, scope: &str, declared: &EnumDescriptorProto, at: usize) {
        self.add_symbol(scope, declared.name.as_deref(), at);
        for value in &declared.value {
            self.add_symbol(scope, value.name.as_deref(), at);
        }
    }

    fn add_extensions(&mut self, scope: &str, extensions: &[FieldDescriptorProto], at: usize) {
        for extension in extensions {
            self.add_symbol(scope, extension.name.as_deref(), at);
            let extended = extension.extendee.as_deref().unwrap_or_default();
            let extended = extended.strip_prefix('.').unwrap_or(extended).to_owned();
            let number = extension.number.unwrap_or_default();
            self.messages.entry(extended).or_default().entry(number).or_insert(at);
        }
    }

    fn add_symbol(&mut self, scope: &str, name: Option<&str>, at: usize) -> String {
        let full = full_name(scope, name.unwrap_or_default());
        self.by_symbol.entry(full.clone()).or_insert(at);
        full
    }

    /// The file with a name, and what it imports.
    pub fn by_name(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        self.by_name.get(name).map(|at| self.with_imports(*at))
    }

    /// The file that declares a symbol, and what it imports.
    pub fn by_symbol(&self, symbol: &str) -> Option<Vec<Vec<u8>>> {
        let symbol = symbol.strip_prefix('.').unwrap_or(symbol);
        let at = match self.by_symbol.get(symbol) {
            Some(at) => *at,
            None => self.of_member(symbol)?,
        };
        Some(self.with_imports(at))
    }

    /// The file that declares an extension, and what it imports.
    pub fn by_extension(&self, message: &str, number: i32) -> Option<Vec<Vec<u8>>> {
        let message = message.strip_prefix('.').unwrap_or(message);
        self.messages.get(message)?.get(&number).map(|at| self.with_imports(*at))
    }

    /// The numbers of all extensions of a message, in order.
    pub fn extensions(&self, message: &str) -> Option<Vec<i32>> {
        let message = message.strip_prefix('.').unwrap_or(message);
        self.messages.get(message).map(|extensions| extensions.keys().copied().collect())
    }

    /// The file of a field, a oneof or a method.
    fn of_member(&self, symbol: &str) -> Option<usize> {
        let (parent, name) = symbol.rsplit_once('.')?;
        let at = *self.by_symbol.get(parent)?;
        let file = decode(&self.files[at].encoded).ok()?;
        let package = file.package.as_deref().unwrap_or_default();
        let is = |known: &Option<String>| known.as_deref() == Some(name);
        let methods = file.service.iter().filter(|service| {
            full_name(package, service.name.as_deref().unwrap_or_default()) == parent
        });
        let is_method = methods.flat_map(|service| &service.method).any(|method| is(&method.name));
        let is_member = || {
            find(package, &file.message_type, parent).is_some_and(|message| {
                message.field.iter().any(|field| is(&field.name))
                    || message.oneof_decl.iter().any(|oneof| is(&oneof.name))
            })
        };
        (is_method || is_member()).then_some(at)
    }

    /// The file and all that it imports, each once.
    fn with_imports(&self, at: usize) -> Vec<Vec<u8>> {
        let mut wanted = vec![at];
        let mut seen = HashSet::from([at]);
        let mut next = 0;
        while let Some(at) = wanted.get(next) {
            next += 1;
            let imports = &self.files[*at].imports;
            let known = imports.iter().filter_map(|name| self.by_name.get(name).copied());
            wanted.extend(known.filter(|at| seen.insert(*at)).collect::<Vec<_>>());
        }
        wanted.into_iter().map(|at| self.files[at].encoded.clone()).collect()
    }
}

/// The field of a `FileDescriptorSet` that holds its files.
const FILE: u32 = 1;

/// What a server serves is trusted, so that its size is not bounded here.
fn decode(encoded: &[u8]) -> Result<FileDescriptorProto, DecodeError> {
    DecodeOptions::new().with_element_memory_limit(usize::MAX).decode_from_slice(encoded)
}

fn full_name(scope: &str, name: &str) -> String {
    match scope {
        "" => name.to_owned(),
        scope => format!("{scope}.{name}"),
    }
}

/// The message with a full name among those of a scope and what is nested in them.
fn find<'a>(
    scope: &str,
    messages: &'a [DescriptorProto],
    wanted: &str,
) -> Option<&'a DescriptorProto> {
    messages.iter().find_map(|message| {
        let name = full_name(scope, message.name.as_deref().unwrap_or_default());
        if name == wanted {
            return Some(message);
        }
        // Only what the wanted name starts with can hold it.
        wanted.strip_prefix(&name)?.strip_prefix('.')?;
        find(&name, &message.nested_type, wanted)
    })
}
