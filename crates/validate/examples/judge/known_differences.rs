//! Differences from protovalidate-go that are meant, each with its reason.

use tidewire_validate::VIOLATIONS_MAX;

use crate::compare::Verdict;

/// Why a difference is meant; `None` when it is not.
pub(crate) fn reason(
    name: &str,
    message: &[u8],
    ours: &Verdict,
    theirs: &Verdict,
) -> Option<&'static str> {
    match (ours, theirs) {
        (Verdict::NoRules, Verdict::Valid | Verdict::Violations(_)) if name == NAMED_ZONE => {
            Some("a time zone by name in CEL: refused when the schema is loaded")
        }
        (Verdict::Violations(ours), Verdict::Violations(theirs))
            if ours.len() == VIOLATIONS_MAX && ours.iter().all(|one| theirs.contains(one)) =>
        {
            Some("at most 100 violations of a message are collected")
        }
        (Verdict::Violations(_) | Verdict::Valid, Verdict::Violations(_) | Verdict::Valid)
            if message.ends_with(&EMPTY_GROUP) =>
        {
            Some("a message that comes as a group: our decoders take it, and so it is checked")
        }
        (Verdict::Violations(_), Verdict::Valid) if has_colon_before_zone(message) => {
            Some("an IPv6 address with a single colon before its zone (`::1:%a`): Go takes it")
        }
        (ours, theirs) if has_seconds_at_the_end(message) && only_of_timestamps(ours, theirs) => {
            Some("a timestamp near 2^63 seconds: Go's time overflows and comes out earlier")
        }
        _ => None,
    }
}

/// A message with a rule that names the zone `US/Central`.
const NAMED_ZONE: &str = "BookHaircutAppointmentRequest";

/// Field 3 as an empty group, as `generate.rs` puts it at the end of some messages.
const EMPTY_GROUP: [u8; 2] = [0x1b, 0x1c];

/// RFC 4291 has no address that ends in a single colon, and RFC 6874 puts the zone after the
/// address.
fn has_colon_before_zone(message: &[u8]) -> bool {
    message.windows(3).any(|part| part[0] != b':' && part[1..] == *b":%")
}

/// Whether the largest or the smallest integer is in the message.
fn has_seconds_at_the_end(message: &[u8]) -> bool {
    let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let smallest = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    message.windows(9).any(|part| part == largest)
        || message.windows(10).any(|part| part == smallest)
}

/// Whether all violations that only one has are of rules for timestamps.
fn only_of_timestamps(ours: &Verdict, theirs: &Verdict) -> bool {
    let violations = |verdict: &Verdict| match verdict {
        Verdict::Violations(all) => Some(all.clone()),
        Verdict::Valid => Some(Vec::new()),
        _ => None,
    };
    let (Some(ours), Some(theirs)) = (violations(ours), violations(theirs)) else { return false };
    let is_of_timestamp = |one: &Vec<u8>| one.windows(10).any(|part| part == b"timestamp.");
    let differs = |one: &&Vec<u8>| !(ours.contains(one) && theirs.contains(one));
    ours.iter().chain(&theirs).filter(differs).all(is_of_timestamp)
}
