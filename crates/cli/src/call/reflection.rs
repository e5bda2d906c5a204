//! Asking a server for its schema: `grpc.reflection.v1`, or `v1alpha` of older servers.
//!
//! One stream of questions and answers, over gRPC: which services there are, the file of each, and
//! the files that those import. The messages are read and written field by field; their numbers are
//! the same in both versions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use buffa::{UnknownFieldData, UnknownFields};
use tidewire::service::{Frame, Spec, StreamKind};
use tidewire::{Body, Call, Code, Codec, Context, Error, Result, Service};
use tidewire_client::{Client, HttpVersion, Protocol};
use tokio::sync::mpsc;

use super::detect::Server;
use super::outcome;
use super::reach::Reach;
use super::watch::Watch;
use crate::catalog::{Catalog, is_built_in, is_end};
use crate::failure::Failure;

/// The schema of a server's own services, without those that every server has.
pub(crate) async fn reflect_own(server: &Server, reach: &Reach) -> Result<Catalog, Failure> {
    reflect_services(server, reach, ServiceChoice::Own).await
}

/// The schema of a server. Of the services only those that `wanted` may mean are asked for, where
/// it names one: `Items/Get`.
pub(crate) async fn reflect(
    server: &Server,
    reach: &Reach,
    wanted: Option<&str>,
) -> Result<Catalog, Failure> {
    reflect_services(server, reach, ServiceChoice::Named(wanted)).await
}

/// Of which services the schema is asked for.
#[derive(Debug, Clone, Copy)]
enum ServiceChoice<'a> {
    /// Those that a name may mean; all without one.
    Named(Option<&'a str>),
    /// All but those that every server has.
    Own,
}

async fn reflect_services(
    server: &Server,
    reach: &Reach,
    wanted: ServiceChoice<'_>,
) -> Result<Catalog, Failure> {
    if !server.speaks_grpc && server.http == HttpVersion::Http1 {
        return Err(Failure {
            error: anyhow!(
                "{} does not speak gRPC, by which its schema could be asked for; name it by \
                 --proto FOLDER or --descriptor-set FILE",
                server.url
            ),
            code: outcome::UNREACHABLE,
        });
    }
    let watch = Watch::new(false);
    let client = reach
        .client(&server.url, Protocol::Grpc, server.http, &watch.trace())
        .map_err(Failure::usage)?;
    let mut outcome = Err(Error::unimplemented("no reflection"));
    for version in ["grpc.reflection.v1", "grpc.reflection.v1alpha"] {
        outcome = ask(&client, reach, version, wanted).await;
        if !matches!(&outcome, Err(error) if error.code() == Code::Unimplemented) {
            break;
        }
    }
    let (services, files) = outcome.map_err(|error| match error.code() {
        Code::Unimplemented => Failure {
            error: anyhow!(
                "the server has no reflection; name its schema by --proto FOLDER or \
                 --descriptor-set FILE"
            ),
            code: outcome::UNREACHABLE,
        },
        _ => {
            let Failure { error, code } = outcome::failure(&error, &watch, None);
            Failure { error: error.context("the schema cannot be asked for by reflection"), code }
        }
    })?;
    let mut set = Vec::new();
    for file in &files {
        push(&mut set, SET_FILE, file);
    }
    Catalog::new(set, Some(services), "the server".to_owned()).map_err(Failure::usage)
}

type Schema = (Vec<String>, Vec<Vec<u8>>);

async fn ask(
    client: &Client,
    reach: &Reach,
    version: &str,
    wanted: ServiceChoice<'_>,
) -> Result<Schema> {
    let patience = reach.deadline.unwrap_or(PATIENCE);
    let deadline = Instant::now() + patience;
    // By itself: a server without reflection may wait for the end of the questions to say so.
    let mut first = ReflectionStream::open(client, reach, version, deadline);
    let mut services = first.services().await?;
    let wanted = match wanted {
        ServiceChoice::Named(wanted) => wanted,
        ServiceChoice::Own => {
            services.retain(|name| !is_built_in(name));
            None
        }
    };
    let mut asked = ReflectionStream::open(client, reach, version, deadline);
    let mut files = BTreeMap::new();
    let mut order = Vec::new();
    for service in &services {
        if is_wanted(service, wanted, &services) {
            for file in asked.files(FILE_CONTAINING_SYMBOL, service).await? {
                asked.add(file, &mut files, &mut order).await?;
            }
        }
    }
    let files = order.iter().filter_map(|name| files.remove(name)).collect();
    Ok((services, files))
}

/// Whether a service may be meant; where none is, all are, so that a near one can be found.
fn is_wanted(service: &str, wanted: Option<&str>, all: &[String]) -> bool {
    let Some((wanted, _)) = wanted.and_then(|name| name.trim_start_matches('/').rsplit_once('/'))
    else {
        return true;
    };
    is_end(service, wanted) || !all.iter().any(|known| is_end(known, wanted))
}

/// An open stream of reflection.
struct ReflectionStream {
    /// `None` once the last question was asked.
    questions: Option<mpsc::UnboundedSender<Vec<u8>>>,
    reply: Reply,
}

enum Reply {
    /// The call, which is answered once the first question was.
    Pending(tidewire::service::Answer),
    Open(Body),
}

impl ReflectionStream {
    fn open(client: &Client, reach: &Reach, version: &str, deadline: Instant) -> Self {
        let service = format!("{version}.ServerReflection");
        let spec = Spec::dynamic(&service, "ServerReflectionInfo", StreamKind::Bidi, ["", ""]);
        let (questions, asked) = mpsc::unbounded_channel::<Vec<u8>>();
        let asked = futures_util::stream::unfold(asked, |mut asked| async move {
            let question = asked.recv().await?;
            Some((Ok(question.into()), asked))
        });
        let context = Context::new(reach.headers()).with_deadline(deadline);
        let call = Call::method(Arc::new(spec), context, Codec::Proto, Body::stream(asked));
        Self { questions: Some(questions), reply: Reply::Pending(client.call(call)) }
    }

