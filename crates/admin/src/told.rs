//! What an admin listener tells of that is added while the program is put together: programs and mocks.

use std::fmt;
#[cfg(feature = "mock")]
use std::sync::OnceLock;
use std::sync::{Arc, Mutex, PoisonError};

use tidewire_hosting::Hosted;
#[cfg(feature = "mock")]
use tidewire_mock::Mock;

/// Programs and mocks that are told of; clones share them.
#[derive(Clone, Default)]
pub struct Told(Arc<Shared>);

#[derive(Default)]
struct Shared {
    programs: Mutex<Vec<Hosted>>,
    #[cfg(feature = "mock")]
    mock: OnceLock<Mock>,
}

impl Told {
    /// Adds a program.
    pub fn add_program(&self, program: Hosted) {
        self.0.programs.lock().unwrap_or_else(PoisonError::into_inner).push(program);
    }

    /// Forgets a program.
    pub fn remove_program(&self, name: &str) {
        let mut programs = self.0.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.retain(|program| program.name() != name);
    }

    #[cfg(feature = "mock")]
    /// Sets the mock; the first one is told of.
    pub fn set_mock(&self, mock: Mock) {
        let _ = self.0.mock.set(mock);
    }

    pub(crate) fn programs(&self) -> Vec<Hosted> {
        self.0.programs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[cfg(feature = "mock")]
    pub(crate) fn mock(&self) -> Option<&Mock> {
        self.0.mock.get()
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}
