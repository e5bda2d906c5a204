//! Reading every source, and every file it imports.
//!
//! Files are parsed as they are met, breadth first, so that one compilation reports the syntax
//! errors and missing imports of all files. Then they are put in order, imports first; a circle of
//! imports ends there.

mod folder;
mod image_json;
mod order;
pub(crate) mod resolve;
pub(crate) mod set;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use prost_reflect::prost_types::FileDescriptorProto;
use protox::prost::Message;

use self::resolve::Roots;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::sources::{DESCRIPTOR_SET_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, Sources};
use crate::text::numbers::RealNumbers;
use crate::unit::{Unit, built_in, parse};
use crate::{builtin, suggest, wire_format};

/// Reads all of `sources` and what they import; imports come first.
pub(crate) fn load(sources: &Sources) -> Result<Vec<Unit>, Diagnostics> {
    let mut loader = Loader::new(sources);
    loader.request(sources);
    while let Some(name) = loader.queue.pop_front() {
        if loader.units.len() >= FILES_MAX {
            let message = format!("more than {FILES_MAX} files, imports included");
            loader.diagnostics.push(Diagnostic::new(name, message).help("compile fewer files"));
            break;
        }
        loader.open(name);
    }
    loader.find_twins();
    match Diagnostics::from_list(loader.diagnostics) {
        Some(diagnostics) => Err(diagnostics),
        None => Ok(order::in_order(loader.units)?),
    }
}

#[derive(Debug, Default)]
struct Loader {
    roots: Roots,
    sets: BTreeMap<String, (Vec<u8>, PathBuf)>,
    requested: BTreeSet<String>,
    met: BTreeSet<String>,
    queue: VecDeque<String>,
    units: BTreeMap<String, Unit>,
    diagnostics: Vec<Diagnostic>,
}

impl Loader {
    fn new(sources: &Sources) -> Self {
        let mut roots = [sources.includes.as_slice(), &sources.folders].concat();
        if roots.is_empty() {
            roots =
                sources.files.iter().filter_map(|file| file.parent().map(PathBuf::from)).collect();
            roots.dedup();
        }
        let roots = Roots::new(roots);
        Self { diagnostics: roots.check(), roots, ..Self::default() }
    }

    /// Puts every file that was asked for into the queue.
    fn request(&mut self, sources: &Sources) {
        for path in &sources.sets {
            match read(path, DESCRIPTOR_SET_BYTES_MAX) {
                Ok(set) => match set::plain(set, DESCRIPTOR_SET_BYTES_MAX) {
                    Ok(set) => self.add_set(path, &set),
                    Err(why) => {
                        let diagnostic = Diagnostic::new(resolve::display(path), why);
                        self.diagnostics.push(diagnostic.help(set::HOW_TO_MAKE));
                    }
                },
                Err(diagnostic) => self.diagnostics.push(diagnostic),
            }
        }
        let mut names: Vec<_> = sources.files.iter().map(|file| self.roots.name_of(file)).collect();
        for root in sources.folders.iter().filter(|root| root.is_dir()) {
            match folder::proto_files(root) {
                Err(diagnostic) => names.push(Err(diagnostic)),
                Ok(files) => names.extend(files.iter().filter_map(|file| {
                    let name = resolve::plain_name(file)?;
                    Some(self.roots.first_of(&name, &root.join(file)))
                })),
            }
        }
        if sources.files.is_empty() && sources.folders.is_empty() && sources.sets.is_empty() {
            let nothing = Diagnostic::new("sources", "nothing to compile");
            names.push(Err(nothing.help("add a file, a folder or a descriptor set")));
        }
        for name in names {
            match name {
                Ok(name) => self.want(name),
                Err(diagnostic) => self.diagnostics.push(diagnostic),
            }
        }
    }

    fn want(&mut self, name: String) {
        self.requested.insert(name.clone());
        self.meet(&name);
    }

    fn meet(&mut self, name: &str) {
        if self.met.insert(name.to_owned()) {
            self.queue.push_back(name.to_owned());
        }
    }

