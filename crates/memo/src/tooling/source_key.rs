//! Keys of sources as text: how a change is named outside of the program. Equal keys are equal text.

use crate::store::key::Key;

/// A key that has a form as text.
///
/// It is its parts joined by `/`. Integers are decimal, `true` and `false` are themselves, text has `%`
/// as `%25` and `/` as `%2F`, bytes are lower-case hexadecimal, an absent part is `%_` (twice where that
/// is what a part has that is there), and the key without parts is empty. Only this form is read back.
///
/// Parts are integers, `bool`, `String`, `Vec<u8>`, and `Option` of those; keys are a part, a tuple of two
/// to four, or `()`.
///
/// ```
/// use tidewire_memo::SourceKey;
///
/// let key = ("a/b".to_owned(), 7_i64, None::<bool>);
/// assert_eq!(key.to_text(), "a%2Fb/7/%_");
/// assert_eq!(SourceKey::from_text("a%2Fb/7/%_"), Some(key));
/// assert_eq!(i32::from_text("007"), None);
/// ```
pub trait SourceKey: Key {
    /// The key as text.
    fn to_text(&self) -> String;

    /// The key that has this text; `None` when there is none.
    fn from_text(text: &str) -> Option<Self>;
}

/// A part of a [`SourceKey`].
pub trait KeyPart: Sized {
    /// Appends the part. What is appended contains no `/`, and begins with `%_` only for an [`Option`].
    fn write(&self, text: &mut String);

    /// The part that has this text; `None` when there is none.
    fn parse(text: &str) -> Option<Self>;
}

impl SourceKey for () {
    fn to_text(&self) -> String {
        String::new()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.is_empty().then_some(())
    }
}

impl<P: KeyPart + Key> SourceKey for P {
    fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        P::parse(text)
    }
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        impl<$($name: KeyPart + Key),+> SourceKey for ($($name,)+) {
            fn to_text(&self) -> String {
                let mut text = String::new();
                $(
                    if $at > 0 {
                        text.push('/');
                    }
                    self.$at.write(&mut text);
                )+
                text
            }

            fn from_text(text: &str) -> Option<Self> {
                let mut parts = text.split('/');
                let key = ($($name::parse(parts.next()?)?,)+);
                parts.next().is_none().then_some(key)
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

macro_rules! printed {
    ($($type:ty),+) => {$(
        impl KeyPart for $type {
            fn write(&self, text: &mut String) {
                text.push_str(&self.to_string());
            }

            fn parse(text: &str) -> Option<Self> {
                let value: Self = text.parse().ok()?;
                (value.to_string() == text).then_some(value)
            }
        }
    )+};
}

printed!(bool, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);

impl KeyPart for String {
    fn write(&self, text: &mut String) {
        for character in self.chars() {
            match character {
                '%' => text.push_str("%25"),
                '/' => text.push_str("%2F"),
                other => text.push(other),
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut value = Self::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            value.push_str(&rest[..at]);
            let escape = &rest[at..];
            let (character, length) = match () {
                () if escape.starts_with("%25") => ('%', 3),
                () if escape.starts_with("%2F") => ('/', 3),
                () => return None,
            };
            value.push(character);
            rest = &escape[length..];
        }
        value.push_str(rest);
        (!text.contains('/')).then_some(value)
    }
}

impl KeyPart for Vec<u8> {
    fn write(&self, text: &mut String) {
        for byte in self {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).expect("four bits"));
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let pairs = text.as_bytes().chunks(2);
        pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
    }
}

impl<P: KeyPart> KeyPart for Option<P> {
    fn write(&self, text: &mut String) {
        match self {
            Some(part) => {
                let begin = text.len();
                part.write(text);
                if text[begin..].starts_with(ABSENT) {
                    // An absent part within one that is there.
                    text.insert_str(begin, ABSENT);
                }
            }
            None => text.push_str(ABSENT),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(ABSENT) {
            Some("") => Some(None),
            Some(within) => P::parse(within).filter(|_| within.starts_with(ABSENT)).map(Some),
            None => P::parse(text).map(Some),
        }
    }
}

const ABSENT: &str = "%_";

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: SourceKey>(key: K, text: &str) {
        assert_eq!(key.to_text(), text);
        assert_eq!(K::from_text(text), Some(key), "{text}");
    }

    #[test]
    fn a_key_is_read_back_from_its_text_and_from_no_other() {
        check((), "");
        check(-7_i32, "-7");
        check(String::new(), "");
        check("50% a/b".to_owned(), "50%25 a%2Fb");
        check(vec![0_u8, 255], "00ff");
        check((1_u64, true), "1/true");
        check((Some("%_".to_owned()), None::<i64>, vec![9_u8]), "%25_/%_/09");
        check((1_u8, 2_u8, 3_u8, 4_u8), "1/2/3/4");
        check(None::<Option<u8>>, "%_");
        check(Some(None::<u8>), "%_%_");
        check(Some(Some(None::<u8>)), "%_%_%_");
        check(Some(Some(7_u8)), "7");
        assert_eq!(Option::<u8>::from_text("%_7"), None);
        assert_eq!(Option::<Option<u8>>::from_text("%_7"), None);
        assert_eq!(i32::from_text("+7"), None);
        assert_eq!(i32::from_text("007"), None);
        assert_eq!(String::from_text("a/b"), None);
        assert_eq!(String::from_text("%2f"), None);
        assert_eq!(Vec::<u8>::from_text("0FF"), None);
        assert_eq!(Vec::<u8>::from_text("0F"), None);
        assert_eq!(Vec::<u8>::from_text("00f"), None);
        assert_eq!(<(u8, u8)>::from_text("1/2/3"), None);
        assert_eq!(<(u8, u8)>::from_text("1"), None);
        assert_eq!(<()>::from_text("x"), None);
    }
}
