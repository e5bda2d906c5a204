//! What a handler of plain HTTP wants of a request: parts of the path, the query string, headers,
//! JSON and forms.
//!
//! Each says what is wrong with the request in the caller's words: the part, the parameter or the
//! field.

use std::any::type_name;
use std::str::FromStr;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;

use crate::codec::located;
use crate::{Call, Error, Result};

impl Call {
    /// A named part of the path: `call.param::<u64>("id")?` for `/orders/{id}`.
    ///
    /// ```
    /// # mod tidewire {
    /// #     pub use tidewire_service::*;
    /// #     pub mod service { pub use tidewire_service::*; }
    /// # }
    /// # use std::sync::Arc;
    /// # use tidewire::service::{HttpTarget, PathParams, Target};
    /// use tidewire::{Call, Code};
    ///
    /// // GET /orders/{id}
    /// fn id(call: &Call) -> tidewire::Result<u64> {
    ///     call.param("id")
    /// }
    /// # let called = |id: &str| {
    /// #     let mut params = PathParams::default();
    /// #     params.push(Arc::from("id"), id.to_owned());
    /// #     let target = HttpTarget::new(http::Method::GET, http::Uri::from_static("/"));
    /// #     Call::of_target(Target::Http(target.with_params(params)), Default::default(), "")
    /// # };
    /// assert_eq!(id(&called("7"))?, 7);
    /// assert_eq!(id(&called("seven")).unwrap_err().code(), Code::InvalidArgument);
    /// # Ok::<(), tidewire::Error>(())
    /// ```
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) when the part does not parse;
    /// [`Code::Internal`](crate::Code::Internal) when the route has no such part.
    pub fn param<T: FromStr>(&self, name: &str) -> Result<T> {
        let text = self.http_target().and_then(|target| target.params.value(name));
        let text = text.ok_or_else(|| {
            Error::internal(format!("{} has no part {{{name}}} in its path", self.describe()))
        })?;
        text.parse().map_err(|_| {
            Error::invalid_argument(format!("{name} in the path is {text:?}, no {}", plain::<T>()))
        })
    }

    /// The query string as a value: `?page=2&tag=a&tag=b` for a struct with `page` and a list
    /// `tag`.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::{Call, Result};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Page {
    ///     #[serde(default)]
    ///     page: u32,
    ///     #[serde(default)]
    ///     tag: Vec<String>,
    /// }
    ///
    /// # let uri = http::Uri::from_static("/orders?page=2&tag=new&tag=paid");
    /// # let call = Call::http(http::Method::GET, uri, Default::default(), "");
    /// // GET /orders?page=2&tag=new&tag=paid
    /// let page: Page = call.query()?;
    /// assert_eq!((page.page, page.tag.len()), (2, 2));
    /// # Ok::<(), tidewire::Error>(())
    /// ```
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) that says what does not fit.
    pub fn query<T: DeserializeOwned>(&self) -> Result<T> {
        let query = self.http_target().and_then(|target| target.uri.query()).unwrap_or_default();
        if percent_encoding::percent_decode_str(query).decode_utf8().is_err() {
            let text = "the query string is not UTF-8 after percent-decoding";
            return Err(Error::invalid_argument(text));
        }
        urlencoded(query.as_bytes(), "the query string")
    }

    /// A header as a value, `None` where it is not sent: `call.header::<u8>("x-priority")?`. Of
    /// several with one name it is the first.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// # use tidewire::Headers;
    /// use tidewire::Call;
    ///
    /// # let value = http::HeaderValue::from_static("3");
    /// # let headers = Headers::from_iter([(http::HeaderName::from_static("x-priority"), value)]);
    /// # let context = tidewire::Context::new(headers);
    /// # let call = Call::http(http::Method::GET, http::Uri::from_static("/"), context, "");
    /// let priority: Option<u8> = call.header("x-priority")?;
    /// assert_eq!(priority, Some(3));
    /// assert_eq!(call.header::<String>("x-tenant")?, None);
    /// # Ok::<(), tidewire::Error>(())
    /// ```
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) that names the header, when it does
    /// not parse or is not text.
    pub fn header<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.context.header(name) else { return Ok(None) };
        let text = value.to_str().map_err(|_| {
            Error::invalid_argument(format!("the header {name} is not text in ASCII"))
        })?;
        text.parse().map(Some).map_err(|_| {
            Error::invalid_argument(format!("the header {name} is {text:?}, no {}", plain::<T>()))
        })
    }

    /// The body of a form (`application/x-www-form-urlencoded`) as a value, as
    /// [`query`](Self::query) reads a query string.
    ///
    /// # Errors
    /// 415 for another content type;
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) with the name of the field that does
    /// not fit; any error of the body, such as one over a limit.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was read is lost with the future.
    pub async fn form<T: DeserializeOwned>(&mut self) -> Result<T> {
        if self.essence() != "application/x-www-form-urlencoded" {
            let wanted =
                "the body is not a form; send content-type: application/x-www-form-urlencoded";
            return Err(Error::invalid_argument(wanted)
                .with_http_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = self.message().await?;
        urlencoded(&bytes, "the form")
    }

    /// The body as a value in JSON.
    ///
    /// # Errors
    /// 415 when the content type is not JSON;
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) with the path of the field that does
    /// not fit; any error of the body, such as one over a limit.
    ///
    /// # Cancel safety
    /// Not cancel safe: what was read is lost with the future.
    pub async fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        if !self.is_json() {
            let wanted = "the body is not JSON; send content-type: application/json";
            return Err(Error::invalid_argument(wanted)
                .with_http_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = self.message().await?;
        located::<T>(&bytes)
            .map_err(|wrong| Error::invalid_argument(format!("the body does not fit: {wrong}")))
    }

    fn is_json(&self) -> bool {
        let essence = self.essence();
        essence == "application/json"
            || (essence.starts_with("application/") && essence.ends_with("+json"))
    }

    /// The content type without its parameters, in lower case.
    fn essence(&self) -> String {
        let value = self.context.header(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = value.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        essence.to_ascii_lowercase()
    }
}

/// Pairs as a value; `place` says where they stood.
fn urlencoded<T: DeserializeOwned>(text: &[u8], place: &str) -> Result<T> {
    let pairs = serde_html_form::Deserializer::from_bytes(text);
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let path = error.path().to_string();
        let cause = error.into_inner();
        Error::invalid_argument(match path.as_str() {
            "." | "" => format!("{place} does not fit: {cause}"),
            name => format!("{name} in {place} does not fit: {cause}"),
        })
    })
}

