//! Trailers that a stream of replies only knows at its end, such as those of an upstream.
//!
//! The library takes the trailers of a success before the first message. What comes later is put
//! aside here and added to the end of the response, in the form of its protocol: HTTP trailers, a last
//! envelope of lines (gRPC-Web, flag `0x80`) or one of JSON (Connect, flag `0x02`). The library sends
//! such an envelope as a frame of its own. Only calls whose replies are a stream pay for it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use connectrpc::ConnectRpcBody;
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use serde_json::{Map, Value};

/// Where the trailers of one call are put aside; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateTrailers(Arc<Mutex<HeaderMap>>);

impl LateTrailers {
    pub(super) fn put(&self, trailers: HeaderMap) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = trailers;
    }

    fn take(&self) -> Option<HeaderMap> {
        let mut trailers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!trailers.is_empty()).then(|| std::mem::take(&mut *trailers))
    }
}

/// The body of a response whose end is completed.
pub(crate) struct Completed {
    body: ConnectRpcBody,
    late: LateTrailers,
}

impl Completed {
    pub(crate) fn new(body: ConnectRpcBody, late: LateTrailers) -> Self {
        Self { body, late }
    }
}

impl http_body::Body for Completed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        Pin::new(&mut this.body).poll_frame(cx).map_ok(|frame| {
            let is_end = match frame.data_ref() {
                None => true,
                Some(data) => matches!(data.first(), Some(&(CONNECT_END | WEB_TRAILERS))),
            };
            match is_end.then(|| this.late.take()).flatten() {
                Some(trailers) => completed(frame, &trailers),
                None => frame,
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

const CONNECT_END: u8 = 0x02;
const WEB_TRAILERS: u8 = 0x80;
const HEAD: usize = 5;

/// The last frame with more trailers.
fn completed(frame: Frame<Bytes>, late: &HeaderMap) -> Frame<Bytes> {
    let end = match frame.into_data() {
        Ok(end) => end,
        Err(frame) => {
            let mut trailers = frame.into_trailers().unwrap_or_default();
            for (name, value) in late {
                trailers.append(name, value.clone());
            }
            return Frame::trailers(trailers);
        }
    };
    let content = end.get(HEAD..).unwrap_or_default();
    let content = match end.first() {
        Some(&WEB_TRAILERS) => lines(content, late),
        _ => match json(content, late) {
            Some(json) => json,
            None => return Frame::data(end),
        },
    };
    let Ok(length) = u32::try_from(content.len()) else { return Frame::data(end) };
    let mut whole = BytesMut::with_capacity(HEAD + content.len());
    whole.put_u8(end[0]);
    whole.put_u32(length);
    whole.put_slice(&content);
    Frame::data(whole.freeze())
}

/// gRPC-Web: lines of `name: value`.
fn lines(before: &[u8], late: &HeaderMap) -> Vec<u8> {
    let mut lines = before.to_vec();
    for (name, value) in late {
        let line = [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"];
        lines.extend_from_slice(&line.concat());
    }
    lines
}

/// Connect: `{"metadata": {name: [value, …]}}`.
fn json(before: &[u8], late: &HeaderMap) -> Option<Vec<u8>> {
    let mut end: Map<String, Value> = serde_json::from_slice(before).ok()?;
    let metadata = end.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let metadata = metadata.as_object_mut()?;
    let values = |name: &HeaderName| {
        let values = late.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into()).collect::<Vec<Value>>()
    };
    for name in late.keys() {
        let known = metadata.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        known.as_array_mut()?.extend(values(name));
    }
    serde_json::to_vec(&end).ok()
}
