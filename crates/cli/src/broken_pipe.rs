//! Output that nobody reads any more (`tidewire list | head -1`): the command ends without an
//! error.

use std::io::{Error, ErrorKind};

use crate::failure::Failure;

/// Whether whoever read the output had enough of it.
pub(crate) fn is_broken_pipe(failure: &Failure) -> bool {
    failure.error.chain().filter_map(|cause| cause.downcast_ref()).any(has_no_reader)
}

/// The same of an error of writing.
pub(crate) fn has_no_reader(error: &Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}
