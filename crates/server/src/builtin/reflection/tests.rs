//! What tools ask, over a small schema made by hand.

use buffa::Message as _;
use buffa_descriptor::generated::descriptor::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, OneofDescriptorProto,
    ServiceDescriptorProto,
};
use tidewire_service::{Channel, Method, Spec, StreamKind, Target};

use super::*;
use crate::builtin::proto::grpc::reflection::v1::{ExtensionRequest, ServerReflectionClient};

fn named<T>(name: &str, make: impl FnOnce(Option<String>) -> T) -> T {
    make(Some(name.to_owned()))
}

fn field(name: &str, number: i32, extendee: Option<&str>) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        extendee: extendee.map(str::to_owned),
        ..Default::default()
    }
}

/// `base.proto` without a package, and `a.proto`, which imports it and one that is not there.
fn files() -> [FileDescriptorProto; 2] {
    let inner = named("Inner", |name| DescriptorProto {
        name,
        field: vec![field("deep", 1, None)],
        ..Default::default()
    });
    let message = named("Q", |name| DescriptorProto {
        name,
        field: vec![field("id", 1, None)],
        oneof_decl: vec![named("choice", |name| OneofDescriptorProto {
            name,
            ..Default::default()
        })],
        nested_type: vec![inner],
        extension: vec![field("within", 7, Some(".Base"))],
        ..Default::default()
    });
    let value = named("RED", |name| EnumValueDescriptorProto { name, ..Default::default() });
    let colour = named("Colour", |name| EnumDescriptorProto {
        name,
        value: vec![value],
        ..Default::default()
    });
    let method = named("C", |name| MethodDescriptorProto { name, ..Default::default() });
    let service = named("B", |name| ServiceDescriptorProto {
        name,
        method: vec![method],
        ..Default::default()
    });
    let base = named("Base", |name| DescriptorProto { name, ..Default::default() });
    [
        named("base.proto", |name| FileDescriptorProto {
            name,
            message_type: vec![base],
            ..Default::default()
        }),
        named("a.proto", |name| FileDescriptorProto {
            name,
            package: Some("a".to_owned()),
            dependency: vec!["base.proto".to_owned(), "missing.proto".to_owned()],
            message_type: vec![message],
            enum_type: vec![colour],
            extension: vec![field("more", 5, Some(".Base"))],
            service: vec![service],
            ..Default::default()
        }),
    ]
}

fn reflection() -> Reflection {
    let set = FileDescriptorSet { file: files().to_vec(), ..Default::default() };
    let method = Spec::dynamic("a.B", "C", StreamKind::Unary, ["a.Q", "a.Q"]);
    let methods = vec![Method::from(Arc::new(method))];
    let interface = Interface::dynamic("a.B".to_owned(), methods, set.encode_to_vec());
    // The same set from two services, as those of one schema have it.
    Reflection::new(&[interface.clone(), interface], None).unwrap()
}

/// The answers to questions in one stream.
async fn ask(
    channel: impl Into<Channel>,
    questions: Vec<MessageRequest>,
) -> Vec<Result<ServerReflectionResponse>> {
    let requests = questions.into_iter().map(|question| ServerReflectionRequest {
        host: "h".to_owned(),
        message_request: Some(question),
        ..Default::default()
    });
    let client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(Stream::from_values(requests.collect::<Vec<_>>()));
    let mut answers = answers.await.unwrap().body;
    let mut all = Vec::new();
    loop {
        match answers.next().await {
            Ok(Some(answer)) => all.push(Ok(answer)),
            Ok(None) => return all,
            Err(error) => {
                all.push(Err(error));
                return all;
            }
        }
    }
}

/// A service as the server calls it: by the method at the path that was asked for.
struct ByPath(Method, Arc<dyn Service>);

impl Service for ByPath {
    fn call(&self, mut call: Call) -> Answer {
        call.target = Target::Method(self.0.clone());
        self.1.call(call)
    }
}

/// An answer in a line.
fn line_of(answer: MessageResponse) -> String {
    match answer {
        MessageResponse::FileDescriptorResponse(files) => {
            let name = |file: &Vec<u8>| FileDescriptorProto::decode_from_slice(file).unwrap().name;
            let names = files.file_descriptor_proto.iter().map(|file| name(file).unwrap());
            names.collect::<Vec<_>>().join(" ")
        }
        MessageResponse::AllExtensionNumbersResponse(numbers) => {
            format!("{} {:?}", numbers.base_type_name, numbers.extension_number)
        }
        MessageResponse::ListServicesResponse(list) => {
            list.service.iter().map(|service| &*service.name).collect::<Vec<_>>().join(" ")
        }
        MessageResponse::ErrorResponse(error) => {
            format!("{} {}", error.error_code, error.error_message)
        }
    }
}

