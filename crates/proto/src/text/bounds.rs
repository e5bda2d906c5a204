//! What is refused before the parser sees it.
//!
//! The parser and the linker recurse over nested values and over names with many parts, and the
//! stack ends before they notice; here both have a bound, with the place in the error. An `extend`
//! without a field leaves no trace in a descriptor, so it is found here too.

use crate::diagnostics::Diagnostic;
use crate::text::lexemes::{Kind, lexemes};

/// The most braces, brackets and angle brackets that may be open at once.
pub(crate) const NESTING_MAX: usize = 64;

/// The most parts a name may have: `(a.b).c` has three.
pub(crate) const NAME_PARTS_MAX: usize = 64;

/// Refuses `source` where it is nested too deep, a name has too many parts or an `extend` is empty.
pub(crate) fn check(source: &str, file: &str) -> Result<(), Diagnostic> {
    let refuse = |offset, message: String| Diagnostic::new(file, message).at_offset(source, offset);
    let mut nesting = 0_usize;
    let mut dots = 0_usize;
    let mut extend = Extend::No;
    let mut before = "";
    for lexeme in lexemes(source) {
        match lexeme.text {
            "{" | "[" | "<" => nesting += 1,
            "}" | "]" | ">" => nesting = nesting.saturating_sub(1),
            _ => {}
        }
        if nesting > NESTING_MAX {
            let message = format!("brackets are nested more than {NESTING_MAX} deep");
            return Err(refuse(lexeme.offset, message).help("nest less; a message can be named"));
        }
        match lexeme.text {
            "." => dots += 1,
            "(" | ")" => {}
            _ if lexeme.kind == Kind::Word => {}
            _ => dots = 0,
        }
        if dots >= NAME_PARTS_MAX {
            let message = format!("a name of more than {NAME_PARTS_MAX} parts");
            return Err(refuse(lexeme.offset, message).help("set the fields in one value, `{ … }`"));
        }
        if lexeme.text == "uninterpreted_option" && ["option", "[", ","].contains(&before) {
            return Err(refuse(
                lexeme.offset,
                "`uninterpreted_option` is the compiler's".to_owned(),
            )
            .help("set the option by its own name"));
        }
        before = lexeme.text;
        extend = extend.after(lexeme.text, lexeme.kind);
        if extend == Extend::Empty {
            return Err(refuse(lexeme.offset, "an `extend` without a field".to_owned())
                .help("declare a field in it, or remove it"));
        }
    }
    Ok(())
}

/// How much of `extend Name { }` has been met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extend {
    /// None of it, in the middle of a statement.
    Inside,
    /// None of it, where a statement may begin.
    No,
    /// `extend`, and perhaps a name.
    Named,
    /// The opening brace as well.
    Open,
    /// All of it.
    Empty,
}

impl Extend {
    fn after(self, text: &str, kind: Kind) -> Self {
        match (self, text) {
            (Self::No, "extend") => Self::Named,
            (Self::Named, "{") => Self::Open,
            (Self::Named, ".") => Self::Named,
            (Self::Named, _) if kind == Kind::Word => Self::Named,
            (Self::Open, ";") => Self::Open,
            (Self::Open, "}") => Self::Empty,
            (_, "{" | "}" | ";") => Self::No,
            _ => Self::Inside,
        }
    }
}
