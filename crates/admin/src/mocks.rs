//! `Mocks`: services that are mocked, by which rules, and who called them.
//!
//! | question | file |
//! |---|---|
//! | which names rule files have, and how they are written | `mocks/folder.rs` |
//! | the same of `.proto` files | `mocks/protos.rs` |
//! | what is shown of calls and previews, and what is not | `mocks/convert.rs` |

mod convert;
pub(crate) mod folder;
pub(crate) mod protos;

use serde_json::Value;
use tidewire_mock::{Calls, Finding, Mock, RuleFiles, Times, etag};
use tidewire_service::{Context, Error, Reply, Result};

use self::folder::{NamedText, RuleFolder};
use self::protos::ProtoFolder;
use crate::proto::tidewire::admin::v1::{
    CheckRulesReply, CheckRulesRequest, DeleteProtoReply, DeleteProtoRequest, DeleteRuleFileReply,
    DeleteRuleFileRequest, Faults, GetFaultsRequest, GetProtoRequest, GetRuleFileRequest,
    ListMockedCallsReply, ListMockedCallsRequest, ListProtosReply, ListProtosRequest,
    ListRulesReply, ListRulesRequest, ListSessionsReply, ListSessionsRequest, MethodRules,
    MockSession, Mocks, NearMissesReply, NearMissesRequest, PreviewReply, PreviewRequest,
    ProtoFile, PutProtoRequest, PutRuleFileRequest, ResetMocksReply, ResetMocksRequest, RuleFile,
    RuleResponse, SetFault, SetFaultsRequest, StubReply, StubRequest, UnstubReply, UnstubRequest,
    VerifyReply, VerifyRequest,
};
use crate::{Inventory, headers, limit, redact};

#[derive(Clone)]
pub(crate) struct MocksApi(pub(crate) Inventory);

impl MocksApi {
    fn mock(&self) -> Result<&Mock> {
        let none = || Error::not_found("this server mocks nothing; tidewire mock does");
        self.0.mock().ok_or_else(none)
    }

    fn folder(&self) -> Result<&RuleFolder> {
        self.mock()?;
        let none = || Error::failed_precondition("this mock has no folder of rule files");
        self.0.rules().ok_or_else(none)
    }

    fn protos(&self) -> Result<&ProtoFolder> {
        self.mock()?;
        let none = || Error::failed_precondition("this mock has no folder of .proto files");
        self.0.protos().ok_or_else(none)
    }