/// The name of a type without its path: `u64`, `Uuid`.
fn plain<T>() -> &'static str {
    type_name::<T>().rsplit("::").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderValue, Method, Uri};
    use serde::Deserialize;

    use super::*;
    use crate::{Body, Code, Context, Headers, HttpTarget, PathParams, Target};

    fn call(uri: &'static str, content_type: &'static str, body: &'static str) -> Call {
        let mut headers = Headers::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let mut call = Call::http(
            Method::POST,
            Uri::from_static(uri),
            Context::new(headers),
            Body::from(body),
        );
        let mut params = PathParams::default();
        params.push(Arc::from("id"), "4x".to_owned());
        params.push(Arc::from("n"), "7".to_owned());
        let target = HttpTarget::new(Method::POST, Uri::from_static(uri)).with_params(params);
        call.target = Target::Http(target);
        call
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Page {
        page: u32,
        #[serde(default)]
        tag: Vec<String>,
    }

    fn ready<T>(future: impl Future<Output = T>) -> T {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut cx) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("the body is there at once"),
        }
    }

    #[test]
    fn a_part_of_the_path_is_parsed_and_what_does_not_parse_is_named() {
        let call = call("/", "application/json", "");
        assert_eq!(call.param::<u64>("n").ok(), Some(7));
        assert_eq!(call.param::<String>("id").ok().as_deref(), Some("4x"));
        let error = call.param::<u64>("id").expect_err("no number");
        assert_eq!(error.to_string(), r#"invalid_argument: id in the path is "4x", no u64"#);
        assert_eq!(call.param::<u64>("other").expect_err("no part").code(), Code::Internal);
    }

    #[test]
    fn a_query_string_is_a_value_and_what_does_not_fit_is_named() {
        let page = call("/?page=2&tag=a&tag=b%20c", "", "").query::<Page>().expect("it fits");
        assert_eq!(page, Page { page: 2, tag: vec!["a".to_owned(), "b c".to_owned()] });
        let error = call("/?page=two", "", "").query::<Page>().expect_err("no number");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("page"), "{error}");
        let error = call("/", "", "").query::<Page>().expect_err("no page");
        assert!(error.message().contains("page"), "{error}");
    }

    #[test]
    fn a_header_is_a_value_and_what_does_not_fit_is_named() {
        let mut call = call("/", "text/plain", "");
        call.context.headers_mut().append("x-priority", HeaderValue::from_static("3"));
        let tenant = HeaderValue::from_bytes(b"caf\xe9").expect("a value");
        call.context.headers_mut().append("x-tenant", tenant);
        assert_eq!(call.header::<u8>("X-Priority").ok(), Some(Some(3)));
        assert_eq!(call.header::<u8>("x-other").ok(), Some(None));
        let error = call.header::<bool>("x-priority").expect_err("no bool");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.message(), r#"the header x-priority is "3", no bool"#);
        let error = call.header::<String>("x-tenant").expect_err("no ASCII");
        assert_eq!(error.message(), "the header x-tenant is not text in ASCII");
    }

    #[test]
    fn a_form_is_a_value_and_what_does_not_fit_is_named() {
        let form = "Application/X-WWW-Form-Urlencoded; charset=utf-8";
        let page = ready(call("/", form, "page=2&tag=a&tag=b+c").form::<Page>()).expect("it fits");
        assert_eq!(page, Page { page: 2, tag: vec!["a".to_owned(), "b c".to_owned()] });
        let error = ready(call("/", form, "page=two").form::<Page>()).expect_err("no number");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().starts_with("page in the form does not fit"), "{error}");
        let error = ready(call("/", "text/plain", "page=2").form::<Page>()).expect_err("no form");
        assert_eq!(error.http_status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }

    #[test]
    fn json_is_a_value_and_what_does_not_fit_is_named() {
        let json = "application/vnd.page+json; charset=utf-8";
        let page = ready(call("/", json, r#"{"page":3}"#).json::<Page>()).expect("it fits");
        assert_eq!(page.page, 3);
        let error = ready(call("/", json, r#"{"page":"x"}"#).json::<Page>()).expect_err("a text");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains("page: invalid type"), "{error}");
        let error = ready(call("/", "text/plain", "{}").json::<Page>()).expect_err("no JSON");
        assert_eq!(error.http_status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}
