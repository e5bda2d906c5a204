//! The 16-byte head of every frame, the kinds and the flags.
//!
//! ```text
//!  0        4        8    9    10       12          16         16+meta_len  16+len
//!  | len u32 | stream u32 | kind u8 | flags u8 | meta_len u16 | deadline_ms u32 | metadata | payload |
//! ```
//!
//! Here are bytes only; what a frame means in which state is in `receive.rs`, `caller.rs` and
//! `callee.rs`.

/// The size of a frame's head.
pub const HEAD_BYTES: usize = 16;
/// The largest payload of a frame, also after decompression.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// The largest `len` of a hello.
pub const HELLO_BYTES_MAX: u32 = 64 << 10;
/// What the deadline field of a hello holds: "TWLV".
pub const MAGIC: u32 = u32::from_le_bytes(*b"TWLV");

/// Flags; a bit may mean different things on different kinds.
pub mod flag {
    /// On request and reply: nothing more follows. On credit: the call's end was received.
    pub const END: u8 = 0x01;
    /// The payload is a zstd frame.
    pub const ZSTD: u8 = 0x02;
    /// A plain HTTP call.
    pub const HTTP: u8 = 0x04;
    /// The payload goes on in the next frame of this kind on this stream. On a watched reply: the
    /// answer is too large for a frame and must be asked for by its own query.
    pub const MORE: u8 = 0x08;
    /// On request: tell me when the answer is stale.
    pub const NOTIFY: u8 = 0x10;
    /// On request: send me the new answer when it changes.
    pub const VALUES: u8 = 0x20;
    /// On reply and error: the call stays open as a watch.
    pub const WATCHED: u8 = 0x10;
    /// On reply: the answer is what the caller's validator names.
    pub const UNCHANGED: u8 = 0x20;
    /// On a watched reply or error: it is stale already, and another follows.
    pub const SUSPECT: u8 = 0x40;
    /// On stale: the watches stay open.
    pub const KEEP: u8 = 0x10;
}

macro_rules! kinds {
    ($($name:ident = $number:literal $text:literal;)*) => {
        /// What a frame is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "named and described in the specification's table of kinds")]
        #[repr(u8)]
        pub enum Kind { $($name = $number,)* }

        impl Kind {
            /// Every kind, in numeric order.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The kind with this number; `None` for kinds of the future, which are skipped.
            #[inline]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// The name in the specification.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

kinds! {
    Hello = 1 "hello";
    Auth = 2 "auth";
    Request = 3 "request";
    Reply = 4 "reply";
    Error = 5 "error";
    Items = 6 "items";
    End = 7 "end";
    Cancel = 8 "cancel";
    Credit = 9 "credit";
    Ping = 10 "ping";
    Pong = 11 "pong";
    Goaway = 12 "goaway";
    Stale = 13 "stale";
    Resume = 14 "resume";
    Resumed = 15 "resumed";
    Ready = 16 "ready";
    Busy = 17 "busy";
    Log = 18 "log";
    Changed = 19 "changed";
    Seen = 20 "seen";
    Descriptors = 21 "descriptors";
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// Bytes after the head.
    pub len: u32,
    /// The stream; 0 is the connection.
    pub stream: u32,
    /// The kind's number; [`Kind::from_number`] names it.
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// Bytes of metadata; the rest is payload.
    pub meta_len: u16,
    /// Milliseconds left, 0 for none.
    pub deadline_ms: u32,
}

impl Head {
    /// Reads a head.
    #[inline]
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Self {
        Self::from_word(u128::from_le_bytes(*bytes))
    }

    #[inline(always)]
    pub(crate) fn from_word(whole: u128) -> Self {
        Self {
            len: whole as u32,
            stream: (whole >> 32) as u32,
            kind: (whole >> 64) as u8,
            flags: (whole >> 72) as u8,
            meta_len: (whole >> 80) as u16,
            deadline_ms: (whole >> 96) as u32,
        }
    }

    /// Writes a head.
    #[inline]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let whole = u128::from(self.len)
            | u128::from(self.stream) << 32
            | u128::from(self.kind) << 64
            | u128::from(self.flags) << 72
            | u128::from(self.meta_len) << 80
            | u128::from(self.deadline_ms) << 96;
        whole.to_le_bytes()
    }

    /// Whether the flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A frame being written into a buffer: the head is patched when metadata and payload are there.
#[derive(Debug)]
#[must_use = "a frame that is not finished has no length"]
pub struct Open {
    start: usize,
    head: Head,
}

/// Begins a frame at the end of `out`.
#[inline]
pub fn open(out: &mut Vec<u8>, kind: Kind, stream: u32, flags: u8) -> Open {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let head = Head { len: 0, stream, kind: kind as u8, flags, meta_len: 0, deadline_ms: 0 };
    Open { start, head }
}

impl Open {
    /// Sets the deadline.
    #[inline]
    pub fn deadline_ms(mut self, deadline_ms: u32) -> Self {
        self.head.deadline_ms = deadline_ms;
        self
    }

    /// What was written so far is the metadata; what follows is payload.
    ///
    /// # Panics
    /// When more than 65,535 bytes were written; callers check `metadata_max` before.
    #[inline]
    pub fn metadata_ends(mut self, out: &[u8]) -> Self {
        self.head.meta_len = u16::try_from(out.len() - self.start - HEAD_BYTES)
            .expect("metadata was checked against metadata_max, which is a u16");
        self
    }

    /// Adds flags that became known while writing.
    #[inline]
    pub fn flags(mut self, flags: u8) -> Self {
        self.head.flags |= flags;
        self
    }

    /// Patches the head: what was written since is metadata and payload.
    ///
    /// # Panics
    /// When the frame is over 4 GiB.
    #[inline]
    pub fn finish(mut self, out: &mut [u8]) {
        self.head.len = u32::try_from(out.len() - self.start - HEAD_BYTES)
            .expect("payloads were checked against frame_max, which is a u32");
        out[self.start..self.start + HEAD_BYTES].copy_from_slice(&self.head.encode());
    }
}

/// Appends a frame without metadata.
pub fn put(out: &mut Vec<u8>, kind: Kind, stream: u32, flags: u8, payload: &[u8]) {
    let frame = open(out, kind, stream, flags);
    out.extend_from_slice(payload);
    frame.finish(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_sixteen_little_endian_bytes() {
        let head = Head {
            len: 0x0403_0201,
            stream: 0x0807_0605,
            kind: 9,
            flags: 10,
            meta_len: 0x0c0b,
            deadline_ms: 0x100f_0e0d,
        };
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(head.encode()[..], bytes[..]);
        assert_eq!(Head::decode(&head.encode()), head);
    }

    #[test]
    fn kinds_lead_back_to_their_numbers_and_the_rest_is_unknown() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(*kind as u8), Some(*kind));
        }
        assert_eq!(Kind::from_number(0), None);
        assert_eq!(Kind::from_number(22), None);
    }
}
