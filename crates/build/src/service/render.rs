//! The Rust code of a service: the trait, its server, its client and the specs of its methods.
//!
//! Every name is written in full, so that messages may be called `Context`, `Result` or `Stream`.
//! Names of the crate `service` are written below [`SERVICE`](crate::runtime::SERVICE) and get the
//! runtime path later, with the rest of the code.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use tidewire_proto::{Access, CacheScope, MethodOptions};

use buffa_codegen::generated::descriptor::method_options::IdempotencyLevel;

use super::{Kind, Method, Service};

/// All the code of `service`.
pub(super) fn service(service: &Service) -> TokenStream {
    [handler(service), partial(service), server(service), specs(service), client(service)]
        .into_iter()
        .collect()
}

/// The trait that an implementation implements. All of its methods are required.
fn handler(service: &Service) -> TokenStream {
    let Service { docs, handler, partial, .. } = service;
    let deprecated = deprecated(service.deprecated);
    let functions = service.methods.iter().map(|method| {
        let docs = &method.docs;
        let deprecated = self::deprecated(method.deprecated);
        let head = head(method);
        let future = future(method);
        quote!(#docs #deprecated #head -> #future;)
    });
    let message = format!("`{{Self}}` does not implement `{handler}`");
    let note = format!("implement `{handler}`, or `{partial}` to serve only some of its methods");
    quote! {
        #docs
        #deprecated
        #[diagnostic::on_unimplemented(message = #message, note = #note)]
        pub trait #handler: ::core::marker::Send + ::core::marker::Sync + 'static {
            #[doc(hidden)]
            const ERRORS: ::__tidewire_service::dispatch::Errors =
                ::__tidewire_service::dispatch::Errors::Own;

            #(#functions)*
        }
    }
}

/// The trait of an implementation that says that it is partial: no method of it is required, and
/// whoever implements it implements the other trait.
fn partial(service: &Service) -> TokenStream {
    let Service { name, handler, partial, parameter: this, .. } = service;
    let docs = [
        format!(
            " Some methods of `{name}`: implement it in place of [`{handler}`], which it makes"
        ),
        " you implement. A method that you leave out answers `unimplemented`.".to_owned(),
    ];
    let deprecated = deprecated(service.deprecated);
    let functions = service.methods.iter().map(|method| {
        let docs = &method.docs;
        let deprecated = self::deprecated(method.deprecated);
        let head = head(method);
        let future = future(method);
        let parameter = parameter(method);
        let path = format!("/{name}/{}", method.name);
        quote! {
            #docs
            #deprecated
            #head -> #future {
                let _ = (context, #parameter);
                ::core::future::ready(::__tidewire_service::dispatch::left_out(#path))
            }
        }
    });
    let forwarded = service.methods.iter().map(|method| {
        let function = &method.function;
        let head = head(method);
        let future = future(method);
        let parameter = parameter(method);
        quote! {
            #head -> #future {
                <#this as #partial>::#function(self, context, #parameter)
            }
        }
    });
    quote! {
        #(#[doc = #docs])*
        #deprecated
        pub trait #partial: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#functions)*
        }

        impl<#this: #partial> #handler for #this {
            #(#forwarded)*
        }
    }
}

/// The service that serves an implementation.
fn server(service: &Service) -> TokenStream {
    let Service { handler, server, specs, descriptor_set, register_types, .. } = service;
    let name = &service.name;
    let docs = format!(" Serves an implementation of [`{handler}`].");
    let label = server.to_string();
    let cases = service.methods.iter().map(|method| {
        let name = &method.name;
        let function = &method.function;
        let kind = kind(method.kind);
        quote! {
            #name => ::__tidewire_service::dispatch::#kind(
                &self.0,
                call,
                <T as #handler>::ERRORS,
                |service, context, request| async move {
                    <T as #handler>::#function(&*service, context, request).await
                },
            ),
        }
    });
    quote! {
        #[doc = #docs]
        pub struct #server<T>(::std::sync::Arc<T>);

        impl<T: #handler> #server<T> {
            /// Serves `service`.
            pub fn new(service: T) -> Self {
                Self(::std::sync::Arc::new(service))
            }

            /// Serves a `service` that others hold too.
            pub fn from_arc(service: ::std::sync::Arc<T>) -> Self {
                Self(service)
            }
        }

        impl<T> ::core::clone::Clone for #server<T> {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        impl<T> ::core::fmt::Debug for #server<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(#label)
            }
        }

        impl<T: #handler> ::__tidewire_service::Service for #server<T> {
            fn call(&self, call: ::__tidewire_service::Call) -> ::__tidewire_service::Answer {
                match call.spec().map_or("", |spec| &spec.method) {
                    #(#cases)*
                    _ => ::__tidewire_service::dispatch::unimplemented(&call),
                }
            }
        }

        impl<T: #handler> ::__tidewire_service::RpcService for #server<T> {
            fn interface(&self) -> ::__tidewire_service::Interface {
                ::__tidewire_service::register_types(#register_types);
                ::__tidewire_service::Interface::new(#name, #specs::METHODS, #descriptor_set)
            }
        }
    }
}

