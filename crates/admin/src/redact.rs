//! What is taken out of texts before they are shown: passwords in addresses, and what is called a
//! secret.
//!
//! Texts come from programs that print what they like, and from errors. What is taken out cannot be
//! asked for in another way. Headers of calls are not among them: their values are shown only where
//! a list says so (`observe::Record`). Of messages it is what their schema marks with
//! `debug_redact`, too.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;
use tidewire_schema::{Kind, MessageType, Single};

/// A text without the passwords of addresses, nor values of what is called a secret: `token=…`,
/// `password: …`, `"apiKey":"…"`, `--secret …`, also within JSON and queries.
pub fn text(text: &str) -> String {
    let text = &*under_names(text);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_of_name) {
        let (before, from) = rest.split_at(begin);
        shown.push_str(before);
        let (name, after) = from.split_at(from.find(|c| !is_of_name(c)).unwrap_or(from.len()));
        shown.push_str(name);
        rest = after;
        if may_be_assigned(name, after)
            && is_secret(name)
            && let Some(value) = assigned(name, after)
        {
            shown.push_str(&after[..value.start]);
            if !value.is_empty() {
                shown.push_str(HIDDEN);
            }
            rest = &after[value.end..];
        }
    }
    shown.push_str(rest);
    after_bearer(without_passwords(&shown))
}

/// A line of several that came one by one, of which this one was `before` it.
pub(crate) fn line(before: &str, line: &str) -> String {
    under(before, line).unwrap_or_else(|| text(line))
}

/// Hides words that stand by themselves below the name of a secret.
fn under_names(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') {
        return Cow::Borrowed(text);
    }
    let mut before = "";
    let lines = text.split_inclusive('\n').map(|line| {
        let shown = under(before, line);
        before = line;
        shown.map_or(Cow::Borrowed(line), Cow::Owned)
    });
    Cow::Owned(lines.collect())
}

/// The line without the secret that it is: a word by itself where the line before ends with the
/// name of one, `password:`. More words are not value, nor is what has its own name.
fn under(before: &str, line: &str) -> Option<String> {
    let word = line.trim();
    let name = word.split([':', '=']).next().unwrap_or_default();
    let value = word[name.len()..].trim_start_matches([':', '=']);
    let is_named = name.len() < word.len() && (word.ends_with(':') || !value.is_empty());
    let is_value = !word.is_empty() && !word.contains(char::is_whitespace) && !is_named;
    (is_value && ends_with_name(before)).then(|| line.replacen(word, HIDDEN, 1))
}

/// Whether a line ends with the name of a secret and a colon, or what begins a text of YAML.
fn ends_with_name(line: &str) -> bool {
    let line = line.trim_end().trim_end_matches(['|', '>', '-', '+']).trim_end();
    let Some(line) = line.strip_suffix(':') else { return false };
    let line = line.trim_end_matches(['"', '\'', '\\', ']', ' ']);
    let mut words = line.rsplit(|c| !is_of_name(c));
    let last = words.next().unwrap_or_default();
    let before = words.next().unwrap_or_default();
    is_secret(last) || is_secret(&format!("{before}_{last}"))
}

const fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Whether a sign of an assignment may follow a name: found faster than whether it is a secret.
fn may_be_assigned(name: &str, after: &str) -> bool {
    let sign = after.trim_start_matches(['\\', '"', '\'', ']', ' ', '\t']);
    sign.starts_with(['=', ':', '>']) || name.starts_with("--")
}

