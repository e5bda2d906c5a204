//! The two constants of the plain handlers as typed methods, so that what binding and printing cost
//! can be measured against [`plain`](crate::plain).

use tidewire::{Context, Reply, Result};

use crate::proto::google::api::HttpBody;
use crate::proto::mvc::v1::{Index, JsonReply, JsonRequest, PlainTextRequest};

/// `mvc.v1.Index`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hello;

impl Index for Hello {
    async fn plain_text(&self, _: Context, _: PlainTextRequest) -> Result<Reply<HttpBody>> {
        let body = HttpBody {
            content_type: "text/plain; charset=utf-8".to_owned(),
            data: b"Hello World!".to_vec(),
            ..Default::default()
        };
        Ok(body.into())
    }

    async fn json(&self, _: Context, _: JsonRequest) -> Result<Reply<JsonReply>> {
        Ok(JsonReply { message: "Hello World!".to_owned(), ..Default::default() }.into())
    }
}
