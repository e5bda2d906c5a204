//! What an admin listener tells of that is added while the program is put together: programs and
//! mocks, a change log.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;

use tidewire_cache::PageCache;
use tidewire_hosting::HostedService;
#[cfg(feature = "mock")]
use tidewire_mock::Mock;
use tidewire_oplog::OplogHandle;

use crate::loads::LoadProgram;
#[cfg(feature = "mock")]
use crate::mocks::folder::RuleFolder;
#[cfg(feature = "mock")]
use crate::mocks::protos::ProtoFolder;

/// The programs, mocks and caches that an admin listener shows; clones share them.
#[derive(Clone, Default)]
pub struct Inventory(Arc<Shared>);

#[derive(Default)]
struct Shared {
    programs: Mutex<Vec<HostedService>>,
    routes: Mutex<BTreeMap<String, String>>,
    oplog: OnceLock<OplogHandle>,
    pages: OnceLock<PageCache>,
    load_program: OnceLock<LoadProgram>,
    #[cfg(feature = "mock")]
    mock: OnceLock<Mock>,
    #[cfg(feature = "mock")]
    rules: OnceLock<RuleFolder>,
    #[cfg(feature = "mock")]
    protos: OnceLock<ProtoFolder>,
}

impl Inventory {
    /// Adds a program.
    pub fn add_program(&self, program: HostedService) {
        self.0.programs.lock().push(program);
    }

    /// Forgets a program.
    pub fn remove_program(&self, name: &str) {
        let mut programs = self.0.programs.lock();
        programs.retain(|program| program.name() != name);
    }

    /// Sets where the pages of programs are, by their names.
    pub fn set_routes(&self, routes: BTreeMap<String, String>) {
        *self.0.routes.lock() = routes;
    }

    /// Where the pages of a program are; empty where it has none.
    pub(crate) fn route_of(&self, program: &str) -> String {
        self.0.routes.lock().get(program).cloned().unwrap_or_default()
    }

    #[cfg(feature = "mock")]
    /// Sets the mock; the first one counts.
    pub fn set_mock(&self, mock: Mock) {
        let _ = self.0.mock.set(mock);
    }

    #[cfg(feature = "mock")]
    /// Sets the folder with the rules of the mock, so that they can be changed; the first one is.
    pub fn set_rules(&self, rules: RuleFolder) {
        let _ = self.0.rules.set(rules);
    }

    #[cfg(feature = "mock")]
    /// Sets the folder with the `.proto` files of the mock, so that they can be changed; the first
    /// one is.
    pub fn set_protos(&self, protos: ProtoFolder) {
        let _ = self.0.protos.set(protos);
    }

    /// Sets the change log; the first one counts.
    pub fn set_oplog(&self, oplog: OplogHandle) {
        let _ = self.0.oplog.set(oplog);
    }

    /// Sets the pages that are kept; the first ones count.
    pub fn set_pages(&self, pages: PageCache) {
        let _ = self.0.pages.set(pages);
    }

    /// Sets what makes load on this server; the first one does.
    pub fn set_load_program(&self, program: LoadProgram) {
        let _ = self.0.load_program.set(program);
    }

    pub(crate) fn load_program(&self) -> Option<&LoadProgram> {
        self.0.load_program.get()
    }

    /// Whether there is a mock.
    #[allow(clippy::unused_self, reason = "without the feature there is none")]
    pub(crate) fn has_mock(&self) -> bool {
        #[cfg(feature = "mock")]
        return self.mock().is_some();
        #[cfg(not(feature = "mock"))]
        false
    }

    pub(crate) fn pages(&self) -> Option<&PageCache> {
        self.0.pages.get()
    }

    pub(crate) fn oplog(&self) -> Option<&OplogHandle> {
        self.0.oplog.get()
    }

    pub(crate) fn programs(&self) -> Vec<HostedService> {
        self.0.programs.lock().clone()
    }

    #[cfg(feature = "mock")]
    pub(crate) fn rules(&self) -> Option<&RuleFolder> {
        self.0.rules.get()
    }

    #[cfg(feature = "mock")]
    pub(crate) fn protos(&self) -> Option<&ProtoFolder> {
        self.0.protos.get()
    }

    #[cfg(feature = "mock")]
    pub(crate) fn mock(&self) -> Option<&Mock> {
        self.0.mock.get()
    }
}

impl fmt::Debug for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inventory")
    }
}
