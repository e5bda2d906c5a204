//! `Mocks`: services that are mocked, by which rules, and who called them.

use tidewire_mock::Mock;
use tidewire_service::{Code, Context, Error, Reply, Result};

use crate::proto::tidewire::admin::v1::{
    ListMockedCallsReply, ListMockedCallsRequest, ListRulesReply, ListRulesRequest, MethodRules,
    MockedCall, Mocks, ResetMocksReply, ResetMocksRequest, RuleResponse,
};
use crate::{Inventory, limit};

pub(crate) struct MocksApi(pub(crate) Inventory);

impl MocksApi {
    fn mock(&self) -> Result<&Mock> {
        let none = || Error::not_found("this server mocks nothing; tidewire mock does");
        self.0.mock().ok_or_else(none)
    }
}

impl Mocks for MocksApi {
    async fn list_rules(&self, _: Context, _: ListRulesRequest) -> Result<Reply<ListRulesReply>> {
        let rules = self.mock()?.rules().into_iter().map(|rules| MethodRules {
            method: rules.method,
            file: rules.file,
            responses: rules.responses.into_iter().map(response).collect(),
            said: rules.said as u64,
            fault: rules.fault.unwrap_or_default(),
            ..Default::default()
        });
        Ok(ListRulesReply { rules: rules.collect(), ..Default::default() }.into())
    }

    async fn list_calls(
        &self,
        _: Context,
        request: ListMockedCallsRequest,
    ) -> Result<Reply<ListMockedCallsReply>> {
        let calls = self.mock()?.calls(&tidewire_mock::Calls::all());
        let later = calls.into_iter().filter(|call| call.number > request.after);
        let calls = later.take(limit(request.limit)).map(|call| MockedCall {
            number: call.number,
            at_ms: call.at_millis,
            method: call.method.path.trim_start_matches('/').to_owned(),
            session: call.session.clone(),
            rule: call
                .rule
                .as_ref()
                .map_or_else(String::new, |rule| format!("{}:{}", rule.file, rule.line)),
            code: call.error.map_or("ok", Code::as_str).to_owned(),
            ..Default::default()
        });
        Ok(ListMockedCallsReply { calls: calls.collect(), ..Default::default() }.into())
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

fn response((line, name): (u32, String)) -> RuleResponse {
    RuleResponse { line, name, ..Default::default() }
}
