//! Colours on terminals: for the words `error` and `warning` alone, so that a text says the same
//! without them. `NO_COLOR` switches them off (<https://no-color.org>), and so does `TERM=dumb`.

use std::io::IsTerminal;

/// Whether what is written there may have colours.
pub(crate) fn are_on(stream: &impl IsTerminal) -> bool {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    stream.is_terminal() && of("NO_COLOR").is_none() && of("TERM").is_none_or(|it| it != "dumb")
}

/// A text whose first `word` has the colour of an error, or of a warning.
pub(crate) fn marked(text: &str, word: &str, is_error: bool) -> String {
    let color = if is_error { "\x1b[1;31m" } else { "\x1b[1;33m" };
    text.replacen(word, &format!("{color}{word}\x1b[0m"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_such_word_alone_is_marked() {
        let text = "a.proto:1:1: error: no error";
        assert_eq!(marked(text, "error", true), "a.proto:1:1: \x1b[1;31merror\x1b[0m: no error");
        assert_eq!(marked("nothing", "warning", false), "nothing");
    }
}
