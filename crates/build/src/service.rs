//! Services: what is known of them, gathered from the descriptors and named in Rust.
//!
//! [`render`] writes the code. A service's code is appended to that of its package.

mod render;

use buffa::Message;
use buffa_codegen::CodeGenConfig;
use buffa_codegen::context::CodeGenContext;
use buffa_codegen::generated::descriptor::method_options::IdempotencyLevel;
use buffa_codegen::generated::descriptor::{
    FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto,
};
use buffa_codegen::idents::rust_path_to_tokens;
use proc_macro2::{Ident, TokenStream};
use tidewire_proto::MethodOptions;

use crate::messages::{Corpus, Package};
use crate::names::{self, NameScope};
use crate::{Error, comments};

/// A service, with all the names its code uses.
#[derive(Debug)]
struct Service {
    /// The full name, `shop.v1.Contacts`.
    name: String,
    docs: TokenStream,
    deprecated: bool,
    /// The trait.
    handler: Ident,
    /// The trait of implementations that serve only some methods.
    partial: Ident,
    /// A type parameter that is called as no message is.
    parameter: Ident,
    server: Ident,
    client: Ident,
    /// The module of method specs.
    specs: Ident,
    /// Where the descriptor set is, seen from the package.
    descriptor_set: TokenStream,
    /// The function that makes all messages known to `Any`.
    register_types: TokenStream,
    methods: Vec<Method>,
}

/// A method, with all the names its code uses.
#[derive(Debug)]
struct Method {
    /// The name in the `.proto`, `GetContact`.
    name: String,
    docs: TokenStream,
    deprecated: bool,
    /// The function of the trait.
    function: Ident,
    /// The function of the client.
    client_function: Ident,
    /// The static that holds the spec.
    spec: Ident,
    kind: Kind,
    input: Type,
    output: Type,
    idempotency: Option<IdempotencyLevel>,
    options: MethodOptions,
}

/// A message type.
#[derive(Debug)]
struct Type {
    /// The full name, `shop.v1.Contact`.
    name: String,
    /// The path, seen from the package.
    path: TokenStream,
}

/// Which sides stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unary,
    Client,
    Server,
    Bidi,
}

/// Appends the code of the services of the files `wanted` to that of their packages.
pub(crate) fn append(
    corpus: &Corpus,
    wanted: &[String],
    config: &CodeGenConfig,
    packages: &mut [Package],
) -> Result<(), Error> {
    let context = CodeGenContext::for_generate(&corpus.files, wanted, config);
    for package in packages {
        let mut taken = NameScope::in_package(&package.name, corpus, &context);
        let files = wanted.iter().filter_map(|name| corpus.file(name));
        for file in files.filter(|file| package_of(file) == package.name) {
            for (index, service) in file.service.iter().enumerate() {
                let model =
                    Gather { file, context: &context }.service(index, service, &mut taken)?;
                package.code.push_str(&render::service(&model).to_string());
                package.code.push('\n');
            }
        }
    }
    Ok(())
}

/// Gathers what is known of the services of one file.
struct Gather<'a> {
    file: &'a FileDescriptorProto,
    context: &'a CodeGenContext<'a>,
}

impl Gather<'_> {
    fn service(
        &self,
        index: usize,
        service: &ServiceDescriptorProto,
        taken: &mut NameScope,
    ) -> Result<Service, Error> {
        let simple = service.name.as_deref().unwrap_or_default();
        let name = match package_of(self.file) {
            "" => simple.to_owned(),
            package => format!("{package}.{simple}"),
        };
        let path = [FILE_SERVICE, number(index)];
        let comment = comments::at(self.file, &path);
        let mut functions = NameScope::default();
        let mut client_functions = NameScope::of(&["clone", "new"]);
        let mut specs = NameScope::of(&["METHODS"]);
        let mut methods = Vec::with_capacity(service.method.len());
        for (index, method) in service.method.iter().enumerate() {
            let path = [&path[..], &[SERVICE_METHOD, number(index)]].concat();
            let simple = method.name.as_deref().unwrap_or_default();
            let names = [
                functions.take(&names::snake(simple)),
                client_functions.take(&names::snake(simple)),
                specs.take(&names::shouty(simple)),
            ];
            methods.push(self.method(&name, &path, method, names)?);
        }
        let depth = package_of(self.file).split('.').filter(|name| !name.is_empty()).count();
        let root = "super::".repeat(depth);
        let descriptor_set = format!("{root}DESCRIPTOR_SET");
        let register_types = format!("{root}register_types");
        Ok(Service {
            docs: comments::doc(comment, &format!("The service `{name}`.")),
            deprecated: service.options.as_option().is_some_and(|o| o.deprecated == Some(true)),
            handler: taken.take_own(simple),
            partial: taken.take(&format!("{simple}Partial")),
            parameter: taken.clone().take("T"),
            server: taken.take(&format!("{simple}Server")),
            client: taken.take(&format!("{simple}Client")),
            specs: taken.take(&names::snake(simple)),
            descriptor_set: rust_path_to_tokens(&descriptor_set),
            register_types: rust_path_to_tokens(&register_types),
            name,
            methods,
        })
    }

    fn method(
        &self,
        service: &str,
        path: &[i32],
        method: &MethodDescriptorProto,
        [function, client_function, spec]: [Ident; 3],
    ) -> Result<Method, Error> {
        let name = method.name.clone().unwrap_or_default();
        let options = method.options.as_option();
        let encoded = options.map(Message::encode_to_vec).unwrap_or_default();
        let sides = (method.client_streaming == Some(true), method.server_streaming == Some(true));
        Ok(Method {
            docs: comments::doc(
                comments::at(self.file, path),
                &format!("Calls `{service}/{name}`."),
            ),
            deprecated: options.is_some_and(|options| options.deprecated == Some(true)),
            function,
            client_function,
            spec,
            kind: match sides {
                (false, false) => Kind::Unary,
                (true, false) => Kind::Client,
                (false, true) => Kind::Server,
                (true, true) => Kind::Bidi,
            },
            input: self.message(method.input_type.as_deref())?,
            output: self.message(method.output_type.as_deref())?,
            idempotency: options.and_then(|options| options.idempotency_level),
            options: MethodOptions::decode(&encoded)
                .map_err(|error| Error::generate(format!("{service}/{name}: {error}")))?,
            name,
        })
    }

    fn message(&self, name: Option<&str>) -> Result<Type, Error> {
        let name = name.unwrap_or_default();
        let path = self.context.rust_type_relative(name, package_of(self.file), 0);
        let path = path.ok_or_else(|| Error::generate(format!("there is no message {name}")))?;
        Ok(Type { name: name.trim_start_matches('.').to_owned(), path: rust_path_to_tokens(&path) })
    }
}

fn package_of(file: &FileDescriptorProto) -> &str {
    file.package.as_deref().unwrap_or_default()
}

fn number(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// `FileDescriptorProto.service`.
const FILE_SERVICE: i32 = 6;

/// `ServiceDescriptorProto.method`.
const SERVICE_METHOD: i32 = 2;