    /// Takes the files of an encoded descriptor set. Asked for are those that declare a service or
    /// that no other file of the set imports, published files (`google/…`) apart.
    fn add_set(&mut self, path: &Path, encoded: &[u8]) {
        let Some(files) = set::split(encoded) else {
            let message = "not an encoded FileDescriptorSet";
            self.diagnostics
                .push(Diagnostic::new(resolve::display(path), message).help(set::HOW_TO_MAKE));
            return;
        };
        let imported: BTreeSet<&String> =
            files.iter().flat_map(|(file, _)| &file.dependency).collect();
        for (file, encoded) in &files {
            let name = file.name().to_owned();
            let wanted = !file.service.is_empty() || !imported.contains(&name);
            if let Some((_, other)) = self.sets.get(&name).filter(|(other, _)| {
                !builtin::is_published(&name)
                    && wire_format::without(other, 9) != wire_format::without(encoded, 9)
            }) {
                let message = format!("'{name}' differs from that in {}", resolve::display(other));
                let diagnostic = Diagnostic::new(resolve::display(path), message);
                self.diagnostics.push(diagnostic.help("make both sets from the same sources"));
            }
            self.sets.entry(name.clone()).or_insert_with(|| (encoded.clone(), path.to_owned()));
            if wanted && !builtin::is_published(&name) {
                self.want(name);
            }
        }
    }

    /// Reads and parses the file `name`, and queues what it imports.
    fn open(&mut self, name: String) {
        let unit = match self.roots.find(&name) {
            Some(path) => self.parse_disk(&name, path),
            None => self.in_set(&name).or_else(|| built_in(&name)),
        };
        let Some(mut unit) = unit else { return };
        unit.requested = self.requested.contains(&name);
        let mut seen = BTreeSet::new();
        for (index, import) in unit.descriptor.dependency.iter().enumerate() {
            if !seen.insert(import) {
                let message = format!("import '{import}' is listed twice");
                self.diagnostics
                    .push(order::at_import(&unit, index, message).help("remove one of the two"));
            } else if self.is_known(import) {
                self.meet(import);
            } else {
                let known = self.requested.iter().chain(self.sets.keys()).map(String::as_str);
                let message = match suggest::import(import, known.filter(|known| *known != name)) {
                    Some(meant) => format!("import '{import}' not found; did you mean '{meant}'?"),
                    None => format!("import '{import}' not found"),
                };
                let help = match &unit.encoded {
                    Some(_) => "make the descriptor set with --include_imports",
                    None => "correct the path, or add the folder it is relative to as an include",
                };
                self.diagnostics.push(order::at_import(&unit, index, message).help(help));
            }
        }
        self.units.insert(name, unit);
    }

    fn is_known(&self, name: &str) -> bool {
        self.sets.contains_key(name)
            || builtin::text(name).is_some()
            || self.roots.find(name).is_some()
            || builtin::well_known(name).is_some()
    }

    fn parse_disk(&mut self, name: &str, path: PathBuf) -> Option<Unit> {
        let display = resolve::display(&path);
        let text = read(&path, FILE_BYTES_MAX).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| {
                let valid =
                    String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                Diagnostic::new(display.clone(), "not UTF-8 text")
                    .help("save the file as UTF-8")
                    .at_offset(&valid, valid.len())
            })
        });
        match text
            .map_err(|diagnostic| vec![diagnostic])
            .and_then(|text| parse(name, &display, text))
        {
            Ok(unit) => Some(Unit { path: Some(path), ..unit }),
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                None
            }
        }
    }

    fn in_set(&self, name: &str) -> Option<Unit> {
        let (encoded, path) = self.sets.get(name)?;
        Some(Unit {
            name: name.to_owned(),
            path: Some(path.clone()),
            display: format!("{}({name})", resolve::display(path)),
            requested: false,
            text: None,
            descriptor: FileDescriptorProto::decode(encoded.as_slice()).ok()?,
            encoded: Some(encoded.clone()),
            numbers: RealNumbers::new(),
        })
    }

    /// Refuses a file that is reached under two names: its types would be declared twice.
    fn find_twins(&mut self) {
        let mut names = BTreeMap::new();
        for unit in self.units.values().filter(|unit| unit.encoded.is_none()) {
            let Some(path) = unit.path.as_ref().and_then(|path| path.canonicalize().ok()) else {
                continue;
            };
            if let Some(other) = names.insert(path, &unit.name) {
                let message = format!("this file is reached as '{other}' and as '{}'", unit.name);
                let diagnostic = Diagnostic::new(unit.display.clone(), message);
                self.diagnostics
                    .push(diagnostic.help("keep only the include its imports are relative to"));
            }
        }
    }
}

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Diagnostic> {
    let failed = |error: std::io::Error| {
        Diagnostic::new(resolve::display(path), format!("cannot be read: {error}"))
            .help("check that the file exists and may be read")
    };
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("the file has more than {bytes_max} bytes");
        return Err(Diagnostic::new(resolve::display(path), message)
            .help("split it; is it the file you mean?"));
    }
    Ok(bytes)
}
