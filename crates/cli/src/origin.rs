//! Where a schema is from, as arguments say it.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::known::Known;

/// Where services are described, and what of them is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Origin {
    /// A folder of `.proto` files, a `.proto` file or a descriptor set; then the names of services,
    /// methods, messages or enums: shop.v1.Items, Items, Items/Get.
    #[arg(value_names = ["ORIGIN", "NAME"], required = true)]
    words: Vec<String>,
}

impl Origin {
    /// The origin itself, and the names behind it.
    pub(crate) fn split(&self) -> Result<(Chosen, Vec<String>), Failure> {
        let (first, names) =
            self.words.split_first().map_or((None, &[][..]), |(f, n)| (Some(f), n));
        let path = PathBuf::from(first.cloned().unwrap_or_default());
        Ok((Chosen { paths: vec![path] }, names.to_vec()))
    }
}

/// An origin that was chosen.
pub(crate) struct Chosen {
    paths: Vec<PathBuf>,
}

impl Chosen {
    pub(crate) async fn known(&self, _: Option<&str>) -> Result<Known, Failure> {
        let paths: Vec<&Path> = self.paths.iter().map(PathBuf::as_path).collect();
        Known::load(&paths).map_err(Failure::usage)
    }
}
