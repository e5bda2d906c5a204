//! The protocol's own fields in a frame's metadata: read and checked once, looked at by bit.
//!
//! What is the application's (headers, trailers, details, dependencies) is checked here and stays
//! where it lies; see [`Metadata`](crate::Metadata).

use tidewire_service::Validator;

use crate::metadata::{CommandOrigin, TOKEN_BYTES_MAX, cut_off, tag, take_entry};
use crate::reason::Violation;
use crate::varint;

/// The protocol's own fields of one frame: numbers as they are, texts as ranges of the block that
/// was read. Used again from frame to frame: only what was seen means anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields {
    /// A bit for each tag below 64; [`MORE`] for anything that is the application's.
    seen: u64,
    method: u64,
    command: CommandNumbers,
    validator: [u8; 16],
    max_age: u64,
    status: u16,
    code: u64,
    reason: u64,
    level: u64,
    outcome: u64,
    parent: u64,
    after: u64,
    expires: u64,
    key: CommandOrigin,
    name: Range16,
    message: Range16,
    http_method: Range16,
    target: Range16,
}

/// There is something for the application: headers, trailers, details, dependencies. The bit of
/// tag 0, which is a header.
const MORE: u64 = 1 << tag::LITERAL;

/// A range of a block, which is at most 65,535 bytes long.
#[derive(Debug, Clone, Copy, Default)]
struct Range16 {
    start: u16,
    end: u16,
}

/// What a command's field says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommandNumbers {
    pub(crate) id: u64,
    /// All commands below this one are done.
    pub(crate) done_below: u64,
}

impl Fields {
    /// Reads and checks a whole block.
    ///
    /// # Errors
    /// `malformed`, naming the field.
    pub fn read(raw: &[u8]) -> Result<Self, Violation> {
        let mut fields = Self::default();
        fields.read_next(raw)?;
        Ok(fields)
    }

