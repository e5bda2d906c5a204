//! `tidewire mocks import`: stubs of other mock servers to rule files.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use tidewire::mock::{ImportReport, MockFolders, Program, RuleFile, import, load_stubs};

use crate::call::printable::{printable, printable_lines};
use crate::failure::Failure;

/// Write rule files for `tidewire mock` from stubs of another mock server.
///
/// Prints what rules cannot say as FILE:LINE: KEY: WHY, and exits with 1 if there is anything of
/// that kind; the rest is written all the same.
#[derive(Debug, clap::Args)]
pub(super) struct Import {
    /// Mock server that the stubs are for.
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// Stub files, and folders of them; may be repeated.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Folder of `.proto` files, a `.proto` file, or a file with a descriptor set.
    #[arg(long, value_name = "PATH", default_value = "protos")]
    protos: PathBuf,
    /// Folder to write rule files to; it is created if it does not exist.
    #[arg(long, value_name = "FOLDER", default_value = "rules")]
    into: PathBuf,
    /// Replace rule files that exist [default: nothing is written if one exists].
    #[arg(long)]
    overwrite: bool,
    /// Print the rule files and write nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A mock server whose stubs are read.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    Gripmock,
    Wiremock,
    Fauxrpc,
}

impl Kind {
    fn program(self) -> Program {
        match self {
            Self::Gripmock => Program::GripMock,
            Self::Wiremock => Program::WireMock,
            Self::Fauxrpc => Program::FauxRpc,
        }
    }
}

impl Import {
    pub(super) fn run(self) -> Result<(), Failure> {
        let loaded = MockFolders::new(&self.protos).load();
        if loaded.schema.services().next().is_none() {
            let mut why = format!("there is no service in {}", self.protos.display());
            for fault in &loaded.faults {
                let _ = write!(why, "\n{fault}");
            }
            return Err(Failure::usage(anyhow::anyhow!(why)));
        }
        let program = self.kind.program();
        let mut files = Vec::new();
        let mut unreadable = Vec::new();
        for path in &self.paths {
            let mut stubs = load_stubs(program, path)
                .map_err(|why| Failure::usage(anyhow::anyhow!(why.to_string())))?;
            files.append(&mut stubs.files);
            unreadable.append(&mut stubs.unreadable);
        }
        let imported = import(program, &files, &loaded.schema);
        let mut out = String::new();
        for fault in loaded.faults.iter().chain(&unreadable) {
            let _ = writeln!(out, "{}", printable_lines(&fault.to_string()));
        }
        for finding in &imported.findings {
            let _ = writeln!(out, "{}", printable(&finding.to_string()));
        }
        match self.dry_run {
            true => show(&imported.files, &mut out),
            false => self.write(&imported.files, &mut out)?,
        }
        let _ = writeln!(out, "{}", summary(&imported, self.dry_run));
        std::io::stdout().write_all(out.as_bytes())?;
        let problems = imported.findings.len() + loaded.faults.len() + unreadable.len();
        match problems {
            0 => Ok(()),
            1 => Err(anyhow::anyhow!("1 thing could not be carried over").into()),
            many => Err(anyhow::anyhow!("{many} things could not be carried over").into()),
        }
    }

    fn write(&self, files: &[RuleFile], out: &mut String) -> Result<(), Failure> {
        let there = |path: &Path| path.symlink_metadata().is_ok();
        let paths: Vec<_> = files.iter().map(|file| self.into.join(&file.name)).collect();
        let known: Vec<_> = paths.iter().filter(|path| there(path)).collect();
        if let Some(first) = known.first().filter(|_| !self.overwrite) {
            let more = match known.len() {
                1 => String::new(),
                many => format!(" and {} more", many - 1),
            };
            let why = format!(
                "{}{more} exists, so nothing is written; --overwrite replaces it, and --into names \
                 another folder",
                first.display()
            );
            return Err(Failure::usage(anyhow::anyhow!(why)));
        }
        std::fs::create_dir_all(&self.into).map_err(|why| {
            anyhow::anyhow!("the folder {} cannot be made: {why}", self.into.display())
        })?;
        for (file, path) in files.iter().zip(&paths) {
            // A name beside it, so that no file is ever half written and no link is followed.
            let new = self.into.join(format!(".{}.new", file.name));
            let _ = std::fs::remove_file(&new);
            let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&new);
            let written = written.and_then(|mut opened| opened.write_all(file.text.as_bytes()));
            written.and_then(|()| std::fs::rename(&new, path)).map_err(|why| {
                let _ = std::fs::remove_file(&new);
                anyhow::anyhow!("cannot write {}: {why}", path.display())
            })?;
            let _ = writeln!(out, "wrote {}", printable(&path.display().to_string()));
        }
        Ok(())
    }
}

fn show(files: &[RuleFile], out: &mut String) {
    for file in files {
        let _ = writeln!(out, "--- {}\n{}", file.name, printable_lines(&file.text).trim_end());
    }
}

fn summary(imported: &ImportReport, is_dry: bool) -> String {
    let files = match imported.files.len() {
        1 => "1 rule file".to_owned(),
        many => format!("{many} rule files"),
    };
    let verb = if is_dry { "would carry" } else { "carried" };
    format!("{verb} {} of {} stubs over to {files}", imported.stubs_written, imported.stubs_read)
}
