//! What an answer of a hosted process was made of, in the room that its headers leave.
//!
//! | what fits | what is said |
//! |---|---|
//! | every key | each key, once |
//! | every source | the sources: a change of any of their keys is one of the answer |
//! | neither | that it cannot be told: the answer is not kept |
//!
//! So an answer is sent whatever it was made of, and never kept for longer than what it depended on
//! allows.

use std::collections::HashSet;

use bytes::Bytes;
use tidewire_live_proto::{Metadata, MetadataBuilder};
use tidewire_service::Headers;

/// What a hosted process read for an answer, as it names it.
pub type Depends = tidewire_live_proto::Depends<Bytes>;

/// What was received, to be kept.
pub(crate) fn owned(read: tidewire_live_proto::Depends<&[u8]>) -> Depends {
    match read {
        tidewire_live_proto::Depends::Key(source, key) => {
            Depends::Key(Bytes::copy_from_slice(source), Bytes::copy_from_slice(key))
        }
        tidewire_live_proto::Depends::Source(source) => {
            Depends::Source(Bytes::copy_from_slice(source))
        }
        tidewire_live_proto::Depends::Untold => Depends::Untold,
    }
}

/// The metadata of an answer, with what it depended on in at most `max` bytes.
pub(crate) fn metadata(
    headers: &Headers,
    trailers: &Headers,
    depends: &[Depends],
    max: u16,
) -> Metadata {
    let with = |depends: &[&Depends]| {
        let builder = depends
            .iter()
            .fold(put(Metadata::builder(), headers), |builder, read| builder.depends(*read));
        let builder = if trailers.is_empty() { builder } else { builder.trailers() };
        put(builder, trailers).build()
    };
    let fits = |metadata: &Metadata| metadata.raw().len() + FIELDS_BYTES_MAX <= max.into();
    let exact = with(&once(depends));
    if fits(&exact) {
        return exact;
    }
    let sources: Vec<_> = depends.iter().map(whole).collect();
    let coarse = with(&once(&sources));
    if fits(&coarse) { coarse } else { with(&[&Depends::Untold]) }
}

fn put(builder: MetadataBuilder, headers: &Headers) -> MetadataBuilder {
    headers
        .iter()
        .fold(builder, |builder, (name, value)| builder.header(name.as_str(), value.as_bytes()))
}

/// Each, without repeats, in order.
fn once(depends: &[Depends]) -> Vec<&Depends> {
    let mut seen = HashSet::with_capacity(depends.len());
    depends.iter().filter(|read| seen.insert(*read)).collect()
}

fn whole(read: &Depends) -> Depends {
    match read {
        Depends::Key(source, _) => Depends::Source(source.clone()),
        other => other.clone(),
    }
}

/// What the session writes in front: a status, an age, a token, a code and a message.
const FIELDS_BYTES_MAX: usize = 1024 + 256 + 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize, source: &str, length: usize) -> Vec<Depends> {
        let key = |number| format!("{number:0length$}").into();
        (0..count).map(|number| Depends::Key(source.to_owned().into(), key(number))).collect()
    }

    #[test]
    fn what_does_not_fit_is_said_of_whole_sources_or_of_nothing() {
        let long = "s".repeat(20_000);
        let items = || Depends::Source("items".into());
        let cases = [
            (keys(3, "items", 1), keys(3, "items", 1)),
            ([keys(3, "items", 1), keys(3, "items", 1)].concat(), keys(3, "items", 1)),
            (keys(20_000, "items", 1), vec![items()]),
            (keys(1, "items", 20_000), vec![items()]),
            (
                [keys(2000, "items", 1), keys(1, "tags", 1)].concat(),
                vec![items(), Depends::Source("tags".into())],
            ),
            (keys(1, &long, 1), vec![Depends::Untold]),
        ];
        let mut headers = Headers::new();
        headers.insert("x-own", "1".parse().unwrap());
        for (read, said) in cases {
            let metadata = metadata(&headers, &headers, &read, 16_384);
            assert!(metadata.raw().len() <= 16_384);
            assert_eq!(metadata.depends().map(owned).collect::<Vec<_>>(), said);
            assert_eq!((metadata.headers().count(), metadata.trailers().count()), (1, 1));
        }
    }
}
