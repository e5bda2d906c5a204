//! The text of a `.proto`, made ready for a parser that knows less than the language has.
//!
//! | question | file |
//! |---|---|
//! | its words | `lexemes.rs` |
//! | its syntax or edition | `syntax.rs`, `edition.rs` |
//! | what is refused before it is parsed | `bounds.rs` |
//! | what is written otherwise for the parser, and restored | `mend.rs`, `numbers.rs`, `synthetic.rs` |

pub(crate) mod bounds;
pub(crate) mod edition;
pub(crate) mod lexemes;
pub(crate) mod mend;
pub(crate) mod numbers;
pub(crate) mod syntax;
pub(crate) mod synthetic;
