//! Why a program does not run, and whether another try is of use.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why an instance could not be started, or crashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What there is to say: `it ended with exit code 1`.
    pub(crate) text: String,
    /// The program itself cannot be run.
    pub(crate) is_hopeless: bool,
    /// It was not ready within `start_timeout`, which is this.
    pub(crate) late_after: Option<Duration>,
}

impl Failure {
    pub(crate) fn text(text: String) -> Self {
        Self { text, is_hopeless: false, late_after: None }
    }

    /// What the system says of a program.
    pub(crate) fn of(error: &io::Error) -> Self {
        let is_hopeless = matches!(
            error.kind(),
            io::ErrorKind::NotFound
                | io::ErrorKind::PermissionDenied
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::ArgumentListTooLong
        ) || error.raw_os_error() == Some(libc::ENOEXEC);
        Self { is_hopeless, ..Self::text(format!("it cannot be run: {error}")) }
    }

    /// That it cannot be run as another user, if that is what the system says.
    pub(crate) fn of_user(error: &io::Error, is_of_another: bool) -> Option<Self> {
        let is_refused = is_of_another && error.raw_os_error() == Some(libc::EPERM);
        let text = || format!("it cannot be run as another user, which only root may do: {error}");
        is_refused.then(|| Self { is_hopeless: true, ..Self::text(text()) })
    }

    /// What is not the program's fault.
    pub(crate) fn for_now(error: io::Error) -> Self {
        Self::text(format!("it cannot be started now: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
