//! Words of an expression: names, numbers, strings and signs.

use super::value::Value;

/// A word, and where it begins.
#[derive(Debug, Clone)]
pub(super) enum Token {
    Name(String),
    Literal(Value),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}", "=",
];

/// Cuts an expression into words, each with the byte at which it begins.
pub(super) fn words(text: &str) -> Result<Vec<(Token, usize)>, String> {
    let mut words = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().unwrap_or_default();
        let length = if c.is_whitespace() {
            c.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            let (word, length) = word(rest).map_err(|why| format!("at {}: {why}", at + 1))?;
            words.push((word, at));
            length
        };
        at += length;
    }
    words.push((Token::End, at));
    Ok(words)
}

fn word(rest: &str) -> Result<(Token, usize), String> {
    if let Some(start) = string_start(rest) {
        return string(rest, &start);
    }
    let first = rest.as_bytes()[0];
    let after_dot = rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    if first.is_ascii_digit() || (first == b'.' && after_dot) {
        return number(rest);
    }
    if first.is_ascii_alphabetic() || first == b'_' {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        let word = match name {
            "true" => Token::Literal(Value::Bool(true)),
            "false" => Token::Literal(Value::Bool(false)),
            "null" => Token::Literal(Value::Null),
            _ => Token::Name(name.to_owned()),
        };
        return Ok((word, name.len()));
    }
    if let Some(name) = rest.strip_prefix('`').and_then(|rest| rest.split('`').next()) {
        return Ok((Token::Name(name.to_owned()), name.len() + 2));
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    let sign =
        sign.ok_or_else(|| format!("{:?} has no meaning", &rest[..1.max(char_len(rest))]))?;
    Ok((Token::Sign(sign), sign.len()))
}

fn char_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let bad = |text: &str| format!("{text} is not a number");
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let value = u64::from_str_radix(&digits[..end], 16).map_err(|_| bad(&rest[..end + 2]))?;
        return whole(value, &digits[end..], end + 2);
    }
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        bytes[from..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| from + n)
    };
    let mut end = digits(0);
    let mut fraction = false;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        (end, fraction) = (digits(end + 1), true);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            (end, fraction) = (digits(end + 1 + sign), true);
        }
    }
    if fraction {
        let value = rest[..end].parse().map_err(|_| bad(&rest[..end]))?;
        return Ok((Token::Literal(Value::Double(value)), end));
    }
    whole(rest[..end].parse().map_err(|_| bad(&rest[..end]))?, &rest[end..], end)
}

fn whole(value: u64, after: &str, end: usize) -> Result<(Token, usize), String> {
    if after.starts_with(['u', 'U']) {
        return Ok((Token::Literal(Value::Uint(value)), end + 1));
    }
    match i64::try_from(value) {
        Ok(value) => Ok((Token::Literal(Value::Int(value)), end)),
        // Only its negative is an integer; the parser takes the sign in.
        Err(_) if value == 1 << 63 => Ok((Token::Literal(Value::Int(i64::MIN)), end)),
        Err(_) => Err(format!("{value} is too large for an integer")),
    }
}

/// What a string begins with: its prefix (`r`, `b`) and its quotes.
struct StringStart {
    is_raw: bool,
    is_bytes: bool,
    quote: &'static str,
}

fn string_start(rest: &str) -> Option<StringStart> {
    let quotes = rest.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = rest[..rest.len() - quotes.len()].to_ascii_lowercase();
    let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|one| quotes.starts_with(one))?;
    (prefix.len() <= 2 && prefix != "rr" && prefix != "bb").then(|| StringStart {
        is_raw: prefix.contains('r'),
        is_bytes: prefix.contains('b'),
        quote,
    })
}

fn string(rest: &str, start: &StringStart) -> Result<(Token, usize), String> {
    let StringStart { is_raw, is_bytes, quote } = *start;
    let start = rest.find(quote).unwrap_or(0) + quote.len();
    let mut out = Vec::new();
    let mut at = start;
    while !rest[at..].starts_with(quote) {
        let c = rest[at..].chars().next().ok_or("a string has no end")?;
        if c == '\n' && quote.len() == 1 {
            return Err("a string has no end on its line".to_owned());
        }
        if c == '\\' && !is_raw {
            at += escape(&rest[at + 1..], is_bytes, &mut out)? + 1;
        } else {
            out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            at += c.len_utf8();
        }
    }
    let value = if is_bytes {
        Value::Bytes(out.into())
    } else {
        Value::text(String::from_utf8(out).map_err(|_| "a string is not UTF-8")?)
    };
    Ok((Token::Literal(value), at + quote.len()))
}

/// Reads what follows a backslash, and says how long it is.
fn escape(rest: &str, bytes: bool, out: &mut Vec<u8>) -> Result<usize, String> {
    let bad = || format!("\\{} is not an escape", rest.chars().take(1).collect::<String>());
    let c = rest.chars().next().ok_or_else(bad)?;
    let (digits, radix) = match c {
        'x' | 'X' => (2, 16),
        'u' if !bytes => (4, 16),
        'U' if !bytes => (8, 16),
        '0'..='3' => (3, 8),
        _ => {
            let plain = match c {
                'a' => 7,
                'b' => 8,
                'f' => 12,
                'n' => b'\n',
                'r' => b'\r',
                't' => b'\t',
                'v' => 11,
                '\\' | '\'' | '"' | '`' | '?' => c as u8,
                _ => return Err(bad()),
            };
            out.push(plain);
            return Ok(1);
        }
    };
    let start = usize::from(radix == 16);
    let text = rest.get(start..start + digits).ok_or_else(bad)?;
    let number = u32::from_str_radix(text, radix).map_err(|_| bad())?;
    if bytes {
        out.push(u8::try_from(number).map_err(|_| bad())?);
    } else {
        let c = char::from_u32(number).ok_or_else(bad)?;
        out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(start + digits)
}
