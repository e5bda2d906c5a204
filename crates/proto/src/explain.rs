//! The parser's and the linker's errors as diagnostics.
//!
//! Both libraries report through `miette`: a message, places as byte offsets, sometimes a hint.
//! Where the hint is missing or unhelpful, the next step is said here.

use miette::Diagnostic as Report;
use prost_reflect::DescriptorError;

use crate::diagnostics::Diagnostic;
use crate::text::mend::MendedText;

/// What the parser found in `source`, which it read as `mended`.
pub(crate) fn parse_error(
    error: &protox::Error,
    file: &str,
    source: &str,
    mended: &MendedText,
) -> Vec<Diagnostic> {
    reports(error, file, Some(source), &|offset| mended.offset(offset))
}

/// What the linker found in the file; `source` is absent for files of a descriptor set.
pub(crate) fn link_error(
    error: DescriptorError,
    file: &str,
    source: Option<&str>,
) -> Vec<Diagnostic> {
    let error = match source {
        Some(source) => error.with_source_code(source),
        None => error,
    };
    reports(&error, file, source, &|offset| offset)
}

/// The reports in `error`; `place` is where in `source` an offset of theirs is.
fn reports(
    error: &dyn Report,
    file: &str,
    source: Option<&str>,
    place: &dyn Fn(usize) -> usize,
) -> Vec<Diagnostic> {
    let mut found = vec![report(error, file, source, place)];
    for other in error.related().into_iter().flatten() {
        found.push(report(other, file, source, place));
    }
    found
}

fn report(
    error: &dyn Report,
    file: &str,
    source: Option<&str>,
    place: &dyn Fn(usize) -> usize,
) -> Diagnostic {
    let mut message = error.to_string();
    let mut next = error.help().map(|help| help.to_string());
    // The cause of an option that does not fit says which field of it does not.
    if let Some(cause) = error.diagnostic_source() {
        message = format!("{message}: {cause}");
        next = next.or_else(|| cause.help().map(|help| help.to_string()));
    }
    if next.as_deref().is_some_and(|next| next.starts_with("imports may not contain")) {
        message = "invalid import path".to_owned();
    }
    let next = next.unwrap_or_else(|| next_step(&message).to_owned());
    let diagnostic = Diagnostic::new(file, message).help(next);
    // Where two places are named, the later one is the one at fault, unless one is a use of the
    // other.
    let labels = || error.labels().into_iter().flatten();
    let used = labels().find(|label| label.label() == Some("found here"));
    let offset = used.or_else(|| labels().max_by_key(|label| label.offset()));
    let offset = offset.map(|label| label.offset());
    match source.zip(offset) {
        Some((source, offset)) => diagnostic.at_offset(source, place(offset)),
        None if error.to_string().ends_with("reached end of file") => {
            let source = source.unwrap_or_default();
            diagnostic.at_offset(source, source.trim_end().len())
        }
        None => diagnostic,
    }
}

fn next_step(message: &str) -> &'static str {
    let about = |part| message.contains(part);
    if about("option field") || about("for option") {
        "check the option's name and value, and import the file that declares it"
    } else if about("is not defined") {
        "correct the name, declare it, or import the file that declares it"
    } else if about("already defined") || about("defined twice") {
        "rename one of the two, or compile only one of the two files"
    } else if about("field number") || about("enum number") {
        "give it another number"
    } else if about("reached end of file") {
        "a closing brace, quote or semicolon is missing at the end"
    } else if about("expected") {
        "correct the syntax here; a missing semicolon or brace before it is the usual cause"
    } else {
        "see the protobuf language guide, protobuf.dev/programming-guides"
    }
}
