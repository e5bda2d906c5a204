//! Which functions there are: what they take, and what they give.
//!
//! `functions.rs` does what they do.

use super::types::Type;

/// Names, and what they take and give: a letter a type, `_` any, the target first.
const SIGNATURES: &[(&str, &str)] = &[
    ("size", "t>i y>i l>i m>i"),
    ("contains", "tt>b yy>b"),
    ("startsWith", "tt>b yy>b"),
    ("endsWith", "tt>b yy>b"),
    ("matches", "tt>b"),
    ("int", "i>i u>i d>i t>i T>i D>i"),
    ("uint", "u>u i>u d>u t>u"),
    ("double", "d>d i>d u>d t>d"),
    ("string", "t>t b>t i>t u>t d>t y>t T>t D>t"),
    ("bytes", "y>y t>y"),
    ("bool", "b>b t>b"),
    ("timestamp", "T>T t>T i>T"),
    ("duration", "D>D t>D i>D"),
    ("dyn", "_>_"),
    ("type", "_>Y"),
    ("getField", "_t>_"),
    ("unique", "l>b"),
    ("isNan", "d>b"),
    ("isInf", "d>b di>b"),
    ("isHostname", "t>b"),
    ("isEmail", "t>b"),
    ("isIp", "t>b ti>b"),
    ("isIpPrefix", "t>b ti>b tb>b tib>b"),
    ("isUri", "t>b"),
    ("isUriRef", "t>b"),
    ("isHostAndPort", "tb>b"),
    ("charAt", "ti>t"),
    ("indexOf", "tt>i tti>i"),
    ("lastIndexOf", "tt>i tti>i"),
    ("join", "l>t lt>t"),
    ("lowerAscii", "t>t"),
    ("upperAscii", "t>t"),
    ("replace", "ttt>t ttti>t"),
    ("reverse", "t>t"),
    ("split", "tt>l tti>l"),
    ("substring", "ti>t tii>t"),
    ("trim", "t>t"),
    ("format", "tl>t"),
    ("getFullYear", "T>i Tt>i"),
    ("getMonth", "T>i Tt>i"),
    ("getDate", "T>i Tt>i"),
    ("getDayOfMonth", "T>i Tt>i"),
    ("getDayOfWeek", "T>i Tt>i"),
    ("getDayOfYear", "T>i Tt>i"),
    ("getHours", "T>i Tt>i D>i"),
    ("getMinutes", "T>i Tt>i D>i"),
    ("getSeconds", "T>i Tt>i D>i"),
    ("getMilliseconds", "T>i Tt>i D>i"),
];

/// Functions that are called without a target; `size` and `matches` are called either way.
const PLAIN: &[&str] = &[
    "size",
    "matches",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "bool",
    "timestamp",
    "duration",
    "dyn",
    "type",
    "getField",
];

/// The type that a call gives.
///
/// # Errors
/// That there is no such function, or none that takes these.
pub(super) fn signature(
    name: &str,
    target: Option<&Type>,
    arguments: &[Type],
) -> Result<Type, String> {
    let known = SIGNATURES.iter().find(|(known, _)| *known == name);
    let either = matches!(name, "size" | "matches");
    let fits_form = either || target.is_none() == PLAIN.contains(&name);
    let Some((_, forms)) = known.filter(|_| fits_form) else {
        return Err(match target {
            Some(target) => format!("{target} has no function {name}()"),
            None => format!("there is no function {name}()"),
        });
    };
    let given: Vec<&Type> = target.into_iter().chain(arguments).map(Type::plain).collect();
    for form in forms.split(' ') {
        let (takes, gives) = form.split_once('>').unwrap_or_default();
        let fits = takes.len() == given.len()
            && takes.bytes().zip(&given).all(|(letter, given)| takes_type(letter, given));
        if fits {
            return Ok(type_of(gives.as_bytes()[0]));
        }
    }
    let given: Vec<_> = given.iter().map(ToString::to_string).collect();
    Err(format!("{name}() does not take ({})", given.join(", ")))
}

fn takes_type(letter: u8, given: &Type) -> bool {
    match (letter, given) {
        (b'_', _) | (_, Type::Dyn) => true,
        (b'l', Type::List(_)) | (b'm', Type::Map(..)) => true,
        (letter, given) => type_of(letter) == *given,
    }
}

fn type_of(letter: u8) -> Type {
    match letter {
        b't' => Type::Text,
        b'y' => Type::Bytes,
        b'i' => Type::Int,
        b'u' => Type::Uint,
        b'd' => Type::Double,
        b'b' => Type::Bool,
        b'T' => Type::Timestamp,
        b'D' => Type::Duration,
        b'l' => Type::List(Box::new(Type::Text)),
        b'Y' => Type::Name,
        _ => Type::Dyn,
    }
}