    /// Does what reads or writes files, or compiles them, where it holds nothing up.
    async fn beside<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        let done = tokio::task::spawn_blocking(move || what(&this)).await;
        done.unwrap_or_else(|_| Err(Error::internal("it panicked")))
    }

    /// What is found in a file were its text this one, and all files with it.
    fn checked(&self, name: &str, text: &str) -> Result<(RuleFiles, Vec<Finding>)> {
        let (files, shown) = self.files_with(name, text)?;
        let mut findings = files.check(&self.mock()?.schema());
        findings.retain(|finding| finding.diagnostic.file == shown);
        Ok((files, findings))
    }

    /// The rule files with a text in place of one of them, and how that one is shown.
    fn files_with(&self, name: &str, text: &str) -> Result<(RuleFiles, String)> {
        let path = self.folder()?.path_of(name)?;
        let mut files = self.folder()?.files()?;
        files.add(&path, text);
        Ok((files, path.display().to_string()))
    }

    /// A file as a message.
    fn rule_file(&self, file: NamedText) -> Result<RuleFile> {
        let (_, findings) = self.checked(&file.name, &file.text)?;
        let shown = file.path.display().to_string();
        Ok(RuleFile {
            etag: etag(&file.text),
            method: self.method_of(&shown)?,
            findings: findings.iter().map(convert::finding).collect(),
            name: file.name,
            text: file.text,
            ..Default::default()
        })
    }

    fn method_of(&self, shown: &str) -> Result<String> {
        let rules = self.mock()?.rules();
        let of = rules.into_iter().find(|rules| rules.file == shown);
        Ok(of.map(|rules| rules.method).unwrap_or_default())
    }

    fn files(&self) -> Result<Vec<RuleFile>> {
        let Some(folder) = self.0.rules() else { return Ok(Vec::new()) };
        let files = folder.files()?;
        let rules = self.mock()?.rules();
        let findings = files.check(&self.mock()?.schema());
        let listed = files.paths().filter_map(|path| {
            let shown = path.display().to_string();
            let of = rules.iter().find(|rules| rules.file == shown);
            let found = findings.iter().filter(|finding| finding.diagnostic.file == shown);
            Some(RuleFile {
                name: folder.name_of(path)?,
                etag: files.text(path)?.map(etag).unwrap_or_default(),
                method: of.map(|rules| rules.method.clone()).unwrap_or_default(),
                findings: found.map(convert::finding).collect(),
                ..Default::default()
            })
        });
        Ok(listed.collect())
    }

    fn previewed(&self, request: &PreviewRequest) -> Result<PreviewReply> {
        let mock = match request.name.is_empty() {
            true => self.mock()?.clone(),
            false => {
                let (files, shown) = self.files_with(&request.name, &request.text)?;
                let (draft, mut findings) = self.mock()?.draft(&files);
                findings.retain(|finding| finding.diagnostic.file == shown);
                refuse_errors(&findings)?;
                draft
            }
        };
        let method = mock.method_named(&request.method)?;
        let requests: Result<Vec<_>> = request.requests.iter().map(|text| json(text)).collect();
        let preview = mock.preview(&method, &requests?, &headers::to_send(&request.headers)?)?;
        Ok(convert::preview(&mock, &method, &preview))
    }

    /// The calls that a request means, and how often they are to have come.
    fn calls_and_times(&self, request: &VerifyRequest) -> Result<(Calls, Times)> {
        let mut calls = match request.method.is_empty() {
            true => Calls::all(),
            false => Calls::of(self.mock()?.method_named(&request.method)?),
        };
        for (path, value) in object("with", &request.with)? {
            calls = calls.with(path, value);
        }
        for (name, value) in object("with_headers", &request.with_headers)? {
            calls = calls.with_header(name, value);
        }
        if !request.session.is_empty() {
            calls = calls.in_session(&*request.session);
        }
        let times = match (request.exactly, request.at_least, request.at_most) {
            (Some(0), None, None) => Times::Never,
            (Some(times), None, None) => Times::Exactly(times),
            (None, Some(times), None) => Times::AtLeast(times),
            (None, None, Some(times)) => Times::AtMost(times),
            (None, Some(least), Some(most)) if least <= most => Times::Between(least, most),
            (None, None, None) => Times::AtLeast(1),
            _ => {
                let why = "write exactly, or at_least or at_most or both, the smaller one first";
                return Err(Error::invalid_argument(why));
            }
        };
        Ok((calls, times))
    }
}

/// # Errors
/// What of findings is an error.
fn refuse_errors(findings: &[Finding]) -> Result<()> {
    let errors = findings.iter().filter(|finding| finding.is_error);
    let texts: Vec<_> = errors.map(ToString::to_string).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid_argument(texts.join("\n"))),
    }
}

impl Mocks for MocksApi {
    async fn list_rules(&self, _: Context, _: ListRulesRequest) -> Result<Reply<ListRulesReply>> {
        let rules = self.mock()?.rules().into_iter().map(|rules| MethodRules {
            method: rules.method,
            file: rules.file,
            responses: rules.responses.into_iter().map(response).collect(),
            stubs: rules.stubs as u64,
            fault: rules.fault.unwrap_or_default(),
            ..Default::default()
        });
        let rules = rules.collect();
        let files = self.beside(Self::files).await?;
        Ok(ListRulesReply { rules, files, ..Default::default() }.into())
    }

    async fn get_file(&self, _: Context, request: GetRuleFileRequest) -> Result<Reply<RuleFile>> {
        let get = move |this: &Self| this.rule_file(this.folder()?.read(&request.name)?);
        Ok(self.beside(get).await?.into())
    }

    async fn put_file(&self, _: Context, request: PutRuleFileRequest) -> Result<Reply<RuleFile>> {
        let put = move |this: &Self| {
            let PutRuleFileRequest { name, text, etag, .. } = request;
            let (_, findings) = this.checked(&name, &text)?;
            refuse_errors(&findings)?;
            let written = this.folder()?.write(&name, &text, &etag)?;
            tracing::warn!(file = name, "a rule file was written by the admin listener");
            this.rule_file(written)
        };
        Ok(self.beside(put).await?.into())
    }

    async fn delete_file(
        &self,
        _: Context,
        request: DeleteRuleFileRequest,
    ) -> Result<Reply<DeleteRuleFileReply>> {
        let delete = move |this: &Self| {
            this.folder()?.delete(&request.name, &request.etag)?;
            tracing::warn!(file = request.name, "a rule file was deleted by the admin listener");
            Ok(DeleteRuleFileReply::default())
        };
        Ok(self.beside(delete).await?.into())
    }

