//! `#[memo]`: a method becomes a memoized function.
//!
//! The method keeps its body under another name; under its own name it asks a memo that is made at
//! the first call and kept in the object's `memos: Methods` field. Parsing and generation only;
//! everything that runs is in `tidewire_memo::Methods`.

use proc_macro::TokenStream;
use proc_macro2::Span;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, FnArg, Ident, ImplItemFn, Pat, ReturnType, Token, parse_macro_input};

/// Memoizes an `async fn` of an `impl` block.
///
/// The receiver is `self: &Arc<Self>`, the arguments, which are plain names, are the key, and the
/// return type is a `Result<V, E>`. The object has a field `memos: Methods`, one for all its
/// memoized methods.
/// Options: `ttl = duration`, `error_ttl = duration`, `budget = bytes`, with any expressions.
///
/// ```ignore
/// #[memo(ttl = Duration::from_secs(60))]
/// async fn contact(self: &Arc<Self>, id: i32) -> Result<Contact, DbError> {
///     self.rows.read(&id);
///     self.db.contact(id).await
/// }
/// // contacts.contact(1).await? is a CachedValue<Contact>
/// ```
#[proc_macro_attribute]
pub fn memo(options: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(options as Options);
    let method = parse_macro_input!(item as ImplItemFn);
    expand(&options, method).unwrap_or_else(Error::into_compile_error).into()
}

/// `name = expression` pairs, each a method of `Memo`.
struct Options(Vec<(Ident, Expr)>);

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let pair = |input: ParseStream<'_>| {
            let name: Ident = input.parse()?;
            if !["ttl", "error_ttl", "budget", "verify"].iter().any(|known| name == known) {
                return Err(Error::new(
                    name.span(),
                    format!("unknown option {name}: expected ttl, error_ttl, budget or verify"),
                ));
            }
            input.parse::<Token![=]>()?;
            Ok((name, input.parse()?))
        };
        let pairs: Punctuated<_, Token![,]> = input.parse_terminated(pair, Token![,])?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

fn expand(options: &Options, mut method: ImplItemFn) -> syn::Result<proc_macro2::TokenStream> {
    let signature = &method.sig;
    if signature.asyncness.is_none() {
        return Err(Error::new(signature.span(), "a memoized method is an async fn"));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new(signature.generics.span(), "a memoized method is not generic"));
    }
    let Some(FnArg::Receiver(receiver)) = signature.inputs.first() else {
        return Err(Error::new(signature.span(), "a memoized method takes `self: &Arc<Self>`"));
    };
    if receiver.colon_token.is_none() {
        return Err(Error::new(receiver.span(), "a memoized method takes `self: &Arc<Self>`"));
    }
    let ReturnType::Type(_, output) = &signature.output else {
        return Err(Error::new(signature.span(), "a memoized method returns a Result"));
    };
    let mut names = Vec::new();
    let mut types = Vec::new();
    for argument in signature.inputs.iter().skip(1) {
        let FnArg::Typed(argument) = argument else { continue };
        let Pat::Ident(name) = &*argument.pat else {
            return Err(Error::new(
                argument.pat.span(),
                "an argument of a memoized method is a name",
            ));
        };
        names.push(name.ident.clone());
        types.push((*argument.ty).clone());
    }
    let attributes = method.attrs.clone();
    let visibility = method.vis.clone();
    let name = signature.ident.clone();
    let receiver = receiver.clone();
    let inner = format_ident!("__memoized_{name}");
    let text = name.to_string();
    let (option_names, option_values): (Vec<_>, Vec<_>) =
        options.0.iter().map(|(name, value)| (name, value)).unzip();
    let value = quote!(<#output as ::tidewire_memo::MethodOutput>::Value);
    // Names of ours that no argument's can be.
    let [memo, this, key] =
        ["memo", "this", "key"].map(|name| Ident::new(name, Span::mixed_site()));
    let method_name = format_ident!("__METHOD_{name}");
    let memoized = quote! {
        #(#attributes)*
        #visibility fn #name(#receiver, #(#names: #types),*)
            -> ::tidewire_memo::Get<(#(#types,)*), #value>
        {
            #[allow(non_upper_case_globals)]
            static #method_name: ::tidewire_memo::Method = ::tidewire_memo::Method::new(#text);
            let #memo = self.memos.memo(
                &#method_name,
                self,
                |#this: ::std::sync::Arc<Self>, #key: (#(#types,)*)| {
                    let (#(#names,)*) = #key;
                    async move { Self::#inner(&#this, #(#names),*).await }
                },
                |#memo| #memo #(.#option_names(#option_values))*,
            );
            #memo.get((#(#names,)*))
        }
    };
    method.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
    method.vis = syn::Visibility::Inherited;
    method.sig.ident = inner;
    Ok(quote! {
        #memoized
        #method
    })
}
