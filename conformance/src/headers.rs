//! Headers of the suite's messages to those of Tidewire, and back: for server and client alike.

use tidewire::Headers;
use tidewire::http::header::{HeaderName, HeaderValue};

use crate::proto::connectrpc::conformance::v1::Header;

/// What the suite asks for; a name or value that HTTP does not have is left out.
pub(crate) fn header_map(headers: &[Header]) -> Headers {
    let mut map = Headers::new();
    for header in headers {
        for value in &header.value {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(&header.name), HeaderValue::try_from(value))
            {
                map.append(name, value);
            }
        }
    }
    map
}

/// What came, for the suite to compare.
pub(crate) fn headers(map: &Headers) -> Vec<Header> {
    let of = |name: &HeaderName| {
        let values = map.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    map.keys()
        .map(|name| Header { name: name.to_string(), value: of(name), ..Default::default() })
        .collect()
}