    /// Forgets what was read before, then reads and checks a whole block.
    #[inline]
    pub(crate) fn read_next(&mut self, raw: &[u8]) -> Result<(), Violation> {
        self.seen = 0;
        // Nearly every reply has none, and nearly every request begins with a small method number.
        let mut rest = raw;
        if let [tag::METHOD, 1, number @ ..0x80, after @ ..] = raw {
            self.seen = 1 << tag::METHOD;
            self.method = (*number).into();
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { self.read_rest(raw, rest) }
    }

    /// Reads and checks what is left of a block after the number of the method, if that came first.
    fn read_rest(&mut self, raw: &[u8], rest: &[u8]) -> Result<(), Violation> {
        // A command has its id next, and nothing else.
        if let [tag::COMMAND, len, ids @ ..] = rest
            && usize::from(*len) == ids.len()
            && let Some(command) = command_numbers(ids)
        {
            self.seen |= 1 << tag::COMMAND;
            self.command = command;
            return Ok(());
        }
        // A watched answer has its validator, and mostly nothing else.
        if let [tag::VALIDATOR, 16, validator @ ..] = rest
            && let Ok(validator) = validator.try_into()
        {
            self.seen |= 1 << tag::VALIDATOR;
            self.validator = validator;
            return Ok(());
        }
        self.read_entries(raw, rest)
    }

    fn read_entries(&mut self, raw: &[u8], mut rest: &[u8]) -> Result<(), Violation> {
        while let Some((&tag, after)) = rest.split_first() {
            rest = after;
            if !(1..64).contains(&tag) {
                take_entry(tag, &mut rest)?;
                self.seen |= MORE;
                continue;
            }
            let value = varint::take_string(&mut rest).ok_or_else(cut_off)?;
            let repeats = matches!(tag, tag::DETAIL | tag::DEPENDS | tag::TOKEN);
            if self.has(tag) && !repeats {
                return Err(Violation::malformed("a metadata field occurs twice"));
            }
            self.seen |= 1 << tag;
            self.set(tag, value, raw.len() - rest.len()).ok_or_else(misfit)?;
        }
        Ok(())
    }

    /// Takes a field whose value ends at `end` of the block.
    #[inline]
    fn set(&mut self, tag: u8, value: &[u8], end: usize) -> Option<()> {
        let len = value.len();
        let start = end - len;
        let range =
            || Some(Range16 { start: u16::try_from(start).ok()?, end: u16::try_from(end).ok()? });
        match tag {
            tag::METHOD => self.method = only_number(value)?,
            tag::COMMAND => self.command = command_numbers(value)?,
            tag::VALIDATOR => self.validator = value.try_into().ok()?,
            tag::NAME => self.name = range().filter(|_| len > 0)?,
            tag::MAX_AGE => self.max_age = only_number(value)?,
            tag::CODE => self.code = only_number(value)?,
            tag::MESSAGE => {
                self.message = range().filter(|_| std::str::from_utf8(value).is_ok())?
            }
            tag::HTTP_METHOD => self.http_method = range()?,
            tag::TARGET => self.target = range()?,
            tag::STATUS => self.status = only_number(value)?.try_into().ok()?,
            tag::REASON => self.reason = only_number(value)?,
            tag::LEVEL => self.level = only_number(value)?,
            tag::OUTCOME => self.outcome = only_number(value)?,
            tag::PARENT => self.parent = only_number(value)?,
            tag::AFTER => self.after = only_number(value)?,
            tag::EXPIRES => self.expires = only_number(value)?,
            tag::KEY => {
                let (session, rest) = value.split_first_chunk()?;
                self.key = CommandOrigin { session: *session, id: only_number(rest)? };
            }
            _ => return self.check(tag, value),
        }
        Some(())
    }

    /// Takes an entry that is looked at only when somebody asks for it.
    fn check(&mut self, tag: u8, mut value: &[u8]) -> Option<()> {
        let fits = match tag {
            tag::TOKEN => value.len() <= TOKEN_BYTES_MAX,
            tag::TRAILERS => value.is_empty(),
            tag::DETAIL => std::str::from_utf8(varint::take_string(&mut value)?).is_ok(),
            tag::DEPENDS => {
                // A source and a key, a source, or nothing.
                for _ in 0..2 {
                    if !value.is_empty() {
                        varint::take_string(&mut value)?;
                    }
                }
                value.is_empty()
            }
            _ => return Some(()),
        };
        self.seen |= MORE;
        fits.then_some(())
    }

    #[inline]
    pub(crate) fn has(&self, tag: u8) -> bool {
        self.seen & 1 << tag != 0
    }

    /// Whether there is anything for the application: headers, trailers, details, dependencies.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.seen & MORE != 0
    }

    /// Whether the request has what few have, and what needs a feature.
    #[inline]
    pub(crate) fn is_rare(&self) -> bool {
        self.seen & (1 << tag::KEY | 1 << tag::PARENT) != 0
    }

    #[inline]
    pub(crate) fn method(&self) -> Option<u64> {
        self.has(tag::METHOD).then_some(self.method)
    }

    #[inline]
    pub(crate) fn has_name(&self) -> bool {
        self.has(tag::NAME)
    }

