//! What is known of services before a call: descriptors, from wherever they came.
//!
//! The same bytes serve three readers: [`Schema`] for messages and specs, the descriptor pool for
//! shapes, and the files as they are for comments and options.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use buffa_descriptor::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use tidewire::schema::Sources;
use tidewire::{Method, Schema};

use crate::names;

/// What descriptors may take in memory, as in [`Schema`]; a server could make much of little.
const DESCRIPTOR_MEMORY_MAX: usize = 1 << 30;

/// Services and messages by name.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub(crate) schema: Schema,
    pub(crate) pool: Arc<DescriptorPool>,
    /// The services that were asked for; imports may have more.
    services: Vec<String>,
    /// Where it is from, for messages: `protos`, `the server`.
    pub(crate) origin: String,
}

impl Catalog {
    /// From an encoded descriptor set with all imports.
    pub(crate) fn new(
        descriptors: Vec<u8>,
        services: Option<Vec<String>>,
        origin: String,
    ) -> anyhow::Result<Self> {
        let options = buffa::DecodeOptions::new().with_element_memory_limit(DESCRIPTOR_MEMORY_MAX);
        let pool = DescriptorPool::decode_with_options(&descriptors, &options)
            .map_err(|error| anyhow::anyhow!("the schema of {origin} cannot be used: {error}"))?;
        let schema = Schema::from_descriptors(descriptors)?;
        let services = services.unwrap_or_else(|| schema.services().map(str::to_owned).collect());
        Ok(Self { schema, pool: Arc::new(pool), services, origin })
    }

    /// From folders of `.proto` files, `.proto` files and descriptor sets.
    pub(crate) fn load(paths: &[impl AsRef<Path>]) -> anyhow::Result<Self> {
        let mut sources = Sources::new();
        for path in paths.iter().map(AsRef::as_ref) {
            if !path.exists() {
                bail!(
                    "{} does not exist; name a folder of .proto files, a .proto file or a \
                       descriptor set",
                    path.display()
                );
            }
            sources = match path.extension().is_some_and(|end| end == "proto") {
                _ if path.is_dir() => sources.folder(path),
                true => sources.file(path),
                false => sources.descriptor_set(path),
            };
        }
        let names: Vec<_> = paths.iter().map(|path| path.as_ref().display().to_string()).collect();
        let origin = names.join(", ");
        let compiled = sources.compile().with_context(|| format!("{origin} cannot be used"))?;
        let requested = compiled.files().iter().filter(|file| file.requested);
        let requested: Vec<_> = requested.map(|file| file.name.clone()).collect();
        let known = Self::new(compiled.bytes(), None, origin)?;
        let in_requested = |name: &String| {
            let file = known.pool.file_containing_symbol(name).and_then(|file| file.name.as_ref());
            file.is_some_and(|file| requested.contains(file))
        };
        let services = known.services.iter().filter(|name| in_requested(name)).cloned().collect();
        Ok(Self { services, ..known })
    }

    /// The full names of the services, in order.
    pub(crate) fn services(&self) -> impl Iterator<Item = &str> + Clone {
        self.services.iter().map(String::as_str)
    }

    pub(crate) fn service(&self, name: &str) -> Option<&ServiceDescriptor> {
        self.pool.service_by_name(name)
    }

    /// Every method with its service.
    pub(crate) fn methods(
        &self,
    ) -> impl Iterator<Item = (&ServiceDescriptor, &MethodDescriptor)> + Clone {
        let services = self.services().filter_map(|name| self.service(name));
        services.flat_map(|service| service.methods().iter().map(move |method| (service, method)))
    }

    /// The method that a name means: `Contacts/Get`, `contacts.v1.Contacts/Get`, with or without a
    /// slash before it, with a dot in place of the slash, or `Get` where only one service has it.
    ///
    /// # Errors
    /// None or several; says which there are, or which was probably meant.
    pub(crate) fn method(&self, name: &str) -> anyhow::Result<Method> {
        let wanted = name.trim_start_matches('/');
        let (service, method) = match wanted.rsplit_once('/') {
            Some((service, method)) => (Some(self.one_service(service)?), method),
            None if self.matching(wanted).count() > 0 => {
                bail!("{wanted} is a service; add a method: {}", self.methods_of(wanted));
            }
            None => match wanted.rsplit_once('.') {
                Some((service, method)) if self.matching(service).count() > 0 => {
                    (Some(self.one_service(service)?), method)
                }
                _ => (None, wanted),
            },
        };
        let in_service = self
            .methods()
            .filter(|(of, _)| service.as_deref().is_none_or(|service| of.full_name() == service));
        let exact = in_service.clone().filter(|(_, known)| known.name() == method);
        let same = |known: &&str| known.eq_ignore_ascii_case(method);
        let mut found: Vec<_> = exact.collect();
        if found.is_empty() {
            found = in_service.clone().filter(|(_, known)| same(&known.name())).collect();
        }
        // What every server has is meant only where nothing else is.
        if found.iter().any(|(of, _)| !is_built_in(of.full_name())) {
            found.retain(|(of, _)| !is_built_in(of.full_name()));
        }
        match found[..] {
            [(service, method)] => self.spec(service.full_name(), method.name()),
            [] => {
                let names = in_service.map(|(_, known)| known.name());
                let place = service.as_deref().unwrap_or(&self.origin);
                bail!("{place} has no method {method}{}", names::suggestion(method, names))
            }
            _ => {
                let all: Vec<_> = found.iter().map(|(s, m)| path(s, m)).collect();
                bail!("several services have a method {method}; say which: {}", all.join(", "))
            }
        }
    }