    async fn list_protos(
        &self,
        _: Context,
        _: ListProtosRequest,
    ) -> Result<Reply<ListProtosReply>> {
        self.mock()?;
        let list = |this: &Self| Ok(this.0.protos().map(|protos| protos.names(true)));
        let names = self.beside(list).await?.unwrap_or_default();
        Ok(ListProtosReply { names, ..Default::default() }.into())
    }

    async fn get_proto(&self, _: Context, request: GetProtoRequest) -> Result<Reply<ProtoFile>> {
        let GetProtoRequest { name, .. } = request;
        let get = move |this: &Self| {
            let text = this.protos()?.read(&name)?;
            Ok(ProtoFile { name, etag: etag(&text), text, ..Default::default() })
        };
        Ok(self.beside(get).await?.into())
    }

    async fn put_proto(&self, _: Context, request: PutProtoRequest) -> Result<Reply<ProtoFile>> {
        let PutProtoRequest { name, text, etag: tag, .. } = request;
        let put = move |this: &Self| {
            let problems = this.protos()?.replace(&name, &text, &tag)?;
            Ok(ProtoFile { name, etag: etag(&text), text, problems, ..Default::default() })
        };
        Ok(self.beside(put).await?.into())
    }

    async fn delete_proto(
        &self,
        _: Context,
        request: DeleteProtoRequest,
    ) -> Result<Reply<DeleteProtoReply>> {
        let DeleteProtoRequest { name, etag, .. } = request;
        let delete = move |this: &Self| this.protos()?.delete(&name, &etag);
        let problems = self.beside(delete).await?;
        Ok(DeleteProtoReply { problems, ..Default::default() }.into())
    }

    async fn check(
        &self,
        _: Context,
        request: CheckRulesRequest,
    ) -> Result<Reply<CheckRulesReply>> {
        let check = move |this: &Self| this.checked(&request.name, &request.text);
        let (_, findings) = self.beside(check).await?;
        let findings = findings.iter().map(convert::finding).collect();
        Ok(CheckRulesReply { findings, ..Default::default() }.into())
    }

    async fn preview(&self, _: Context, request: PreviewRequest) -> Result<Reply<PreviewReply>> {
        Ok(self.beside(move |this| this.previewed(&request)).await?.into())
    }

    async fn list_calls(
        &self,
        _: Context,
        request: ListMockedCallsRequest,
    ) -> Result<Reply<ListMockedCallsReply>> {
        let mock = self.mock()?;
        let mut wanted = match request.method.is_empty() {
            true => Calls::all(),
            false => Calls::of(mock.method_named(&request.method)?),
        };
        if !request.session.is_empty() {
            wanted = wanted.in_session(request.session);
        }
        let calls = mock.calls(&wanted).into_iter().filter(|call| call.number > request.after);
        let calls = limited(calls.collect(), request.after, limit(request.limit));
        let calls = calls.iter().map(|call| convert::call(call, request.bodies)).collect();
        Ok(ListMockedCallsReply { calls, ..Default::default() }.into())
    }

    async fn near_misses(
        &self,
        _: Context,
        request: NearMissesRequest,
    ) -> Result<Reply<NearMissesReply>> {
        let mock = self.mock()?;
        let NearMissesRequest { after, limit: asked, method, session, .. } = request;
        let method = match method.is_empty() {
            true => None,
            false => Some(mock.method_named(&method)?),
        };
        let is_meant = |miss: &tidewire_mock::NearMiss| {
            let path = miss.call.method.path.trim_start_matches('/');
            miss.call.number > after
                && method.as_ref().is_none_or(|method| method == path)
                && (session.is_empty() || miss.call.session == session)
        };
        let mut misses = mock.near_misses();
        misses.retain(is_meant);
        let limit = if asked == 0 { NEAR_MISSES } else { limit(asked) };
        let more = misses.len().saturating_sub(limit) as u64;
        let schema = mock.schema();
        let misses = misses.iter().take(limit).map(|miss| convert::near_miss(miss, &schema));
        Ok(NearMissesReply { misses: misses.collect(), more, ..Default::default() }.into())
    }

    async fn verify(&self, _: Context, request: VerifyRequest) -> Result<Reply<VerifyReply>> {
        let (calls, times) = self.calls_and_times(&request)?;
        let mock = self.mock()?;
        let verified = mock.verify(&calls, times);
        let schema = mock.schema();
        let method = mock.method_named(&request.method).unwrap_or_default();
        let input = convert::types(&schema, &method).0;
        let of = schema.message_type(&input);
        let reply = VerifyReply {
            verified: verified.is_ok(),
            calls: mock.calls(&calls).len() as u64,
            problem: verified
                .err()
                .map_or_else(String::new, |why| convert::problem(&why.to_string(), of)),
            ..Default::default()
        };
        Ok(reply.into())
    }