    /// Codec and path; `raw` is the block that was read.
    #[inline]
    pub(crate) fn name<'a>(&self, raw: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (&codec, path) = self.text(tag::NAME, self.name, raw)?.split_first()?;
        Some((codec, path))
    }

    #[inline]
    pub(crate) fn command(&self) -> Option<CommandNumbers> {
        self.has(tag::COMMAND).then_some(self.command)
    }

    #[inline]
    pub(crate) fn validator(&self) -> Option<Validator> {
        self.has(tag::VALIDATOR).then_some(Validator::new(self.validator))
    }

    #[inline]
    pub(crate) fn max_age(&self) -> Option<u64> {
        self.has(tag::MAX_AGE).then_some(self.max_age)
    }

    #[inline]
    pub(crate) fn status(&self) -> Option<u16> {
        self.has(tag::STATUS).then_some(self.status)
    }

    pub(crate) fn code(&self) -> Option<u64> {
        self.has(tag::CODE).then_some(self.code)
    }

    pub(crate) fn outcome(&self) -> Option<u64> {
        self.has(tag::OUTCOME).then_some(self.outcome)
    }

    pub(crate) fn parent(&self) -> Option<u64> {
        self.has(tag::PARENT).then_some(self.parent)
    }

    pub(crate) fn key(&self) -> Option<CommandOrigin> {
        self.has(tag::KEY).then_some(self.key)
    }

    /// Milliseconds after which to come back.
    pub(crate) fn after(&self) -> Option<u64> {
        self.has(tag::AFTER).then_some(self.after)
    }

    /// Milliseconds for which the credential is good.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.has(tag::EXPIRES).then_some(self.expires)
    }

    pub(crate) fn reason(&self) -> Option<u64> {
        self.has(tag::REASON).then_some(self.reason)
    }

    pub(crate) fn level(&self) -> Option<u64> {
        self.has(tag::LEVEL).then_some(self.level)
    }

    pub(crate) fn message<'a>(&self, raw: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(self.text(tag::MESSAGE, self.message, raw)?).ok()
    }

    pub(crate) fn http_method<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.text(tag::HTTP_METHOD, self.http_method, raw)
    }

    pub(crate) fn target<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        self.text(tag::TARGET, self.target, raw)
    }

    #[inline]
    fn text<'a>(
        &self,
        tag: u8,
        Range16 { start, end }: Range16,
        raw: &'a [u8],
    ) -> Option<&'a [u8]> {
        if self.has(tag) { raw.get(start.into()..end.into()) } else { None }
    }
}

#[cold]
fn misfit() -> Violation {
    Violation::malformed("a metadata field has a value that does not fit")
}

/// Two numbers and nothing else; those of up to three bytes are read at once.
#[inline(always)]
fn command_numbers(value: &[u8]) -> Option<CommandNumbers> {
    let (id, done_below) = match *value {
        [a, b] if (a | b) < 0x80 => (u64::from(a), u64::from(b)),
        [a, b, c, d] if a & c >= 0x80 && (b | d) < 0x80 => (two(a, b), two(c, d)),
        [a, b, c, d, e, f] if a & b & d & e >= 0x80 && (c | f) < 0x80 => {
            (two(a, b & 0x7f) | u64::from(c) << 14, two(d, e & 0x7f) | u64::from(f) << 14)
        }
        _ => return long_command_numbers(value),
    };
    Some(CommandNumbers { id, done_below })
}

#[cold]
fn long_command_numbers(mut value: &[u8]) -> Option<CommandNumbers> {
    let id = varint::take(&mut value)?;
    let done_below = varint::take(&mut value)?;
    value.is_empty().then_some(CommandNumbers { id, done_below })
}

#[inline(always)]
fn two(low: u8, high: u8) -> u64 {
    u64::from(low & 0x7f) | u64::from(high) << 7
}

#[inline]
fn only_number(mut value: &[u8]) -> Option<u64> {
    let number = varint::take(&mut value)?;
    value.is_empty().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let check = |raw: &[u8]| Fields::read(raw).is_ok();
        assert!(check(&[]));
        assert!(check(&[tag::METHOD, 1, 5]));
        assert!(check(&[40, 2, 0, 0]), "a field of the future is skipped");
        assert!(check(&[200, 1, b'x']), "a header number of the future is skipped");
        assert!(!check(&[tag::METHOD, 1, 5, tag::METHOD, 1, 5]), "twice");
        assert!(!check(&[tag::METHOD, 2, 5, 5]), "bytes after the number");
        assert!(!check(&[tag::METHOD, 3, 5]), "cut off");
        assert!(!check(&[tag::VALIDATOR, 2, 5, 5]), "not 16 bytes");
        assert!(!check(&[tag::LITERAL, 1, b'A', 0]), "upper case");
        assert!(!check(&[tag::LITERAL, 0, 0]), "no name");
        assert!(!check(&[tag::HEADER, 1, b'\n']), "line feed");
        assert!(!check(&[tag::MESSAGE, 1, 0xff]), "not UTF-8");
    }
}
