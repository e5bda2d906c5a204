//! What comes in envelopes in gRPC, gRPC-Web and Connect streams, counted as it passes.
//!
//! Messages are counted and skipped; only the flagged one at the end is kept, because it holds the
//! verdict. The heads of envelopes are those of `tidewire_wire`.

use tidewire_wire::{ENVELOPE_HEAD, EnvelopeHead};

const KEPT_MAX: usize = 64 * 1024;

/// Walks the envelopes of one answer as its bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Envelopes {
    head: [u8; ENVELOPE_HEAD],
    head_filled: usize,
    remaining: usize,
    messages: u64,
    last_head: Option<EnvelopeHead>,
    last: Vec<u8>,
}

impl Envelopes {
    pub(crate) fn receive(&mut self, mut input: &[u8]) {
        while !input.is_empty() {
            if self.remaining > 0 {
                let part = input.len().min(self.remaining);
                if self.keeps() && self.last.len() < KEPT_MAX {
                    self.last.extend_from_slice(&input[..part]);
                }
                self.remaining -= part;
                input = &input[part..];
                continue;
            }
            let part = input.len().min(ENVELOPE_HEAD - self.head_filled);
            self.head[self.head_filled..][..part].copy_from_slice(&input[..part]);
            self.head_filled += part;
            input = &input[part..];
            if self.head_filled == ENVELOPE_HEAD {
                self.begin();
            }
        }
    }

    fn begin(&mut self) {
        let head = EnvelopeHead::parse(self.head);
        self.head_filled = 0;
        self.last_head = Some(head);
        self.remaining = head.length();
        self.last.clear();
        if !self.keeps() {
            self.messages += 1;
        }
    }

    fn keeps(&self) -> bool {
        self.last_head.is_some_and(|head| head.is_web_trailers() || head.ends_connect_stream())
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.remaining == 0 && self.head_filled == 0
    }

    /// `grpc-status` from the trailer frame of gRPC-Web.
    pub(crate) fn grpc_status(&self) -> Option<u16> {
        self.last_head.filter(|head| head.is_web_trailers())?;
        let text = std::str::from_utf8(&self.last).ok()?;
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("grpc-status"))
            .and_then(|(_, value)| value.trim().parse().ok())
    }

    /// How a Connect stream ended; `None` if it did not.
    pub(crate) fn connect_error(&self) -> Option<Result<(), String>> {
        self.last_head.filter(|head| head.ends_connect_stream())?;
        let end: serde_json::Value = serde_json::from_slice(&self.last).ok()?;
        match end.get("error") {
            None | Some(serde_json::Value::Null) => Some(Ok(())),
            Some(error) => {
                let code = error.get("code").and_then(serde_json::Value::as_str);
                Some(Err(code.unwrap_or("unknown").to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(flags: u8, message: &[u8], out: &mut Vec<u8>) {
        let head = EnvelopeHead::of(message).unwrap().bytes();
        out.push(flags);
        out.extend_from_slice(&head[1..]);
        out.extend_from_slice(message);
    }

    fn fed_in_parts_of(size: usize, wire: &[u8]) -> Envelopes {
        let mut envelopes = Envelopes::default();
        for part in wire.chunks(size) {
            envelopes.receive(part);
        }
        envelopes
    }

    #[test]
    fn messages_are_counted_however_the_bytes_are_cut() {
        let mut wire = Vec::new();
        wrap(0, b"one", &mut wire);
        wrap(0, b"", &mut wire);
        wrap(0, &[7; 300], &mut wire);
        wrap(0x80, b"grpc-status: 5\r\ngrpc-message: no\r\n", &mut wire);
        for size in [1, 2, 7, 1000] {
            let envelopes = fed_in_parts_of(size, &wire);
            assert_eq!(envelopes.messages(), 3);
            assert!(envelopes.is_complete());
            assert_eq!(envelopes.grpc_status(), Some(5));
        }
        assert!(!fed_in_parts_of(9, &wire[..wire.len() - 1]).is_complete());
    }

    #[test]
    fn the_end_of_a_connect_stream_names_its_error() {
        let mut wire = Vec::new();
        wrap(0, b"{}", &mut wire);
        assert_eq!(fed_in_parts_of(64, &wire).connect_error(), None);
        let mut good = wire.clone();
        wrap(2, b"{}", &mut good);
        assert_eq!(fed_in_parts_of(64, &good).connect_error(), Some(Ok(())));
        wrap(2, br#"{"error":{"code":"not_found"}}"#, &mut wire);
        let ended = fed_in_parts_of(64, &wire).connect_error();
        assert_eq!(ended, Some(Err("not_found".to_owned())));
    }
}
