//! A backend that answers with what it was sent: for trying out a schema before anything is built.
//!
//! | kind | answer |
//! |---|---|
//! | unary | the fields that the reply type shares with the request |
//! | server stream | that, once |
//! | client stream | that of the last request |
//! | bidirectional | that of each request, as it comes |

use tidewire_schema::{Implementation, Message, Path, Schema};
use tidewire_service::{Context, Method, Reply, Result, Stream};

/// Answers every method of a schema with the fields of the request that the reply has too.
///
/// A field is shared when the reply has one of the same JSON name that takes the value.
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tidewire::{Echo, Schema, Server};
/// let schema = Schema::from_folder("protos")?;
/// let echo = schema.implement("shop.v1.Contacts", Echo::new(&schema))?;
/// let server = Server::builder().service(echo);
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

    fn reply(&self, method: &Method, request: Message) -> Result<Message> {
        if method.input == method.output {
            return Ok(request);
        }
        let mut reply = self.schema.message(&method.output)?;
        for (field, value) in request.fields() {
            // What the reply has no field for, or one of another kind, is not shared.
            let _ = reply.set(&Path::field(field.json_name()), value);
        }
        Ok(reply)
    }
}

impl Implementation for Echo {
    async fn unary(&self, method: &Method, _: Context, request: Message) -> Result<Reply<Message>> {
        self.reply(method, request).map(Reply::new)
    }

    async fn server_stream(
        &self,
        method: &Method,
        _: Context,
        request: Message,
    ) -> Result<Reply<Stream<Message>>> {
        Ok(Reply::new(Stream::from_values([self.reply(method, request)?])))
    }

    async fn client_stream(
        &self,
        method: &Method,
        _: Context,
        mut requests: Stream<Message>,
    ) -> Result<Reply<Message>> {
        let mut last = self.schema.message(&method.input)?;
        while let Some(request) = requests.next().await? {
            last = request;
        }
        self.reply(method, last).map(Reply::new)
    }

    async fn bidi_stream(
        &self,
        method: &Method,
        _: Context,
        requests: Stream<Message>,
    ) -> Result<Reply<Stream<Message>>> {
        let echo = self.clone();
        let method = method.clone();
        Ok(Reply::new(requests.map(move |request| echo.reply(&method, request?))))
    }
}