#[test]
fn every_question_is_answered() {
    let reflection = reflection();
    let check = |question: MessageRequest, expected: &str| {
        assert_eq!(line_of(reflection.answer(&question)), expected, "{question:?}");
    };
    let file = |name: &str| MessageRequest::FileByFilename(name.to_owned());
    check(file("a.proto"), "a.proto base.proto");
    check(file("base.proto"), "base.proto");
    check(file("missing.proto"), "5 this server has no file missing.proto");
    let symbol = |name: &str| MessageRequest::FileContainingSymbol(name.to_owned());
    for known in [
        "a.Q",
        ".a.Q",
        "a.Q.Inner",
        "a.Colour",
        "a.RED",
        "a.B",
        "a.more",
        "a.Q.within",
        "a.Q.id",
        "a.Q.choice",
        "a.Q.Inner.deep",
        "a.B.C",
    ] {
        check(symbol(known), "a.proto base.proto");
    }
    check(symbol("Base"), "base.proto");
    for unknown in ["", "a", "a.X", "a.Q.none", "a.B.D", "Base.x", "a.Q.Inner.id", "a.Q.", "Q"] {
        check(symbol(unknown), &format!("5 this server has no symbol {unknown}"));
    }
    let extension = |containing_type: &str, extension_number| {
        let containing_type = containing_type.to_owned();
        MessageRequest::from(ExtensionRequest {
            containing_type,
            extension_number,
            ..Default::default()
        })
    };
    check(extension("Base", 5), "a.proto base.proto");
    check(extension(".Base", 7), "a.proto base.proto");
    check(extension("Base", -6), "5 this server has no extension -6 of Base");
    check(extension("a.X", 1), "5 this server has no extension 1 of a.X");
    let numbers = |name: &str| MessageRequest::AllExtensionNumbersOfType(name.to_owned());
    check(numbers("Base"), "Base [5, 7]");
    check(numbers("a.Q"), "a.Q []");
    check(numbers("a.X"), "5 this server has no message a.X");
    check(
        MessageRequest::ListServices(String::new()),
        "a.B a.B grpc.reflection.v1.ServerReflection grpc.reflection.v1alpha.ServerReflection",
    );
}

#[test]
fn a_file_is_told_with_the_bytes_in_which_it_came() {
    let reflection = reflection();
    let answer = reflection.answer(&MessageRequest::FileByFilename("a.proto".to_owned()));
    let MessageResponse::FileDescriptorResponse(found) = answer else { panic!("{answer:?}") };
    let [base, a] = files().map(|file| file.encode_to_vec());
    assert_eq!(found.file_descriptor_proto, [a, base]);
}

#[tokio::test]
async fn both_editions_answer_and_know_themselves() {
    for (interface, service) in reflection().services() {
        let path = interface.methods()[0].path.to_string();
        let symbol = path.trim_start_matches('/').replace('/', ".");
        let question = MessageRequest::FileContainingSymbol(symbol);
        // Called by the path of its edition, as the server does.
        let method = interface.methods()[0].clone();
        let answers = ask(ByPath(method, service), vec![question.clone(), question]).await;
        assert_eq!(answers.len(), 2);
        for answer in answers {
            let answer = answer.unwrap();
            assert_eq!(answer.valid_host, "h");
            assert!(answer.original_request.is_set());
            let edition = path.split('.').nth(2).unwrap();
            let file = format!("grpc/reflection/{edition}/reflection.proto");
            assert_eq!(line_of(answer.message_response.unwrap()), file);
        }
    }
}

#[tokio::test]
async fn a_request_without_a_question_ends_the_stream() {
    let requests = Stream::from_values([ServerReflectionRequest::default()]);
    let reply = reflection().server_reflection_info(Context::default(), requests).await.unwrap();
    let mut answers = reply.body;
    assert_eq!(answers.next().await.unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn descriptors_that_are_none_are_refused() {
    let interface = |bytes: &'static [u8]| {
        Interface::dynamic("a.B".to_owned(), Vec::new(), bytes::Bytes::from_static(bytes))
    };
    for broken in [&b"\x0a"[..], b"\x0a\x05abc", b"\xff", b"\x0a\x02\x0a\x05"] {
        assert!(Reflection::new(&[interface(broken)], None).is_err(), "{broken:?}");
    }
    assert!(Reflection::new(&[interface(b"")], None).is_ok());
}
