//! `Services`: what is served.

use tidewire_server::Handle;
use tidewire_service::{Context, Reply, Result, StreamKind};

use crate::proto::tidewire::admin::v1::{
    ListServicesReply, ListServicesRequest, MethodInfo, Services,
};

pub(crate) struct OfServices(pub(crate) Handle);

impl Services for OfServices {
    async fn list(&self, _: Context, _: ListServicesRequest) -> Result<Reply<ListServicesReply>> {
        let methods = self.0.methods();
        let methods = methods.iter().map(|method| MethodInfo {
            service: method.service.to_string(),
            method: method.method.to_string(),
            kind: kind(method.kind).to_owned(),
            query: method.is_query(),
            input: method.input.to_string(),
            output: method.output.to_string(),
            ..Default::default()
        });
        Ok(ListServicesReply { methods: methods.collect(), ..Default::default() }.into())
    }
}

const fn kind(kind: StreamKind) -> &'static str {
    match kind {
        StreamKind::Unary => "unary",
        StreamKind::Client => "client",
        StreamKind::Server => "server",
        StreamKind::Bidi => "bidi",
    }
}
