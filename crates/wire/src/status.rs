//! gRPC's status: `grpc-status`, `grpc-message`, and the details in `grpc-status-details-bin`.
//!
//! The details are an encoded `google.rpc.Status`, which is read and written here by hand: three
//! fields, one of them an `Any`. Where it is there its code and message count, as in grpc-go.

use base64::Engine as _;
use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use tidewire_service::{Code, Detail, Error};

use crate::headers::BASE64;

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// Adds the status of a success to trailers.
pub(crate) fn put_ok(trailers: &mut HeaderMap) {
    const OK: HeaderValue = HeaderValue::from_static("0");
    trailers.insert(GRPC_STATUS, OK);
}

/// Adds the status of a failure to trailers.
pub(crate) fn put(trailers: &mut HeaderMap, error: &Error) {
    /// What `grpc-message` cannot have as it is: controls, the sign itself, and all but ASCII.
    const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
    trailers.insert(GRPC_STATUS, HeaderValue::from(u16::from(error.code().number())));
    if !error.message().is_empty() {
        let message = utf8_percent_encode(error.message(), ESCAPED).to_string();
        trailers.insert(GRPC_MESSAGE, HeaderValue::try_from(message).expect("all is escaped"));
    }
    if !error.details().is_empty() {
        let status = BASE64.encode(encode(error));
        trailers.insert(GRPC_DETAILS, HeaderValue::try_from(status).expect("base64 is ASCII"));
    }
}

/// `google.rpc.Status`.
fn encode(error: &Error) -> Vec<u8> {
    let mut status = vec![0x08, error.code().number()];
    put_bytes(&mut status, 2, error.message().as_bytes());
    for detail in error.details() {
        let mut any = Vec::new();
        put_bytes(&mut any, 1, format!("type.googleapis.com/{}", detail.type_name).as_bytes());
        put_bytes(&mut any, 2, &detail.value);
        put_bytes(&mut status, 3, &any);
    }
    status
}

