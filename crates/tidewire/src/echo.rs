//! A backend that answers with what it was sent: for trying out a schema before anything is built.
//!
//! | kind | answer |
//! |---|---|
//! | unary | the fields that the reply type shares with the request |
//! | server stream | that, once |
//! | client stream | that of the last request |
//! | bidirectional | that of each request, as it comes |

use std::collections::BTreeMap;
use std::future::ready;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::BodyStream;
use tidewire_schema::Schema;
use tidewire_service::{
    Answer, Body, Call, Codec, Error, Method, Reply, Result, Service, StreamKind,
};

/// Answers every method of a schema with the fields of the request that the reply has too.
///
/// A field is shared when the reply has one of the same JSON name whose type takes the value.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidewire::{Echo, Schema, Server};
/// let schema = Schema::from_folder("protos")?;
/// let server = Server::builder().service(schema.serve("shop.v1.Contacts", Echo::new(&schema))?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Echo {
    schema: Schema,
}

impl Echo {
    /// An echo for the types of a schema.
    pub fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone() }
    }

    fn reply(&self, method: &Method, codec: Codec, request: &Bytes) -> Result<Bytes> {
        if method.input == method.output {
            // Decoding shows the caller what is wrong with the request.
            self.schema.decode(&method.input, codec, request)?;
            return Ok(request.clone());
        }
        let request = self.schema.decode(&method.input, codec, request)?.encode(Codec::Json)?;
        let fields: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&request)
            .map_err(|e| Error::internal("a message is not a JSON object").with_cause(e))?;
        let taken: BTreeMap<_, _> = fields
            .into_iter()
            .filter(|(name, value)| self.takes(&method.output, name, value))
            .collect();
        let json = serde_json::json!(taken).to_string();
        let reply = self.schema.decode(&method.output, Codec::Json, json.as_bytes())?;
        reply.encode(codec)
    }

    /// Whether a field of JSON can be part of a message of this type.
    fn takes(&self, type_name: &str, name: &str, value: &serde_json::Value) -> bool {
        let alone = serde_json::json!({ name: value }).to_string();
        self.schema.decode(type_name, Codec::Json, alone.as_bytes()).is_ok()
    }
}

impl Service for Echo {
    fn call(&self, call: Call) -> Answer {
        let Some(method) = call.spec().cloned() else {
            return Answer::ready(Err(Error::unimplemented("an echo answers methods only")));
        };
        let (echo, codec) = (self.clone(), call.codec);
        if method.kind == StreamKind::Bidi {
            let requests = BodyStream::new(call.body);
            let replies = requests.filter_map(move |frame| {
                let request = frame.map(|frame| frame.into_data().ok()).transpose();
                ready(request.map(|request| echo.reply(&method, codec, &request?)))
            });
            return Answer::ready(Ok(Reply::new(Body::stream(replies))));
        }
        Answer::pending(async move {
            let last = last_message(call.body).await?;
            echo.reply(&method, codec, &last).map(|reply| Reply::new(Body::Full(reply)))
        })
    }
}

/// The last message of a body; an empty one when there is none.
async fn last_message(body: Body) -> Result<Bytes> {
    let mut last = Bytes::new();
    let mut frames = BodyStream::new(body);
    while let Some(frame) = frames.next().await {
        last = frame?.into_data().unwrap_or(last);
    }
    Ok(last)
}
