//! Mocks of folders: `.proto` files and rules are read, served and watched.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tidewire::Server;
//! use tidewire::mock::MockFolders;
//!
//! let folders = MockFolders::new("protos").rules("rules");
//! let mocked = folders.load();
//! let (mock, _findings) = folders.mock(mocked).build();
//! let running = tidewire::mock::serve(Server::builder(), &mock).start().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A file that is broken does not keep the others from being served: [`LoadedFolders`] says what is
//! wrong with it.

mod drift;
mod load;
mod mask;
mod record;
mod recorded_reply;
mod recorded_request;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tidewire_admin::{ProtoFolder, RuleFolder, Token, Wishmock, WishmockPorts};
pub use tidewire_mock::{
    Calls, Decision, DefaultReply, Explanation, Finding, Frames, LoggedCall, MethodRules, Mock,
    MockBuilder, MockedService, NearMiss, Outcome, Plan, Preview, RULE_FILE_BYTES_MAX, RULE_SCHEMA,
    RealService, RecordedCall, ReloadReport, Respond, ResponseBuilder, RuleFiles, SESSION_HEADER,
    SessionInfo, Times, VerifyError, error_details, etag,
};
pub use tidewire_mock_import::{
    Finding as ImportFinding, ImportReport, Program, RuleFile, StubFile, import,
};
use tidewire_schema::Schema;
use tidewire_server::{Builder, TokioClock};
pub use tidewire_service::generated::serde_json::{Value as Json, json};

pub use self::drift::{Drift, drift};
pub use self::load::{LoadedFolders, LoadedStubs, load_rule_file, load_rules, load_stubs};
pub use self::record::UpstreamService;
pub use self::watch::{Change, Watch};

/// Where a mock is read from.
#[derive(Debug, Clone)]
pub struct MockFolders {
    protos: PathBuf,
    rules: Option<PathBuf>,
    /// A schema that is from elsewhere.
    schema: Option<Schema>,
    /// Of reloads: who reads the folders last lets the mock answer by them last.
    reloading: Arc<Mutex<()>>,
}

impl MockFolders {
    /// A folder of `.proto` files, a `.proto` file, or a descriptor set.
    pub fn new(protos: impl Into<PathBuf>) -> Self {
        Self { protos: protos.into(), rules: None, schema: None, reloading: Arc::default() }
    }

    /// No files but a schema, such as that of a server.
    pub fn of_schema(schema: Schema) -> Self {
        Self { schema: Some(schema), ..Self::new(PathBuf::new()) }
    }

    /// Sets the folder of rule files, which may not be there yet.
    #[must_use]
    pub fn rules(mut self, rules: impl Into<PathBuf>) -> Self {
        self.rules = Some(rules.into());
        self
    }

    /// Reads everything there is, as far as it is not broken.
    pub fn load(&self) -> LoadedFolders {
        load::load(&self.protos, self.rules.as_deref(), self.schema.clone())
    }

    /// Whether the folder of rule files is there.
    pub fn has_rules(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.exists())
    }

    /// A mock of what was read, by the clock of the system. In a folder with wishmock's layout
    /// (`rules/grpc`) methods without rules are not implemented, as there.
    pub fn mock(&self, loaded: LoadedFolders) -> MockBuilder {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
        let has_layout = self.rules.as_ref().is_some_and(|rules| rules.join("grpc").is_dir());
        Mock::builder(loaded.schema, TokioClock)
            .rules(loaded.rules)
            .now_millis(u64::try_from(millis).unwrap_or(0))
            .missing(if has_layout { DefaultReply::Unimplemented } else { DefaultReply::Generated })
    }

    /// Reads both again, and lets the mock answer by what they say now. Where no schema can be made
    /// of the sources, or a folder is gone, what answers stays.
    pub fn reload(&self, mock: &Mock) -> Change {
        watch::reload(self, mock, self.has_rules(), None)
    }

    /// The admin routes of wishmock for a mock of these folders, by the ports that it is served at:
    /// of gRPC, of gRPC over TLS and of Connect. Without a token whoever is on this machine may
    /// change the files.
    pub fn wishmock(
        &self,
        mock: &Mock,
        ports: WishmockPorts,
        token: Option<Token>,
    ) -> Option<Wishmock> {
        let protos = self.changed_protos(mock);
        let rules = self.steered(mock)?;
        Some(Wishmock { mock: mock.clone(), protos, rules, ports, token })
    }

    /// The folder of `.proto` files for an admin listener to change.
    pub(crate) fn changed_protos(&self, mock: &Mock) -> ProtoFolder {
        let folders = self.clone();
        let mocked = mock.clone();
        let reload = move || {
            let change = folders.reload(&mocked);
            change.findings().map(|finding| finding.to_string()).collect()
        };
        ProtoFolder::new(&self.protos, Arc::new(reload))
    }

    /// The folder of rules for an admin listener to change.
    pub(crate) fn steered(&self, mock: &Mock) -> Option<RuleFolder> {
        let rules = self.rules.clone()?;
        let folder = rules.clone();
        let folders = self.clone();
        let mock = mock.clone();
        let load = Arc::new(move || load_rules(&folder));
        let reload = move || watch::reload(&folders, &mock, false, Some(mock.schema())).reloaded;
        Some(RuleFolder::new(rules, load, Arc::new(reload)))
    }

    /// Watches both for changes, and lets the mock answer by what they say then.
    pub fn watch(&self, mock: &Mock) -> Watch {
        Watch::new(self.clone(), mock.clone())
    }
}

/// Serves every service of a mock, also those that come while it runs, with what its rules let go
/// wrong on purpose. `/` says what there is.
///
/// The log of the mock has every call that reaches it: requests that the mock refuses because they
/// break rules of validation ([`Builder::validation`]), and callers that left.
pub fn serve(builder: Builder, mock: &Mock) -> Builder {
    let validated = mock.clone();
    builder
        .offer_validated(mock.clone(), move |on| validated.set_validation(on))
        .gate(mock.call_gate())
        .faults(true)
        .front_page("A mock of these services.")
}
