//! `Services`: what is served.

use bytes::Bytes;
use tidewire_schema::Schema;
use tidewire_schema::describe;
use tidewire_server::Handle;
use tidewire_service::{Context, Error, Method, Reply, Result, StreamKind};

use crate::proto::tidewire::admin::v1::{
    CancelCallReply, CancelCallRequest, CloseSendReply, CloseSendRequest, DescribeReply,
    DescribeRequest, ListServicesReply, ListServicesRequest, MethodInfo, OpenCallReply,
    OpenCallRequest, ReceiveReply, ReceiveRequest, SampleReply, SampleRequest, SendMessageReply,
    SendMessageRequest, Services, TypesReply, TypesRequest,
};
use crate::try_it::TriedCalls;
use crate::{try_rest, types};

pub(crate) struct ServicesApi {
    handle: Handle,
    tried: TriedCalls,
}

impl ServicesApi {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, tried: TriedCalls::default() }
    }

    /// A method that is served, with its schema.
    fn method(&self, name: &str) -> Result<(Schema, Method)> {
        method_of(&self.handle, name).map(|found| (found.schema, found.method))
    }
}

/// A method that is served.
pub(crate) struct ServedMethod {
    pub(crate) schema: Schema,
    pub(crate) method: Method,
    /// What the schema is made of.
    pub(crate) descriptors: Bytes,
}

/// The method of this name.
///
/// # Errors
/// There is none of this name.
pub(crate) fn method_of(handle: &Handle, name: &str) -> Result<ServedMethod> {
    let found = handle.interfaces().iter().find_map(|interface| {
        let method = interface.methods().iter().find(|method| is_called(method, name))?.clone();
        let descriptors = interface.descriptors().clone();
        let schema = Schema::from_descriptors(descriptors.clone()).ok()?;
        Some(ServedMethod { schema, method, descriptors })
    });
    found.ok_or_else(|| nothing(name))
}

impl Services for ServicesApi {
    async fn list(&self, _: Context, _: ListServicesRequest) -> Result<Reply<ListServicesReply>> {
        let methods = self.handle.methods();
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

    async fn describe(&self, _: Context, request: DescribeRequest) -> Result<Reply<DescribeReply>> {
        let DescribeRequest { name, .. } = request;
        let interfaces = self.handle.interfaces();
        let text = interfaces.iter().find_map(|interface| {
            let is_part = interface.name() == name
                || interface.methods().iter().any(|method| is_called(method, &name));
            let schema = Schema::from_descriptors(interface.descriptors().clone()).ok()?;
            described(&schema, &name, is_part)
        });
        let text = text.ok_or_else(|| nothing(&name))?;
        Ok(DescribeReply { text, ..Default::default() }.into())
    }

    async fn sample(&self, _: Context, request: SampleRequest) -> Result<Reply<SampleReply>> {
        let (schema, method) = self.method(&request.method)?;
        let json = describe::template(schema.pool(), &method.input);
        let json = json.ok_or_else(|| nothing(&request.method))?.line();
        Ok(SampleReply { json, ..Default::default() }.into())
    }

    async fn types(&self, _: Context, request: TypesRequest) -> Result<Reply<TypesReply>> {
        let (schema, method) = self.method(&request.method)?;
        let types = describe::types(&schema, &method.input).map(types::reply);
        let mut types = types.ok_or_else(|| nothing(&request.method))?;
        types.rest = try_rest::bindings(&schema, &method);
        Ok(types.into())
    }

    async fn open(&self, _: Context, request: OpenCallRequest) -> Result<Reply<OpenCallReply>> {
        let (schema, method) = self.method(&request.method)?;
        tracing::warn!(method = request.method, "a call was made by the admin listener");
        let call = self.tried.open(&self.handle, schema, method, request)?;
        Ok(OpenCallReply { call, ..Default::default() }.into())
    }

    async fn send(
        &self,
        _: Context,
        request: SendMessageRequest,
    ) -> Result<Reply<SendMessageReply>> {
        self.tried.send(&request.call, &request.message).await?;
        Ok(SendMessageReply::default().into())
    }

    async fn close_send(
        &self,
        _: Context,
        request: CloseSendRequest,
    ) -> Result<Reply<CloseSendReply>> {
        self.tried.close_send(&request.call)?;
        Ok(CloseSendReply::default().into())
    }

    async fn cancel(
        &self,
        _: Context,
        request: CancelCallRequest,
    ) -> Result<Reply<CancelCallReply>> {
        self.tried.cancel(&request.call)?;
        Ok(CancelCallReply::default().into())
    }

    async fn receive(&self, _: Context, request: ReceiveRequest) -> Result<Reply<ReceiveReply>> {
        Ok(self.tried.receive(&request.call, request.after).await?.into())
    }
}

/// Whether a method has this name, `shop.v1.Items/Get`.
fn is_called(method: &Method, name: &str) -> bool {
    method.path.strip_prefix('/') == Some(name)
}

/// The text of a service, a method with its messages, a message or an enum; of a schema that `has`
/// the service or the method, or one whose types may be meant.
fn described(schema: &Schema, name: &str, has: bool) -> Option<String> {
    let pool = schema.pool();
    if !has {
        return describe::message(pool, name).or_else(|| describe::enumeration(pool, name));
    }
    let Some((service, method)) = name.split_once('/') else {
        return describe::service(pool, name);
    };
    describe::method_with_messages(pool, service, method)
}

fn nothing(name: &str) -> Error {
    Error::not_found(format!(
        "no service, method, message or enum {name:?} is served; list the services"
    ))
}

const fn kind(kind: StreamKind) -> &'static str {
    match kind {
        StreamKind::Unary => "unary",
        StreamKind::Client => "client",
        StreamKind::Server => "server",
        StreamKind::Bidi => "bidi",
    }
}
