//! Values with a unit: `"4MiB"`, `"30s"`, addresses.

use std::fmt;
use std::num::NonZero;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tidewire_server::{Address, CallerAddresses};

/// A number of bytes: 4096, `"64KiB"`, `"4MiB"`, `"1GiB"`.
pub(super) fn bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Option<usize>, D::Error> {
    struct Size;

    impl Visitor<'_> for Size {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as 4096, \"64KiB\" or \"4MiB\"")
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<usize, E> {
            usize::try_from(bytes).map_err(|_| E::custom("a size is not negative"))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
            parse_bytes(text).ok_or_else(|| {
                E::custom(format!(
                    "{text:?} is not a size; write bytes as 4096, \"64KiB\" or \"4MiB\""
                ))
            })
        }
    }

    input.deserialize_any(Size).map(Some)
}

fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: usize = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// A number of threads.
pub(super) fn threads<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<NonZero<u16>>, D::Error> {
    let threads = i64::deserialize(input)?;
    let fits = u16::try_from(threads).ok().filter(|threads| *threads <= 1024);
    let fits = fits.and_then(NonZero::new).map(Some);
    fits.ok_or_else(|| D::Error::custom(format!("{threads} threads; write 1 to 1024")))
}

/// A duration: `"30s"`, `"500ms"`, `"1m 30s"`; a bare number is seconds.
pub(super) fn duration<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    struct Time;

    impl Visitor<'_> for Time {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a duration such as {}", tidewire_service::DURATION_FORMAT)
        }

        fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }

        fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
            self.visit_str(&seconds.to_string())
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            tidewire_service::parse_duration(text).ok_or_else(|| {
                let forms = tidewire_service::DURATION_FORMAT;
                E::custom(format!("{text:?} is not a duration; write {forms}"))
            })
        }
    }

    input.deserialize_any(Time).map(Some)
}

/// A duration, or `"never"`.
pub(super) fn duration_or_never<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrSeconds {
        Text(String),
        Seconds(f64),
    }

    let text = match TextOrSeconds::deserialize(input) {
        Ok(TextOrSeconds::Text(text)) if text == "never" => return Ok(None),
        Ok(TextOrSeconds::Text(text)) => text,
        Ok(TextOrSeconds::Seconds(seconds)) => seconds.to_string(),
        Err(_) => return Err(D::Error::custom("this takes a duration, or \"never\"")),
    };
    tidewire_service::parse_duration(&text).map(Some).ok_or_else(|| {
        let forms = tidewire_service::DURATION_FORMAT;
        D::Error::custom(format!("{text:?} is not a duration; write {forms}, or \"never\""))
    })
}

/// A duration of a millisecond or more.
pub(super) fn positive_duration<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Duration>, D::Error> {
    match duration(input)? {
        Some(time) if time.as_millis() == 0 => {
            Err(D::Error::custom("a duration of 0 allows nothing; write 1ms or more"))
        }
        time => Ok(time),
    }
}

/// A duration in whole seconds.
pub(super) fn seconds<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    match duration(input)? {
        Some(time) if time.subsec_nanos() != 0 => {
            let less = time.as_secs();
            Err(D::Error::custom(format!(
                "caches count whole seconds; write \"{less}s\" or \"{}s\"",
                less.saturating_add(1)
            )))
        }
        time => Ok(time.map(|time| time.as_secs())),
    }
}

/// One address or a list of them; a text may hold several with commas between them.
pub(super) fn addresses<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Address>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    let texts = match OneOrMany::deserialize(input) {
        Ok(OneOrMany::One(text)) => text.split(',').map(|part| part.trim().to_owned()).collect(),
        Ok(OneOrMany::Many(texts)) => texts,
        Err(_) => {
            return Err(D::Error::custom("listen takes an address or a list of addresses"));
        }
    };
    if texts.is_empty() {
        return Err(D::Error::custom("listen names no address; name one, or leave it out"));
    }
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

/// A list of texts; one text may hold several with commas between them.
pub(super) fn list<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let texts = texts(input)?;
    let parts = texts.iter().flat_map(|text| text.split(',')).map(|part| part.trim().to_owned());
    Ok(parts.filter(|part| !part.is_empty()).collect())
}

/// Addresses and networks.
pub(super) fn networks<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let texts = list(input)?;
    let _read = CallerAddresses::default()
        .deny(texts.iter().map(String::as_str))
        .map_err(D::Error::custom)?;
    Ok(texts)
}

/// Addresses and networks of proxies, or `unix`.
pub(super) fn proxies<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let texts = list(input)?;
    let _read = CallerAddresses::default()
        .trust(texts.iter().map(String::as_str))
        .map_err(D::Error::custom)?;
    Ok(texts)
}

/// A program and its arguments, each its own text.
pub(super) fn command<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Command {
        Words(Vec<String>),
        Line(String),
    }

    match Command::deserialize(input) {
        Ok(Command::Words(words)) => Ok(Some(words)),
        Ok(Command::Line(line)) => {
            let words: Vec<_> = line.split_whitespace().collect();
            let text = format!("run is a list, which no shell reads; write run = {words:?}");
            Err(D::Error::custom(text))
        }
        Err(_) => {
            let text = "run is a list of texts; write run = [\"python3\", \"app.py\"]";
            Err(D::Error::custom(text))
        }
    }
}

/// One text or a list of them.
pub(super) fn texts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    match OneOrMany::deserialize(input) {
        Ok(OneOrMany::One(text)) => Ok(vec![text]),
        Ok(OneOrMany::Many(texts)) => Ok(texts),
        Err(_) => Err(D::Error::custom("this takes a text or a list of texts")),
    }
}

/// A part of a whole, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part(f64);

impl Eq for Part {}

impl Part {
    /// The part as a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let part = match toml::Value::deserialize(input)? {
            toml::Value::Float(part) => part,
            toml::Value::Integer(0) => 0.0,
            toml::Value::Integer(1) => 1.0,
            _ => f64::NAN,
        };
        match (0.0..=1.0).contains(&part) {
            true => Ok(Self(part)),
            false => Err(D::Error::custom("this takes a part of all, from 0 to 1")),
        }
    }
}

/// One address.
pub(super) fn address<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Address>, D::Error> {
    let text = String::deserialize(input)?;
    text.parse().map(Some).map_err(D::Error::custom)
}
