//! Where a schema is from, as arguments say it: files, or a server.

use std::path::{Path, PathBuf};

use crate::call::detect::detect;
use crate::call::reach::Reach;
use crate::call::reflection::reflect;
use crate::call::target::Target;
use crate::call::watch::Watch;
use crate::catalog::Catalog;
use crate::failure::Failure;

/// Where services are described, and what of them is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Origin {
    /// A server (localhost:8080), a folder of `.proto` files, a `.proto` file or a descriptor set;
    /// then names: shop.v1.Items, Items, Items/Get, shop.v1.Item.
    #[arg(value_names = ["ORIGIN", "NAME"])]
    words: Vec<String>,
    /// Folder of `.proto` files or a `.proto` file, in place of ORIGIN; may be repeated.
    #[arg(long, value_name = "PATH")]
    proto: Vec<PathBuf>,
    /// File with a descriptor set, in place of ORIGIN; may be repeated.
    #[arg(long, visible_alias = "protoset", value_name = "FILE")]
    descriptor_set: Vec<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

impl Origin {
    /// The origin itself, and the names behind it.
    pub(crate) fn split(&self) -> Result<(ResolvedOrigin<'_>, Vec<String>), Failure> {
        // A name may be written from the root on, as in `.proto` files: `.shop.v1.Item`.
        let name = |word: &String| match word.strip_prefix('.') {
            Some(name) if !Path::new(word).exists() => name.to_owned(),
            _ => word.clone(),
        };
        let paths = [&self.proto[..], &self.descriptor_set].concat();
        if !paths.is_empty() {
            return Ok((ResolvedOrigin::Files(paths), self.words.iter().map(name).collect()));
        }
        let Some((first, names)) = self.words.split_first() else {
            return Err(Failure::usage(anyhow::anyhow!(
                "name a server, such as localhost:8080, or a folder of .proto files"
            )));
        };
        if !Path::new(first).exists() && Target::is_meant(first) {
            let mut target = Target::parse(first).map_err(Failure::usage)?;
            if self.reach.plaintext {
                target.without_tls().map_err(Failure::usage)?;
            }
            return Ok((
                ResolvedOrigin::Server(target, &self.reach),
                names.iter().map(name).collect(),
            ));
        }
        Ok((ResolvedOrigin::Files(vec![first.into()]), names.to_vec()))
    }
}

/// An origin that was chosen.
pub(crate) enum ResolvedOrigin<'a> {
    Files(Vec<PathBuf>),
    Server(Target, &'a Reach),
}

impl ResolvedOrigin<'_> {
    /// Its schema.
    pub(crate) async fn load_catalog(&self) -> Result<Catalog, Failure> {
        match self {
            Self::Files(paths) => Catalog::load(paths).map_err(Failure::usage),
            Self::Server(target, reach) => {
                let server = detect(target, reach, &Watch::new(false)).await?;
                reflect(&server, reach, None).await
            }
        }
    }
}