/// Where the value stands that is assigned to a name.
fn assigned(name: &str, after: &str) -> Option<Range<usize>> {
    let skip =
        |from: usize, chars: &[char]| after.len() - after[from..].trim_start_matches(chars).len();
    let quoted = skip(0, &['\\', '"', '\'', ']']);
    let sign = skip(skip(quoted, &[' ', '\t']), &['=', ':', '>']);
    let has_sign = after[quoted..sign].contains(['=', ':']);
    // `--token hunter2`, as arguments of a program have it.
    let is_argument = name.starts_with("--") && after.starts_with(' ');
    // `<token>hunter2</token>`
    if after.starts_with('>')
        && let Some(end) = after.find(&format!("</{name}>"))
    {
        return Some(1..end);
    }
    if !has_sign && !is_argument {
        return None;
    }
    let begin = skip(sign, &[' ', '\t', '\\']);
    let value = &after[begin..];
    let name = name.to_ascii_lowercase();
    // All of such a header is one.
    let is_header = name.ends_with("authorization") || name.ends_with("cookie");
    let (open, length) = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            (1, until_quote(&value[1..], quote, after[..begin].ends_with('\\')))
        }
        Some('{' | '[') => (0, balanced(value)),
        _ if is_header => (0, value.find(['\n', '"']).unwrap_or(value.len())),
        _ => (0, value.find(ENDS).unwrap_or(value.len())),
    };
    let start = begin + open;
    Some(start..start + length)
}

const ENDS: [char; 12] = [' ', '\t', '\n', '\r', ',', ';', '&', '"', '\'', '}', ']', ')'];

/// How long a text is that ends with this quote; one that begins with a quote that is escaped ends
/// with such a one.
fn until_quote(text: &str, quote: char, is_escaped: bool) -> usize {
    let mut follows_backslash = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if c == quote && follows_backslash && is_escaped => return at - 1,
            _ if c == quote && !follows_backslash => return at,
            // A backslash that has one before it is itself meant.
            _ => follows_backslash = c == '\\' && !follows_backslash,
        }
    }
    text.len()
}

/// How long a list or an object is, or all that is there of it.
fn balanced(text: &str) -> usize {
    let mut depth = 0_usize;
    let end = text.char_indices().find(|(_, c)| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Hides who has access in each address.
fn without_passwords(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '\t', '"', '\'', '<', '>']);
    let hidden = words.map(|word| match password(word) {
        Some(range) => format!("{}{HIDDEN}{}", &word[..range.start], &word[range.end..]),
        None => word.to_owned(),
    });
    hidden.collect()
}

/// Whether something is a secret by its name; one that names a file or a header is not.
pub fn is_secret(name: &str) -> bool {
    let is_place = name.ends_with("_file") || name.ends_with("_header");
    !is_place && !FOLDERS.contains(&name) && is_called_secret(name)
}

fn is_called_secret(name: &str) -> bool {
    let words = words(name);
    let mut words = &words[..];
    // Where a page begins is asked for with it, and it opens nothing.
    if let [rest @ .., of, token] = words
        && matches!(&**token, "token" | "tokens")
        && PLACES_IN_LISTS.contains(&&**of)
    {
        words = rest;
    }
    let is_last = words.last().is_some_and(|last| LAST_SECRETS.contains(&&**last));
    let is_pass = words.iter().skip(1).any(|word| word == "pass");
    let is_whole = matches!(words, [only] if WHOLE_SECRETS.contains(&&**only));
    let together = words.concat();
    let together = ["pagetoken", "continuationtoken"]
        .iter()
        .find_map(|place| together.strip_suffix(place))
        .unwrap_or(&together);
    is_last || is_pass || is_whole || SECRETS.iter().any(|part| together.contains(part))
}

/// The words of a name in lower case, however they are told apart: `user_jwt`, `user-jwt`,
/// `userJwt`, `UserJWT`.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = name.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let is_lower = |c: char| c.is_lowercase() || c.is_ascii_digit();
        let begins = c.is_uppercase()
            && (is_lower(before)
                || (before.is_uppercase() && chars.peek().is_some_and(|next| next.is_lowercase())));
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a text has an address with a user and a password.
pub(crate) fn has_credential(text: &str) -> bool {
    password(text).is_some()
}