fn put_bytes(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

/// What trailers say of a call: `None` if they do not say it.
pub(crate) fn of_trailers(trailers: &HeaderMap) -> Option<Result<(), Error>> {
    let mut statuses = trailers.get_all(GRPC_STATUS).iter();
    let status = statuses.next()?;
    if statuses.any(|other| other != status) {
        return Some(Err(Error::internal("the server sent two statuses that differ")));
    }
    let number = number(status.as_bytes());
    if number == Some(0) {
        return Some(Ok(()));
    }
    let Some(number) = number else {
        let text = format!("the server sent the status {status:?}, which is not a number");
        return Some(Err(Error::internal(text)));
    };
    let message = trailers.get(GRPC_MESSAGE).map(|value| percent_decode(value.as_bytes()));
    let message = message.map(|text| text.decode_utf8_lossy().into_owned()).unwrap_or_default();
    let code = Code::from_number(number).unwrap_or(Code::Unknown);
    let details = trailers.get(GRPC_DETAILS).and_then(|value| BASE64.decode(value).ok());
    let Some(status) = details.and_then(|bytes| Status::decode(bytes.into())) else {
        return Some(Err(Error::new(code, message)));
    };
    let code = Code::from_number(status.code).unwrap_or(code);
    let message = if status.message.is_empty() { message } else { status.message };
    let error = Error::new(code, message);
    Some(Err(status.details.into_iter().fold(error, Error::with_detail)))
}

/// A status: digits and nothing else, no sign.
fn number(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// `google.rpc.Status`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Status {
    code: u32,
    message: String,
    details: Vec<Detail>,
}

impl Status {
    fn decode(mut bytes: Bytes) -> Option<Self> {
        let mut status = Self::default();
        while bytes.has_remaining() {
            match field(&mut bytes)? {
                (1, Field::Number(code)) => status.code = u32::try_from(code).ok()?,
                (2, Field::Bytes(text)) => {
                    status.message = String::from_utf8_lossy(&text).into_owned();
                }
                (3, Field::Bytes(any)) => status.details.push(detail(any)?),
                _ => {}
            }
        }
        Some(status)
    }
}

/// `google.protobuf.Any`.
fn detail(mut bytes: Bytes) -> Option<Detail> {
    let mut detail = Detail { type_name: String::new(), value: Bytes::new() };
    while bytes.has_remaining() {
        match field(&mut bytes)? {
            (1, Field::Bytes(url)) => {
                let url = String::from_utf8_lossy(&url).into_owned();
                detail.type_name = url.rsplit('/').next().unwrap_or_default().to_owned();
            }
            (2, Field::Bytes(value)) => detail.value = value,
            _ => {}
        }
    }
    Some(detail)
}

enum Field {
    Number(u64),
    Bytes(Bytes),
    Fixed,
}

/// The next field of a protobuf message: its number and value.
fn field(bytes: &mut Bytes) -> Option<(u64, Field)> {
    let tag = varint(bytes)?;
    let fixed = |bytes: &mut Bytes, length| {
        (bytes.remaining() >= length).then(|| bytes.advance(length)).map(|()| Field::Fixed)
    };
    let value = match tag & 7 {
        0 => Field::Number(varint(bytes)?),
        1 => fixed(bytes, 8)?,
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            (bytes.remaining() >= length).then(|| Field::Bytes(bytes.split_to(length)))?
        }
        5 => fixed(bytes, 4)?,
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn varint(bytes: &mut Bytes) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let detail = Detail { type_name: "t.T".to_owned(), value: vec![7; 300].into() };
        for (message, escaped) in [
            ("no ✓", "no %E2%9C%93"),
            ("100 %\r\n\x1b\x7f", "100 %25%0D%0A%1B%7F"),
            ("~ !", "~ !"),
            ("", ""),
        ] {
            for error in
                [Error::aborted(message), Error::aborted(message).with_detail(detail.clone())]
            {
                let mut trailers = HeaderMap::new();
                put(&mut trailers, &error);
                assert_eq!(trailers[GRPC_STATUS], "10");
                let sent = trailers.get(GRPC_MESSAGE).map_or("", |value| value.to_str().unwrap());
                assert_eq!(sent, escaped);
                assert_eq!(trailers.contains_key(GRPC_DETAILS), !error.details().is_empty());
                let back = of_trailers(&trailers).unwrap().unwrap_err();
                assert_eq!((back.code(), back.message()), (Code::Aborted, message));
                assert_eq!(back.details(), error.details());
            }
        }
    }

    #[test]
    fn a_status_is_digits_and_there_is_one() {
        let check = |statuses: &[&'static str], expected: Option<Code>| {
            let mut trailers = HeaderMap::new();
            for status in statuses {
                trailers.append(GRPC_STATUS, HeaderValue::from_static(status));
            }
            let outcome = of_trailers(&trailers).unwrap();
            assert_eq!(outcome.map_err(|error| error.code()).err(), expected, "{statuses:?}");
        };
        check(&["0"], None);
        check(&["00"], None);
        check(&["0", "0"], None);
        check(&["5"], Some(Code::NotFound));
        for wrong in
            [&["+0"][..], &["-0"], &[""], &[" 0"], &["0", "5"], &["5", "0"], &["99999999999"]]
        {
            check(wrong, Some(Code::Internal));
        }
    }

    #[test]
    fn trailers_become_an_error_with_its_details() {
        let mut trailers = HeaderMap::new();
        assert!(of_trailers(&trailers).is_none());
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
        assert!(of_trailers(&trailers).unwrap().is_ok());

        trailers.insert(GRPC_STATUS, HeaderValue::from_static("5"));
        trailers.insert(GRPC_MESSAGE, HeaderValue::from_static("no%20%E2%9C%93"));
        let error = of_trailers(&trailers).unwrap().unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::NotFound, "no ✓"));

        // code 9, message "m", a detail of type t.T with the bytes 1 2.
        let any = b"\x0a\x05x/t.T\x12\x02\x01\x02";
        let status = [&b"\x08\x09\x12\x01m\x1a\x0b"[..], any].concat();
        trailers.insert(GRPC_DETAILS, crate::headers::binary_value(&status));
        let error = of_trailers(&trailers).unwrap().unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::FailedPrecondition, "m"));
        let detail = Detail { type_name: "t.T".to_owned(), value: Bytes::from_static(&[1, 2]) };
        assert_eq!(error.details(), [detail]);

        trailers.insert(GRPC_DETAILS, HeaderValue::from_static("////"));
        assert_eq!(of_trailers(&trailers).unwrap().unwrap_err().message(), "no ✓");
        trailers.insert(GRPC_STATUS, HeaderValue::from_static("99"));
        assert_eq!(of_trailers(&trailers).unwrap().unwrap_err().code(), Code::Unknown);
    }
}