    /// Asks one question.
    async fn ask(&mut self, number: u32, text: &str) -> Result<UnknownFields> {
        let mut question = Vec::new();
        push(&mut question, number, text.as_bytes());
        // Nobody listens once the call failed, and then reading says why.
        let _ = self.questions.as_ref().map(|questions| questions.send(question));
        if number == LIST_SERVICES {
            self.questions = None;
        }
        let ended = || Error::unavailable("the server ended the stream of reflection");
        let body = match &mut self.reply {
            Reply::Open(body) => body,
            Reply::Pending(answer) => {
                let body = answer.await?.body;
                self.reply = Reply::Open(body);
                let Reply::Open(body) = &mut self.reply else { return Err(ended()) };
                body
            }
        };
        loop {
            match super::rpc::next_frame(body).await? {
                Some(Frame::Data(answer)) => return fields(&answer),
                Some(Frame::Trailers(_)) => {}
                None => return Err(ended()),
            }
        }
    }

    /// All services; the last question of a stream.
    async fn services(&mut self) -> Result<Vec<String>> {
        let answer = self.ask(LIST_SERVICES, "*").await?;
        let mut services = Vec::new();
        for list in parts(&answer, LIST_SERVICES_RESPONSE) {
            for service in parts(&fields(list)?, 1) {
                let names = fields(service)?;
                let names = parts(&names, 1).map(|name| String::from_utf8_lossy(name).into_owned());
                services.extend(names);
            }
        }
        Ok(services)
    }

    /// Encoded files: that of a symbol or of a name, perhaps with what it imports.
    async fn files(&mut self, number: u32, text: &str) -> Result<Vec<Vec<u8>>> {
        let answer = self.ask(number, text).await?;
        if let Some(error) = parts(&answer, ERROR_RESPONSE).next() {
            let error = fields(error)?;
            let message = parts(&error, 2).next().map(String::from_utf8_lossy).unwrap_or_default();
            return Err(Error::unavailable(format!("the server does not find {text}: {message}")));
        }
        let mut files = Vec::new();
        for response in parts(&answer, FILE_RESPONSE) {
            files.extend(parts(&fields(response)?, 1).map(<[u8]>::to_vec));
        }
        Ok(files)
    }

    /// Adds a file behind the files that it imports.
    async fn add(
        &mut self,
        file: Vec<u8>,
        files: &mut BTreeMap<String, Vec<u8>>,
        order: &mut Vec<String>,
    ) -> Result<()> {
        // Files on the way, each with the imports that are not looked at yet.
        let mut way = vec![Open::of(file)?];
        while let Some(open) = way.last_mut() {
            if files.contains_key(&open.name) {
                way.pop();
                continue;
            }
            match open.imports.pop() {
                Some(import) => {
                    let is_there = files.contains_key(&import);
                    if !is_there && !way.iter().any(|open| open.name == import) {
                        let found = self.files(FILE_BY_FILENAME, &import).await?;
                        if way.len() + files.len() > FILES_MAX {
                            let why = format!("the schema has more than {FILES_MAX} files");
                            return Err(Error::resource_exhausted(why));
                        }
                        for file in found {
                            let open = Open::of(file)?;
                            if open.name == import {
                                way.push(open);
                                break;
                            }
                        }
                    }
                }
                None => {
                    if let Some(Open { name, file, .. }) = way.pop() {
                        order.push(name.clone());
                        files.insert(name, file);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A file whose imports are being looked at.
struct Open {
    name: String,
    imports: Vec<String>,
    file: Vec<u8>,
}

impl Open {
    fn of(file: Vec<u8>) -> Result<Self> {
        let found = fields(&file)?;
        let texts = |number| parts(&found, number).map(|text| String::from_utf8_lossy(text).into());
        let name: String = texts(FILE_NAME).next().unwrap_or_default();
        let mut imports: Vec<String> = texts(FILE_DEPENDENCY).collect();
        imports.reverse();
        Ok(Self { name, imports, file })
    }
}

fn fields(message: &[u8]) -> Result<UnknownFields> {
    UnknownFields::decode_from_slice(message).map_err(|error| {
        Error::internal(format!("the server's reflection makes no sense: {error}"))
    })
}

fn parts(fields: &UnknownFields, number: u32) -> impl Iterator<Item = &[u8]> {
    fields.iter().filter_map(move |field| match &field.data {
        UnknownFieldData::LengthDelimited(bytes) if field.number == number => Some(&bytes[..]),
        _ => None,
    })
}

fn push(message: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    let mut fields = UnknownFields::new();
    let data = UnknownFieldData::LengthDelimited(bytes.to_vec());
    fields.push(buffa::UnknownField { number, data });
    fields.write_to(message);
}

/// Numbers of `grpc/reflection/v1/reflection.proto` and of `descriptor.proto`.
const FILE_BY_FILENAME: u32 = 3;
const FILE_CONTAINING_SYMBOL: u32 = 4;
const LIST_SERVICES: u32 = 7;
const FILE_RESPONSE: u32 = 4;
const LIST_SERVICES_RESPONSE: u32 = 6;
const ERROR_RESPONSE: u32 = 7;
const SET_FILE: u32 = 1;
const FILE_NAME: u32 = 1;
const FILE_DEPENDENCY: u32 = 3;

/// How long reflection may take where no deadline is given.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most files of a schema.
const FILES_MAX: usize = 5_000;
