//! `tidewire mocks`: rules and calls of a running mock, from its admin listener.

use std::io::Write as _;

use tidewire::admin::proto::tidewire::admin::v1::{
    ListMockedCallsRequest, ListRulesRequest, MockedCall, MocksClient, ResetMocksRequest,
};

use crate::Failure;
use crate::admin::{Admin, body_or_failure};
use crate::call::printable::printable;

/// Show the rules of a running mock, and what was called.
#[derive(Debug, clap::Args)]
pub(crate) struct Mocks {
    /// Show the last calls, and which response answered each.
    #[arg(long)]
    calls: bool,
    /// Forget calls, counts and state, of all sessions or of the one that is named.
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    reset: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

impl Mocks {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let client = MocksClient::new(self.admin.channel()?);
        if let Some(session) = self.reset {
            body_or_failure(
                client.reset(ResetMocksRequest { session, ..Default::default() }).await,
            )?;
            return Ok(());
        }
        if self.calls {
            return calls(&client).await;
        }
        let rules = body_or_failure(client.list_rules(ListRulesRequest::default()).await)?.rules;
        let mut out = std::io::stdout().lock();
        for rules in &rules {
            writeln!(out, "{}", printable(&rules.method))?;
            if rules.said > 0 {
                writeln!(out, "  {} responses of the program", rules.said)?;
            }
            for response in &rules.responses {
                let (file, name) = (printable(&rules.file), printable(&response.name));
                writeln!(out, "  {file}:{} {name}", response.line)?;
            }
            if !rules.fault.is_empty() {
                writeln!(out, "  {}", printable(&rules.fault))?;
            }
        }
        Ok(())
    }
}

async fn calls(client: &MocksClient) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let request = ListMockedCallsRequest { after, limit: 1000, ..Default::default() };
        let calls = body_or_failure(client.list_calls(request).await)?.calls;
        let Some(last) = calls.last() else { return Ok(()) };
        after = last.number;
        let mut out = std::io::stdout().lock();
        for MockedCall { number, method, session, rule, code, .. } in &calls {
            let rule = if rule.is_empty() { "no rule" } else { rule };
            let (method, session, rule) = (printable(method), printable(session), printable(rule));
            writeln!(out, "{number} {method} {code} {rule} {session}")?;
        }
    }
}