/// Takes out of the JSON of a message what its schema marks with `debug_redact`, and what is called
/// a secret.
pub fn message(value: &mut Value, of: MessageType<'_>) {
    let Value::Object(fields) = value else { return free(value) };
    match of.full_name() {
        "google.protobuf.Any" => return any(value, of),
        // Names in it are of no field of its type.
        "google.protobuf.Struct" | "google.protobuf.Value" => return free(value),
        _ => {}
    }
    for (name, value) in fields {
        match of.field(name) {
            Some(field) if field.is_redacted() || is_called_secret(field.name()) => hide(value),
            _ if is_called_secret(name) => hide(value),
            None => free(value),
            Some(field) => match (field.kind(), value) {
                (Kind::Map { value: one, .. }, Value::Object(entries)) => {
                    for (key, value) in entries {
                        if is_called_secret(key) { hide(value) } else { single(value, one) }
                    }
                }
                (Kind::List(one), Value::Array(values)) => {
                    values.iter_mut().for_each(|value| single(value, one));
                }
                (Kind::One(one), value) => single(value, one),
                (_, value) => hide(value),
            },
        }
    }
}

/// What is in an `Any`, by its own type; nothing of it where the schema does not have that.
fn any(value: &mut Value, of: MessageType<'_>) {
    let name = value["@type"].as_str().unwrap_or_default().to_owned();
    let inner = of.sibling(name.rsplit('/').next().unwrap_or_default());
    let Some(inner) = inner else { return hide(value) };
    // Of a well-known type the JSON is a member of its own.
    let is_well_known = inner.full_name().starts_with("google.protobuf.");
    match value.get_mut("value").filter(|_| is_well_known) {
        Some(within) => message(within, inner),
        None => message(value, inner),
    }
}

fn single(value: &mut Value, of: Single<'_>) {
    match of {
        Single::Message(of) => message(value, of),
        _ => free(value),
    }
}

/// JSON of which no schema says more.
fn free(value: &mut Value) {
    match value {
        Value::String(written) => *written = text(written),
        Value::Array(values) => values.iter_mut().for_each(free),
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_called_secret(name) { hide(value) } else { free(value) }
            }
        }
        _ => {}
    }
}

fn hide(value: &mut Value) {
    *value = Value::String(HIDDEN.to_owned());
}

/// Where the credential of an address stands: between `://` and the last `@` before the path. A
/// password that is not written as it should be may have a slash in it; what is behind a host and
/// its port has none.
fn password(text: &str) -> Option<Range<usize>> {
    let begin = text.find("://")? + 3;
    let authority = text[begin..].split(['/', '?', '#']).next().unwrap_or_default();
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_cut = !authority.contains(['@', ']']) && !port.chars().all(|c| c.is_ascii_digit());
    let authority = if is_cut { &text[begin..] } else { authority };
    let end = begin + authority.rfind('@')?;
    Some(begin..end)
}

/// Hides what stands behind `Bearer`, `Basic`.
fn after_bearer(text: String) -> String {
    let mut words = text.split(' ').peekable();
    if !words.clone().any(is_scheme) {
        return text;
    }
    let mut shown = Vec::new();
    while let Some(word) = words.next() {
        shown.push(word);
        // A credential is long, or it is all there is.
        let is_all = shown.len() == 1 && word == "Bearer" && words.clone().count() == 1;
        if is_scheme(word) && words.next_if(|next| is_all || next.len() >= 8).is_some() {
            shown.push(HIDDEN);
        }
    }
    shown.join(" ")
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.to_ascii_lowercase().ends_with(scheme))
}

const HIDDEN: &str = "***";
/// What shells call the folder that they are in.
const FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];
/// Names that are secrets, and parts of other names that are not.
const WHOLE_SECRETS: [&str; 5] = ["pin", "pass", "session", "sid", "bearer"];
/// Last words of names that are secrets: `userJwt`, `login.otp`, `webhook_signature`.
const LAST_SECRETS: [&str; 13] = [
    "jwt",
    "otp",
    "totp",
    "auth",
    "signature",
    "cvv",
    "cvv2",
    "cvc",
    "iban",
    "ssn",
    "pan",
    "dsn",
    "pem",
];
/// What a token is of, where it is not a secret: `next_page_token`, `continuationToken`.
const PLACES_IN_LISTS: [&str; 7] =
    ["page", "next", "previous", "prev", "continuation", "cursor", "sync"];
