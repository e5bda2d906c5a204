//! Compiling: the steps, one after the other.
//!
//! ```text
//!  Sources ─▶ load: read, parse, follow imports ─▶ link: resolve names ─▶ check options ─▶ Descriptors
//!                └─▶ diagnostics of every file       └─▶ of every file       └─▶ of every method
//! ```
//!
//! A step runs only when the one before found nothing wrong; each reports all it finds.

use crate::descriptors::Descriptors;
use crate::diagnostics::Diagnostics;
use crate::sources::Sources;
use crate::{link, load, options};

impl Sources {
    /// Compiles all of it.
    ///
    /// # Errors
    ///
    /// All that is wrong with the sources, as far as it could be found: parse errors of every file,
    /// or, when all parse, unknown names and wrong options of every file.
    pub fn compile(&self) -> Result<Descriptors, Diagnostics> {
        let loaded = load::load(self)?;
        let descriptors = link::link(loaded)?;
        options::check(&descriptors)?;
        Ok(descriptors)
    }
}