/// The module of method specs.
fn specs(service: &Service) -> TokenStream {
    let Service { name, specs, .. } = service;
    let docs = format!(" The methods of `{name}`.");
    let statics = service.methods.iter().map(|method| {
        let docs = format!(" `{name}/{}`.", method.name);
        let ident = &method.spec;
        let spec = spec(name, method);
        quote! {
            #[doc = #docs]
            pub static #ident: ::__tidewire_service::Spec = #spec;
        }
    });
    let idents = service.methods.iter().map(|method| &method.spec);
    quote! {
        #[doc = #docs]
        pub mod #specs {
            #(#statics)*

            /// All of them, in the order of the `.proto`.
            pub static METHODS: &[&::__tidewire_service::Spec] = &[#(&#idents),*];
        }
    }
}

fn spec(service: &str, method: &Method) -> TokenStream {
    let name = &method.name;
    let options = &method.options;
    let path = format!("/{service}/{name}");
    let kind = match method.kind {
        Kind::Unary => quote!(Unary),
        Kind::Client => quote!(Client),
        Kind::Server => quote!(Server),
        Kind::Bidi => quote!(Bidi),
    };
    let input = &method.input.name;
    let output = &method.output.name;
    let idempotency = match method.idempotency {
        Some(IdempotencyLevel::NO_SIDE_EFFECTS) => Some(quote!(NoSideEffects)),
        Some(IdempotencyLevel::IDEMPOTENT) => Some(quote!(Idempotent)),
        _ => None,
    };
    let idempotency =
        idempotency.map(|level| quote!(.idempotency(::__tidewire_service::Idempotency::#level)));
    let cache = options.cache.as_ref().map(|cache| match cache {
        CacheScope::Public => quote!(Public),
        CacheScope::Caller => quote!(Caller),
        CacheScope::Vary(headers) => quote!(vary(&[#(#headers),*])),
    });
    let cache = cache.map(|scope| quote!(.cache(::__tidewire_service::CacheScope::#scope)));
    let ttl = options.ttl.map(|ttl| {
        let milliseconds = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        quote!(.ttl_ms(#milliseconds))
    });
    let immutable = options.immutable.then(|| quote!(.immutable()));
    let coalesce = options.coalesce.then(|| quote!(.coalesce()));
    let http_status = options.http_status.map(|status| quote!(.http_status(#status)));
    let caching = caching(options);
    let access = options.access.as_ref().map(|access| match access {
        Access::Anonymous => quote!(Anonymous),
        Access::Authenticated => quote!(Authenticated),
        Access::Scopes(scopes) => quote!(scopes(&[#(#scopes),*])),
    });
    let access = access.map(|access| quote!(.access(::__tidewire_service::Access::#access)));
    quote! {
        ::__tidewire_service::Spec::new(
            #service,
            #name,
            #path,
            ::__tidewire_service::StreamKind::#kind,
            [#input, #output],
        )
        #idempotency #cache #ttl #immutable #coalesce #http_status #caching #access
    }
}

/// What caches of HTTP are told, where anything is.
fn caching(options: &MethodOptions) -> Option<TokenStream> {
    let lives = [options.max_age, options.stale_while_revalidate, options.stale_if_error];
    lives.iter().any(Option::is_some).then(|| {
        let [max_age, stale_while_revalidate, stale_if_error] = lives.map(|life| match life {
            None => quote!(::core::option::Option::None),
            Some(life) => {
                let seconds = life.as_secs();
                quote!(::core::option::Option::Some(#seconds))
            }
        });
        quote! {
            .caching(::__tidewire_service::Caching {
                max_age: #max_age,
                stale_while_revalidate: #stale_while_revalidate,
                stale_if_error: #stale_if_error,
            })
        }
    })
}

/// The client, which is an implementation too.
fn client(service: &Service) -> TokenStream {
    let Service { name, handler, client, specs, register_types, .. } = service;
    let docs = [
        format!(" Calls a `{name}` through any channel; cheap to clone."),
        String::new(),
        format!(
            " It is a [`{handler}`] too: as such it takes the place of a local one, and a context"
        ),
        " for each call.".to_owned(),
    ];
    let own = service.methods.iter().map(|method| {
        let docs = &method.docs;
        let deprecated = deprecated(method.deprecated);
        let function = &method.client_function;
        let request = request(method);
        let answer = answer(method);
        let kind = kind(method.kind);
        let spec = &method.spec;
        let name = parameter(method);
        let context = quote!(::core::default::Default::default());
        quote! {
            #docs
            #deprecated
            pub async fn #function(&self, #name: #request) -> #answer {
                self.channel.#kind(&#specs::#spec, #context, #name).await
            }
        }
    });
    let as_handler = service.methods.iter().map(|method| {
        let head = head(method);
        let answer = answer(method);
        let kind = kind(method.kind);
        let spec = &method.spec;
        let name = parameter(method);
        quote! {
            async #head -> #answer {
                self.channel.#kind(&#specs::#spec, context, #name).await
            }
        }
    });
    quote! {
        #(#[doc = #docs])*
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        pub struct #client {
            channel: ::__tidewire_service::Channel,
        }

        impl #client {
            /// Calls through `channel`, which any service is.
            pub fn new(channel: impl ::core::convert::Into<::__tidewire_service::Channel>) -> Self {
                ::__tidewire_service::register_types(#register_types);
                Self { channel: ::core::convert::Into::into(channel) }
            }

            #(#own)*
        }

        impl #handler for #client {
            const ERRORS: ::__tidewire_service::dispatch::Errors =
                ::__tidewire_service::dispatch::Errors::PassedOn;

            #(#as_handler)*
        }
    }
}

/// `fn greet(&self, context: Context, request: GreetRequest)`.
fn head(method: &Method) -> TokenStream {
    let function = &method.function;
    let name = parameter(method);
    let request = request(method);
    quote!(fn #function(&self, context: ::__tidewire_service::Context, #name: #request))
}

/// How what comes in is called.
fn parameter(method: &Method) -> proc_macro2::Ident {
    match method.kind {
        Kind::Unary | Kind::Server => format_ident!("request"),
        Kind::Client | Kind::Bidi => format_ident!("requests"),
    }
}

/// What comes in: a message, or a stream of them.
fn request(method: &Method) -> TokenStream {
    let path = &method.input.path;
    match method.kind {
        Kind::Unary | Kind::Server => quote!(#path),
        Kind::Client | Kind::Bidi => quote!(::__tidewire_service::Stream<#path>),
    }
}

/// The future of what comes back.
fn future(method: &Method) -> TokenStream {
    let answer = answer(method);
    quote!(impl ::core::future::Future<Output = #answer> + ::core::marker::Send)
}

/// What comes back: a reply of a message or of a stream of them, or an error.
fn answer(method: &Method) -> TokenStream {
    let path = &method.output.path;
    let reply = match method.kind {
        Kind::Unary | Kind::Client => quote!(#path),
        Kind::Server | Kind::Bidi => quote!(::__tidewire_service::Stream<#path>),
    };
    quote! {
        ::core::result::Result<::__tidewire_service::Reply<#reply>, ::__tidewire_service::Error>
    }
}

/// The function of dispatch and channel for a kind of method.
fn kind(kind: Kind) -> proc_macro2::Ident {
    match kind {
        Kind::Unary => format_ident!("unary"),
        Kind::Client => format_ident!("client_stream"),
        Kind::Server => format_ident!("server_stream"),
        Kind::Bidi => format_ident!("bidi_stream"),
    }
}

fn deprecated(deprecated: bool) -> Option<TokenStream> {
    deprecated.then(|| quote!(#[deprecated]))
}