    async fn stub(&self, _: Context, request: StubRequest) -> Result<Reply<StubReply>> {
        let StubRequest { method, response, session, .. } = request;
        let method = self.mock()?.method_named(&method)?;
        let response = json(&response)?;
        if !response.is_object() {
            let why = "response is not an object; write {\"body\": {}}";
            return Err(Error::invalid_argument(why));
        }
        let session = Some(session).filter(|session| !session.is_empty());
        let path = method.clone();
        let stub = move |this: &Self| Ok(this.mock()?.stub(&path, &response, session.as_deref()));
        let findings = self.beside(stub).await?.err().unwrap_or_default();
        if !findings.is_empty() {
            let texts: Vec<_> = findings.iter().map(convert::finding_text).collect();
            return Err(Error::invalid_argument(format!("{method}: {}", texts.join("; "))));
        }
        tracing::info!(method, "a stub was added by the admin listener");
        Ok(StubReply::default().into())
    }

    async fn unstub(&self, _: Context, request: UnstubRequest) -> Result<Reply<UnstubReply>> {
        let UnstubRequest { method, session, .. } = request;
        let method = match method.is_empty() {
            true => None,
            false => Some(self.mock()?.method_named(&method)?),
        };
        let session = Some(session).filter(|session| !session.is_empty());
        let unstub =
            move |this: &Self| Ok(this.mock()?.unstub(method.as_deref(), session.as_deref()));
        let removed = self.beside(unstub).await?;
        tracing::info!(stubs = removed, "stubs were removed by the admin listener");
        let stubs = u32::try_from(removed).unwrap_or(u32::MAX);
        Ok(UnstubReply { stubs, ..Default::default() }.into())
    }

    async fn list_sessions(
        &self,
        _: Context,
        _: ListSessionsRequest,
    ) -> Result<Reply<ListSessionsReply>> {
        let sessions = self.mock()?.list_sessions().into_iter().map(|session| MockSession {
            name: session.name,
            calls: session.calls,
            state: session.state.into_iter().map(without_secret).collect(),
            ..Default::default()
        });
        Ok(ListSessionsReply { sessions: sessions.collect(), ..Default::default() }.into())
    }

    async fn get_faults(&self, _: Context, _: GetFaultsRequest) -> Result<Reply<Faults>> {
        Ok(faults(self.mock()?).into())
    }

    async fn set_faults(&self, _: Context, request: SetFaultsRequest) -> Result<Reply<Faults>> {
        let SetFaultsRequest { text, method, .. } = request;
        self.mock()?.set_faults(Some(&*method).filter(|name| !name.is_empty()), &text)?;
        tracing::warn!(method, text, "faults were set by the admin listener");
        Ok(faults(self.mock()?).into())
    }

    async fn reset(
        &self,
        _: Context,
        request: ResetMocksRequest,
    ) -> Result<Reply<ResetMocksReply>> {
        let session = Some(request.session.as_str()).filter(|session| !session.is_empty());
        self.mock()?.reset(session);
        tracing::warn!("what the mock remembers was forgotten by the admin listener");
        Ok(ResetMocksReply::default().into())
    }
}

fn faults(mock: &Mock) -> Faults {
    let set = mock.faults().into_iter();
    let faults = set.map(|(method, text)| SetFault { method, text, ..Default::default() });
    Faults { faults: faults.collect(), ..Default::default() }
}

fn response((line, name): (u32, String)) -> RuleResponse {
    RuleResponse { line, name, ..Default::default() }
}

fn without_secret((key, value): (String, String)) -> (String, String) {
    let value = if redact::is_secret(&key) { "***".to_owned() } else { redact::text(&value) };
    (key, value)
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|why| Error::invalid_argument(format!("{text:?} is not JSON: {why}")))
}

/// How many near misses are listed unless it is said.
const NEAR_MISSES: usize = 3;

/// So many of these, which are in order: behind a number the first, so that a caller that asks on
/// passes nothing over, and without a number the last.
fn limited<T>(mut all: Vec<T>, after: u64, limit: usize) -> Vec<T> {
    match after {
        0 => all.split_off(all.len().saturating_sub(limit)),
        _ => {
            all.truncate(limit);
            all
        }
    }
}

/// The members of an object in JSON; none of an empty text.
fn object(what: &str, text: &str) -> Result<Vec<(String, Value)>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match json(text)? {
        Value::Object(members) => Ok(members.into_iter().collect()),
        _ => Err(Error::invalid_argument(format!(
            "{what} is not an object; write {{\"item.sku\": \"SK-1\"}}"
        ))),
    }
}
