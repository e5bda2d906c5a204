//! One file: its text mended, parsed and marked, before its names are resolved.

use std::path::PathBuf;

use prost_reflect::prost_types::FileDescriptorProto;

use crate::diagnostics::Diagnostic;
use crate::load::set;
use crate::text::numbers::RealNumbers;
use crate::text::{bounds, edition, mend, syntax, synthetic};
use crate::{builtin, explain};

/// One file, read and parsed but not linked.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The name it is imported by.
    pub(crate) name: String,
    /// Where it was read from.
    pub(crate) path: Option<PathBuf>,
    /// How diagnostics call it.
    pub(crate) display: String,
    /// Whether it was asked for.
    pub(crate) requested: bool,
    /// Its text, unless it comes out of a descriptor set.
    pub(crate) text: Option<String>,
    /// What the parser made of it, or the descriptor set holds.
    pub(crate) descriptor: FileDescriptorProto,
    /// The descriptor as the set holds it, options of every kind included.
    pub(crate) encoded: Option<Vec<u8>>,
    /// Numbers of fields in the descriptor that stand for others.
    pub(crate) numbers: RealNumbers,
}

/// The built-in file `name`.
pub(crate) fn built_in(name: &str) -> Option<Unit> {
    match builtin::text(name) {
        Some(text) => parse(name, name, text.to_owned()).ok(),
        None => builtin::well_known(name).map(|file| Unit {
            name: name.to_owned(),
            path: None,
            display: name.to_owned(),
            requested: false,
            text: None,
            descriptor: file.into(),
            encoded: None,
            numbers: RealNumbers::new(),
        }),
    }
}

/// What a text says, or what is wrong with it.
pub(crate) fn parse(name: &str, display: &str, mut text: String) -> Result<Unit, Vec<Diagnostic>> {
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    let edition = syntax::edition(&text);
    let is_edition = edition.is_some();
    if let Some(edition) = edition.filter(|edition| edition.name != edition::NAME) {
        let message = format!("edition \"{}\" cannot be read from text", edition.name);
        return Err(vec![
            Diagnostic::new(display, message)
                .help(set::HOW_TO_MAKE)
                .at_offset(&text, edition.offset),
        ]);
    }
    bounds::check(&text, display).map_err(|diagnostic| vec![diagnostic])?;
    let mended = mend::mend(&text, is_edition);
    if !mended.refused.is_empty() {
        let refused = mended.refused.iter();
        return Err(refused
            .map(|one| {
                Diagnostic::new(display, one.what).help(one.help).at_offset(&text, one.offset)
            })
            .collect());
    }
    let file = protox::file::File::from_source(name, &mended.text)
        .map_err(|error| explain::parse_error(&error, display, &text, &mended))?;
    let mut descriptor = FileDescriptorProto::from(file);
    if is_edition {
        edition::mark(&mut descriptor, &mended.text);
    }
    descriptor.source_code_info.iter_mut().for_each(|info| mended.restore(info));
    synthetic::rename(&mut descriptor);
    Ok(Unit {
        name: name.to_owned(),
        path: None,
        display: display.to_owned(),
        requested: false,
        text: Some(text),
        descriptor,
        encoded: None,
        numbers: mended.numbers,
    })
}

/// What some editors put before UTF-8 text; it is not a part of it.
const BYTE_ORDER_MARK: char = '\u{feff}';
