//! What a hosted process says beside its calls, and hears: nothing of it without feature HOSTED, so
//! that a browser cannot empty caches.

use crate::frame::{self, Kind, PAYLOAD_BYTES_MAX};
use crate::hello::feature;
use crate::metadata::{self, Metadata, tag};
use crate::resume::put_parts;
use crate::session::{Phase, Session};
use crate::varint;

impl Session {
    fn is_hosted(&self) -> bool {
        self.phase == Phase::Open && self.features & feature::HOSTED != 0
    }

    /// Gives the process's `FileDescriptorSet`, before it says that it is ready.
    pub fn descriptors(&mut self, descriptors: &[u8]) {
        if self.is_hosted() {
            put_parts(&mut self.output.control, Kind::Descriptors, descriptors);
        }
    }

    /// Says that this hosted process takes calls.
    pub fn ready(&mut self) {
        if self.is_hosted() {
            frame::put(&mut self.output.control, Kind::Ready, 0, 0, &[]);
        }
    }

    /// Says how many background jobs run.
    pub fn busy(&mut self, jobs: u64) {
        if self.is_hosted() {
            self.output.put_number(Kind::Busy, 0, 0, jobs);
        }
    }

    /// Logs at the peer: level 1 trace to 5 error, and fields as headers. Dropped while the peer
    /// does not read; cut at 64 KiB.
    pub fn log(&mut self, level: u8, text: &str, fields: &Metadata) {
        if self.is_hosted() && self.output.control.len() < self.config.output_soft_max {
            let out = &mut self.output.control;
            let frame = frame::open(out, Kind::Log, 0, 0);
            metadata::put_number(out, tag::LEVEL, level.into());
            out.extend_from_slice(fields.raw());
            let frame = frame.metadata_ends(out);
            let end = text.floor_char_boundary(PAYLOAD_BYTES_MAX);
            out.extend_from_slice(&text.as_bytes()[..end]);
            frame.finish(out);
        }
    }

    /// Says that sources changed at this side; the peer hears it before any later reply. A key that
    /// does not fit into a frame is any key of its source; a source that does not is one that no
    /// answer could name.
    pub fn changed<'a>(&mut self, sources: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) {
        if !self.is_hosted() {
            return;
        }
        let mut pairs = Vec::new();
        for (source, key) in sources {
            let size_with = |key: &[u8]| source.len() + key.len() + 2 * varint::BYTES_MAX;
            let key = if size_with(key) > PAYLOAD_BYTES_MAX { &[] } else { key };
            let size = size_with(key);
            if size > PAYLOAD_BYTES_MAX {
                continue;
            }
            if !pairs.is_empty() && pairs.len() + size > PAYLOAD_BYTES_MAX {
                frame::put(&mut self.output.main, Kind::Changed, 0, 0, &pairs);
                pairs.clear();
            }
            varint::put_string(&mut pairs, source);
            varint::put_string(&mut pairs, key);
        }
        if !pairs.is_empty() {
            frame::put(&mut self.output.main, Kind::Changed, 0, 0, &pairs);
        }
    }
}
