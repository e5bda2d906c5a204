//! Who calls, as a server of plain HTTP behind this one is told: in a header that only the gateway
//! sets.

use tidewire_service::{Context, Headers, PRINCIPAL_HEADER, Principal, remove_gateway_headers};

use crate::forwarded;

/// Says in headers who calls.
pub fn tell_principal(headers: &mut Headers, principal: Option<&Principal>) {
    if let Some(principal) = principal {
        headers.insert(PRINCIPAL_HEADER, principal.to_header());
    }
}

/// Says in the headers of a request of plain HTTP who makes it, in place of what its caller says in
/// such headers. Nor can that have them taken out on the way, by its `Connection`. A body of
/// messages passes unread from then on.
pub fn tell_plain(context: &mut Context) {
    context.pass_body();
    let principal = context.principal().cloned();
    let headers = context.headers_mut();
    forwarded::settle_connection(headers);
    remove_gateway_headers(headers);
    tell_principal(headers, principal.as_ref());
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn ada() -> Principal {
        Principal::new("https://id.example", "ada")
    }

    #[test]
    fn a_page_is_told_by_the_gateway_alone() {
        let forged = HeaderValue::from_static(r#"{"issuer":"i","subject":"root"}"#);
        let with = |names: &[&'static str], principal: Option<Principal>| {
            let mut context = Context::default();
            for name in names {
                context.headers_mut().append(HeaderName::from_static(name), forged.clone());
            }
            context
                .headers_mut()
                .insert("connection", "Tidewire-Principal, close".parse().unwrap());
            context.set_principal(principal);
            tell_plain(&mut context);
            tidewire_service::end_to_end(context.into_headers())
        };
        let names = ["tidewire-principal", "tidewire_principal", "tidewire.principal"];
        assert!(with(&names, None).is_empty());
        let told = with(&names, Some(ada()));
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(Principal::from_header(&told[PRINCIPAL_HEADER]), Some(ada()));
    }
}
