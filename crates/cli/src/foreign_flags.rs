//! What hands write that know other programs.
//!
//! `-plaintext` and `-max-time 5` are grpcurl's, with one dash; they are read with two. A flag that
//! `tidewire` has under another name or not at all is answered with what to write.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags with one dash that have more than one letter.
const ONE_DASH: [&str; 13] = [
    "plaintext",
    "insecure",
    "cacert",
    "cert",
    "key",
    "servername",
    "authority",
    "max-time",
    "connect-timeout",
    "protoset",
    "proto",
    "rpc-header",
    "import-path",
];

/// Flags of other programs, and what to write here.
const ELSEWHERE: [(&str, &str); 18] = [
    ("--user", "send credentials as -H 'authorization: Basic …'"),
    ("-u", "send credentials as -H 'authorization: Basic …'"),
    ("--form", "a form is -H 'content-type: application/x-www-form-urlencoded' and -d"),
    ("-F", "a form is -H 'content-type: application/x-www-form-urlencoded' and -d"),
    ("--location", "redirects are not followed; name where they lead"),
    ("-L", "redirects are not followed; name where they lead"),
    ("--silent", "nothing but the reply is on standard output; leave it out"),
    ("-s", "nothing but the reply is on standard output; leave it out"),
    ("--compressed", "replies are decompressed anyway; leave it out"),
    ("--head", "write -X HEAD -i"),
    ("-I", "write -X HEAD -i"),
    ("--authority", "write -H 'host: NAME', or --server-name for the certificate"),
    ("--servername", "write --server-name"),
    ("--connect-timeout", "one --deadline is for the whole call"),
    ("--import-path", "name the folder itself: --proto FOLDER"),
    ("--reflect-header", "write -H; it is sent with every request"),
    ("--format", "requests and replies are JSON"),
    ("--address", "write --listen ADDRESS, or --port PORT"),
];

/// Arguments with flags of one dash as ours of two.
pub(crate) fn rewrite(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments: Vec<String> = arguments.collect();
    let calls =
        arguments.get(1).is_some_and(|word| ["call", "list", "describe"].contains(&&**word));
    let written = arguments.iter_mut().skip(2).take_while(|word| *word != "--");
    for word in written.filter(|_| calls) {
        let name = word.strip_prefix('-').and_then(|rest| rest.split('=').next());
        if name.is_some_and(|name| ONE_DASH.contains(&name)) {
            word.insert(0, '-');
        }
    }
    arguments
}

/// What to write in place of a flag that there is not, where the flag is another program's.
pub(crate) fn instead(error: &Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, text) = ELSEWHERE.iter().find(|(known, _)| known == flag)?;
    Some(format!("{flag}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_is_read_as_two_where_it_is_a_flag_of_grpcurl() {
        let check = |words: &str, expected: &str| {
            assert_eq!(rewrite(words.split(' ').map(str::to_owned)).join(" "), expected);
        };
        check(
            "tidewire call -plaintext -max-time=5 a:1",
            "tidewire call --plaintext --max-time=5 a:1",
        );
        check("tidewire call -d -- -plaintext", "tidewire call -d -- -plaintext");
        check("tidewire list -v -H x", "tidewire list -v -H x");
        check("tidewire bench -cert", "tidewire bench -cert");
    }
}