/// What is within a name, its words put together, that is a secret: `private_key`, `privateKey`
/// and `PRIVATE-KEY` all have `privatekey`.
const SECRETS: [&str; 34] = [
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "credential",
    "authorization",
    "cookie",
    "sessionid",
    "apikey",
    "accesskey",
    "privatekey",
    "encryptionkey",
    "decryptionkey",
    "signingkey",
    "sshkey",
    "licensekey",
    "licencekey",
    "masterkey",
    "sharedkey",
    "accountkey",
    "connectionstring",
    "pincode",
    "recoverycode",
    "backupcode",
    "mfacode",
    "otpcode",
    "securityanswer",
    "securitycode",
    "creditcard",
    "cardnumber",
    "socialsecuritynumber",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_and_all_else_stays() {
        for (written, shown) in [
            ("started in 3 ms: ready", "started in 3 ms: ready"),
            ("cannot reach postgres://ada:hunter2@db/shop", "cannot reach postgres://***@db/shop"),
            ("postgres://a:b@c@db/shop?x=y@z", "postgres://***@db/shop?x=y@z"),
            ("https://db/a@b", "https://db/a@b"),
            ("token=hunter2 and TOKEN:hunter2", "token=*** and TOKEN:***"),
            ("client_secret=hunter2", "client_secret=***"),
            ("token_file=/run/token", "token_file=/run/token"),
            ("authorization: Bearer abcdefgh.ijk", "authorization: ***"),
            ("with Bearer abcdefgh.ijk it is", "with Bearer *** it is"),
            (r#"{"level":"info","token":"a b","n":1}"#, r#"{"level":"info","token":"***","n":1}"#),
            (
                r#"{"a": {"client_secret" : "x\"y", "b": 2}}"#,
                r#"{"a": {"client_secret" : "***", "b": 2}}"#,
            ),
            (r#"said {\"token\":\"hunter2\",\"n\":1}"#, r#"said {\"token\":\"***\",\"n\":1}"#),
            (r#"{"tokens":["a","b"],"n":1}"#, r#"{"tokens":***,"n":1}"#),
            (r#"{"secret":{"a":[1]},"n":1}"#, r#"{"secret":***,"n":1}"#),
            ("GET /page?a=1&access_token=hunter2&b=2", "GET /page?a=1&access_token=***&b=2"),
            ("a=1,token=hunter2;b=2", "a=1,token=***;b=2"),
            ("password=\"two words\" x", "password=\"***\" x"),
            ("run --api-key hunter2 --port 1", "run --api-key *** --port 1"),
            ("run --api-key=hunter2 --port 1", "run --api-key=*** --port 1"),
            ("Cookie: a=b; c=d\nhost: x", "Cookie: ***\nhost: x"),
            ("env['DB_PASSWORD'] = hunter2", "env['DB_PASSWORD'] = ***"),
            ("password='two words' x", "password='***' x"),
            ("{'password': 'it\\'s', 'a': 'b'}", "{'password': '***', 'a': 'b'}"),
            ("DB_PASS=hunter2, passed=3 bypass=no", "DB_PASS=***, passed=3 bypass=no"),
            ("mysql://u:hunter/2@h/d", "mysql://***@h/d"),
            ("http://h:80/a@b and http://[::1]/a@b", "http://h:80/a@b and http://[::1]/a@b"),
            ("<password>hunter2</password> <a>b</a>", "<password>***</password> <a>b</a>"),
            ("password:\nhunter2", "password:\n***"),
            ("API key:\nhunter2", "API key:\n***"),
            (
                "a:\n  \"api-key\": |-\n    aHVudA==\nready",
                "a:\n  \"api-key\": ***\n    ***\nready",
            ),
            ("password:\nuser: ada\nready", "password:\nuser: ada\nready"),
            ("password:\nuser=ada", "password:\nuser=ada"),
            ("tokens:\n- a\nb", "tokens:\n- a\nb"),
            ("token:\n\nstarted in 3 ms\nready", "token:\n\nstarted in 3 ms\nready"),
            ("a password is asked for\nready", "a password is asked for\nready"),
            ("token_file:\n/run/token", "token_file:\n/run/token"),
            ("a\npassword:\thunter2\nb", "a\npassword:\t***\nb"),
            (r#"url="postgres://ada:hunter2@db/shop","#, r#"url="postgres://***@db/shop","#),
            ("tökens and token", "tökens and token"),
            ("token=", "token="),
            ("a basic fact", "a basic fact"),
            ("Bearer a.b", "Bearer ***"),
            ("PWD=/srv/a and OLDPWD=/srv", "PWD=/srv/a and OLDPWD=/srv"),
            ("DB_PWD=hunter2 passphrase=hunter2", "DB_PWD=*** passphrase=***"),
            ("pin: 1234, ping: 3 ms, spinning: 1", "pin: ***, ping: 3 ms, spinning: 1"),
            ("session_id=hunter2 sessions=3", "session_id=*** sessions=3"),
            ("password: hunter2 for ada", "password: *** for ada"),
            ("jwt=hunter2 userJwt: hunter2 otp=123456", "jwt=*** userJwt: *** otp=***"),
            (
                "pin_code=1234 pinCode=1234 creditCard: 4111",
                "pin_code=*** pinCode=*** creditCard: ***",
            ),
            (r#"{"ssh_key":"hunter2","signature":"ab"}"#, r#"{"ssh_key":"***","signature":"***"}"#),
            ("auth=hunter2 basic_auth: hunter2", "auth=*** basic_auth: ***"),
            (
                "author=ada hotplug=on signatures=3 autopilot=1",
                "author=ada hotplug=on signatures=3 autopilot=1",
            ),
            ("amqp://u:p@h password=x", "amqp://***@h password=***"),
        ] {
            assert_eq!(text(written), shown);
        }
    }

    #[test]
    fn a_name_is_a_secret_however_its_words_are_told_apart() {
        for words in [
            "private key",
            "access key",
            "access key id",
            "aws access key id",
            "encryption key",
            "signing key",
            "license key",
            "ssh key",
            "api key",
            "recovery code",
            "recovery codes",
            "mfa code",
            "connection string",
            "security answer",
            "card number",
            "credit card",
            "pin code",
            "user ssn",
            "card pan",
            "card cvv",
            "session id",
            "db pass",
            "user jwt",
            "access token",
            "refresh token",
            "client secret",
            "page token secret",
        ] {
            let words: Vec<_> = words.split(' ').collect();
            let humps: String =
                words.iter().map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            let camel = words[0].to_owned() + &humps[words[0].len()..];
            let upper = words.join("_").to_uppercase();
            for name in [words.join("_"), words.join("-"), words.join("."), camel, humps, upper] {
                assert!(is_secret(&name), "{name}");
            }
        }
        for name in
            ["ssn", "SSN", "pan", "cvv", "CVV2", "dsn", "pem", "APIKey", "userJWT", "apikey"]
        {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn what_asks_for_the_next_page_is_no_secret() {
        for name in [
            "page_token",
            "pageToken",
            "PageToken",
            "next_page_token",
            "nextPageToken",
            "page-token",
            "NEXT_PAGE_TOKEN",
            "next_token",
            "continuation_token",
            "continuationToken",
            "cursor",
            "next_cursor",
            "cursor_token",
            "sync_token",
            "pagetoken",
            "prev_page_token",
            "japan",
            "span",
            "key",
            "keys",
            "primary_key",
            "passed",
            "test_passed",
            "compass",
            "spin",
            "author",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        assert_eq!(
            text("GET /a?pageToken=b&access_token=c"),
            "GET /a?pageToken=b&access_token=***"
        );
    }

    #[test]
    fn a_line_that_comes_by_itself_is_known_by_the_one_before() {
        assert_eq!(line("password:", "  hunter2"), "  ***");
        assert_eq!(line("ready", "hunter2"), "hunter2");
        assert_eq!(line("password:", "token=hunter2"), "token=***");
    }
}
