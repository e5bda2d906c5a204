//! What the session is told of a reply, beside its payload.

use tidewire_live_proto::{Metadata, OutgoingReply, varint};
use tidewire_service::{Freshness, Headers, Lifetime, Reply, Token};

use crate::dependencies::{self, Depends};

/// What the session is told of a reply before its payload, and what it depended on.
pub(crate) fn head_made_of<'a>(
    reply: &'a Reply,
    depends: &[Depends],
    max: u16,
) -> OutgoingReply<'a> {
    let mut head = head_of(reply, &[]);
    if !depends.is_empty() {
        head.metadata = dependencies::metadata(&reply.headers, &reply.trailers, depends, max);
    }
    head
}

/// What the session is told of a reply, with this payload.
pub(crate) fn head_of<'a>(reply: &'a Reply, payload: &'a [u8]) -> OutgoingReply<'a> {
    let Reply { status, headers, trailers, freshness, .. } = reply;
    OutgoingReply {
        metadata: metadata(headers, trailers),
        payload,
        validator: freshness.validator(),
        max_age_ms: max_age_ms(freshness),
        token: freshness.tokens().iter().next().map_or(&[], Token::bytes),
        status: Some(status.as_u16()).filter(|status| *status != 200),
        watch: false,
    }
}

/// Headers and trailers as the protocol has them, without those that are HTTP's own.
pub(crate) fn metadata(headers: &Headers, trailers: &Headers) -> Metadata {
    match headers.is_empty() && trailers.is_empty() {
        true => Metadata::default(),
        false => Metadata::from_maps(headers, trailers),
    }
}

/// For how long the peer may keep an answer.
fn max_age_ms(freshness: &Freshness) -> Option<u64> {
    match freshness.lifetime() {
        Lifetime::Immutable => Some(varint::MAX),
        Lifetime::For(life) => {
            let left = life.saturating_sub(freshness.age()).as_millis();
            Some(u64::try_from(left).unwrap_or(varint::MAX).min(varint::MAX))
        }
        _ => None,
    }
}