    fn spec(&self, service: &str, method: &str) -> anyhow::Result<Method> {
        let interface = self.schema.interface(service)?;
        let methods = interface.iter().flat_map(|interface| interface.methods());
        let found = methods.clone().find(|known| known.method == method).cloned();
        found.with_context(|| format!("{service} has no method {method}"))
    }

    /// The full name of the one service that a name means.
    ///
    /// # Errors
    /// None or several.
    pub(crate) fn one_service(&self, name: &str) -> anyhow::Result<String> {
        let mut found: Vec<_> = self.matching(name).collect();
        if found.iter().any(|of| !is_built_in(of)) {
            found.retain(|of| !is_built_in(of));
        }
        match found[..] {
            [service] => Ok(service.to_owned()),
            [] => {
                let suggestion = suggest_service(name, self.services());
                bail!("{} has no service {name}{suggestion}", self.origin)
            }
            _ => bail!("{name} is the end of several services; say which: {}", found.join(", ")),
        }
    }

    fn matching<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + Clone {
        let exact = self.services().any(|known| known == name);
        self.services().filter(
            move |known| {
                if exact { *known == name } else { is_end(known, name) }
            },
        )
    }

    fn methods_of(&self, service: &str) -> String {
        let of = self.methods().filter(|(of, _)| is_end(of.full_name(), service));
        let names: Vec<_> = of.map(|(of, method)| path(of, method)).collect();
        names.join(", ")
    }
}

/// Whether a service is one that servers have beside those of their program.
pub(crate) fn is_built_in(full_name: &str) -> bool {
    ["grpc.health.", "grpc.reflection.", "tidewire.live.", "tidewire.admin."]
        .iter()
        .any(|package| full_name.starts_with(package))
}

/// `package.Service/Method`.
pub(crate) fn path(service: &ServiceDescriptor, method: &MethodDescriptor) -> String {
    format!("{}/{}", service.full_name(), method.name())
}

/// Whether a full name ends with these parts: `v1.Contacts` of `contacts.v1.Contacts`, in any case.
pub(crate) fn is_end(full_name: &str, parts: &str) -> bool {
    let full_name = full_name.to_lowercase();
    let parts = parts.to_lowercase();
    full_name == parts || full_name.strip_suffix(&parts).is_some_and(|rest| rest.ends_with('.'))
}

/// A near service, by its full name or by its last part.
pub(crate) fn suggest_service<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let near = names::near(name, known.clone().map(last));
    match near.and_then(|near| known.clone().find(|full_name| last(full_name) == near)) {
        Some(full_name) => format!("; did you mean {full_name}?"),
        None => names::suggestion(name, known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"
        syntax = "proto3";
        package shop.v1;
        service Items { rpc Get(Item) returns (Item); rpc Put(Item) returns (Item); }
        service Orders { rpc Get(Item) returns (Item); rpc Cancel(Item) returns (Item); }
        message Item { string name = 1; }
    "#;

    fn load_catalog() -> Catalog {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
        let mut known = Catalog::load(&[folder.path()]).unwrap();
        known.origin = "shop".to_owned();
        known
    }

    #[test]
    fn services_of_a_program_go_before_those_that_every_server_has() {
        let proto = r#"
            syntax = "proto3";
            package PACKAGE;
            service Health { rpc Check(In) returns (In); rpc Watch(In) returns (In); }
            message In {}
        "#;
        let folder = tempfile::tempdir().unwrap();
        for package in ["grpc.health.v1", "clinic.v1"] {
            let path = folder.path().join(format!("{package}.proto"));
            std::fs::write(path, proto.replace("PACKAGE", package)).unwrap();
        }
        let known = Catalog::load(&[folder.path()]).unwrap();
        for name in ["Check", "Health/Check", "clinic.v1.Health/Check"] {
            assert_eq!(known.method(name).unwrap().path, "/clinic.v1.Health/Check", "{name}");
        }
        let built_in = known.method("grpc.health.v1.Health/Check").unwrap();
        assert_eq!(built_in.path, "/grpc.health.v1.Health/Check");
    }

    #[test]
    fn a_method_is_found_by_any_name_that_means_it() {
        let known = load_catalog();
        for name in [
            "shop.v1.Items/Put",
            "/shop.v1.Items/Put",
            "Items/Put",
            "v1.Items/Put",
            "items/put",
            "shop.v1.Items.Put",
            "Items.Put",
            "Put",
            "put",
        ] {
            assert_eq!(known.method(name).unwrap().path, "/shop.v1.Items/Put", "{name}");
        }
    }

    #[test]
    fn a_name_that_means_none_or_several_is_answered_with_those_that_are_there() {
        let known = load_catalog();
        for (name, expected) in [
            (
                "Get",
                "several services have a method Get; say which: shop.v1.Items/Get, shop.v1.Orders/Get",
            ),
            ("Items/Gett", "shop.v1.Items has no method Gett; did you mean Get?"),
            ("Itms/Get", "shop has no service Itms; did you mean shop.v1.Items?"),
            ("Cancl", "shop has no method Cancl; did you mean Cancel?"),
            ("Nothing/Like", "shop has no service Nothing; there is shop.v1.Items, shop.v1.Orders"),
            ("Items", "Items is a service; add a method: shop.v1.Items/Get, shop.v1.Items/Put"),
        ] {
            assert_eq!(known.method(name).unwrap_err().to_string(), expected);
        }
    }
}
