//! Server reflection, v1 and v1alpha: the schema, for tools such as grpcurl.
//!
//! Reflection publishes the schema; it is on where only this machine can reach the server, and
//! elsewhere only when asked for. The two editions differ in their name only, so that one
//! implementation answers both. What is asked for and is not there is answered within the stream; a
//! request without a question ends it.

use parking_lot::RwLock;
use std::sync::Arc;

use tidewire_service::{
    Answer, Call, Code, Context, Error, Interface, Reply, Result, RpcService, Service, Stream,
};

use crate::builtin::proto::DESCRIPTOR_SET;
use crate::builtin::proto::grpc::reflection::v1::server_reflection_request::MessageRequest;
use crate::builtin::proto::grpc::reflection::v1::server_reflection_response::MessageResponse;
use crate::builtin::proto::grpc::reflection::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflection, ServerReflectionRequest, ServerReflectionResponse, ServerReflectionServer,
    ServiceResponse,
};
use crate::builtin::proto::grpc::reflection::v1alpha;
use crate::gate::own_targets::REFLECTION;
use crate::services::reloadable::{Edition, ReloadableServices};
use tidewire_schema::FileIndex;

/// Answers questions about the schema of a server.
#[derive(Clone)]
pub(crate) struct Reflection {
    /// The services that stay, and those that are others from time to time.
    own: Arc<[Interface]>,
    offered: Option<Arc<ReloadableServices>>,
    shown: Arc<RwLock<Arc<ReflectedSchema>>>,
}

/// A schema as it is shown.
struct ReflectedSchema {
    /// What was offered then.
    offered: Option<Arc<Edition>>,
    index: FileIndex,
    /// The full names of the services that are served, those of reflection among them.
    services: Vec<String>,
}

impl ReflectedSchema {
    fn new(own: &[Interface], offered: Option<Arc<Edition>>) -> Result<Self, buffa::DecodeError> {
        let more = offered.iter().flat_map(|offered| &offered.services);
        let interfaces: Vec<_> = more.map(|(interface, _)| interface).chain(own).collect();
        let mut index = FileIndex::default();
        for interface in &interfaces {
            index.add(interface.descriptors())?;
        }
        index.add(DESCRIPTOR_SET)?;
        let names = interfaces.iter().map(|interface| interface.name()).chain(REFLECTION);
        Ok(Self { index, services: names.map(str::to_owned).collect(), offered })
    }
}

/// The first edition: the same methods under another name.
struct V1Alpha(ServerReflectionServer<Reflection>);

impl Reflection {
    /// Reflection of a server with these services.
    ///
    /// # Errors
    /// Invalid descriptors.
    pub(crate) fn new(
        own: &[Interface],
        offered: Option<Arc<ReloadableServices>>,
    ) -> Result<Self, buffa::DecodeError> {
        let shown = ReflectedSchema::new(own, offered.as_ref().map(|offered| offered.now()))?;
        Ok(Self { own: own.into(), offered, shown: Arc::new(RwLock::new(Arc::new(shown))) })
    }

    /// The schema of now; where it cannot be shown, that of before.
    fn current(&self) -> Arc<ReflectedSchema> {
        let shown = Arc::clone(&self.shown.read());
        let (Some(offered), Some(before)) = (&self.offered, &shown.offered) else { return shown };
        let now = offered.now();
        if Arc::ptr_eq(&now, before) {
            return shown;
        }
        match ReflectedSchema::new(&self.own, Some(now)) {
            Ok(new) => {
                let new = Arc::new(new);
                *self.shown.write() = Arc::clone(&new);
                new
            }
            Err(_) => shown,
        }
    }

    /// The services that answer, one an edition.
    pub(crate) fn services(&self) -> [(Interface, Arc<dyn Service>); 2] {
        let v1 = ServerReflectionServer::new(self.clone());
        let v1alpha = V1Alpha(v1.clone());
        [(v1.interface(), Arc::new(v1)), (v1alpha.interface(), Arc::new(v1alpha))]
    }

    fn answer(&self, question: &MessageRequest) -> MessageResponse {
        let shown = self.current();
        let files = |files: Option<Vec<Vec<u8>>>, what: String| match files {
            Some(file_descriptor_proto) => {
                let files = FileDescriptorResponse { file_descriptor_proto, ..Default::default() };
                MessageResponse::from(files)
            }
            None => not_found(what),
        };
        match question {
            MessageRequest::FileByFilename(name) => {
                files(shown.index.by_name(name), format!("file {name}"))
            }
            MessageRequest::FileContainingSymbol(symbol) => {
                files(shown.index.by_symbol(symbol), format!("symbol {symbol}"))
            }
            MessageRequest::FileContainingExtension(wanted) => {
                let message = &wanted.containing_type;
                let number = wanted.extension_number;
                let found = shown.index.by_extension(message, number);
                files(found, format!("extension {number} of {message}"))
            }
            MessageRequest::AllExtensionNumbersOfType(message) => {
                let Some(extension_number) = shown.index.extensions(message) else {
                    return not_found(format!("message {message}"));
                };
                let base_type_name = message.clone();
                let numbers = ExtensionNumberResponse {
                    base_type_name,
                    extension_number,
                    ..Default::default()
                };
                MessageResponse::from(numbers)
            }
            MessageRequest::ListServices(_) => {
                let named =
                    |name: &String| ServiceResponse { name: name.clone(), ..Default::default() };
                let service = shown.services.iter().map(named).collect();
                MessageResponse::from(ListServiceResponse { service, ..Default::default() })
            }
        }
    }
}

fn not_found(what: String) -> MessageResponse {
    MessageResponse::from(ErrorResponse {
        error_code: Code::NotFound.number().into(),
        error_message: format!("this server has no {what}"),
        ..Default::default()
    })
}

impl ServerReflection for Reflection {
    async fn server_reflection_info(
        &self,
        _: Context,
        requests: Stream<ServerReflectionRequest>,
    ) -> Result<Reply<Stream<ServerReflectionResponse>>> {
        let reflection = self.clone();
        let answers = requests.map(move |request| {
            let request = request?;
            let Some(question) = &request.message_request else {
                let text = "the request asks for nothing; set one of message_request";
                return Err(Error::invalid_argument(text));
            };
            Ok(ServerReflectionResponse {
                valid_host: request.host.clone(),
                message_response: Some(reflection.answer(question)),
                original_request: request.into(),
                ..Default::default()
            })
        });
        Ok(answers.into())
    }
}

impl Service for V1Alpha {
    fn call(&self, call: Call) -> Answer {
        self.0.call(call)
    }
}

impl RpcService for V1Alpha {
    fn interface(&self) -> Interface {
        Interface::new(REFLECTION[1], v1alpha::server_reflection::METHODS, DESCRIPTOR_SET)
    }
}

#[cfg(test)]
mod tests;
