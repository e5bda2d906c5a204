//! Other forms of a body that is kept: compressed, or in the format of another protocol.
//!
//! Whoever keeps an answer and gives it again keeps its forms too, each made once, at first demand,
//! by its sender. What they take is counted in a [`FormsBudget`], which bounds the forms of all
//! answers together; what finds no room is made anew each time.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::{Staleness, Validator};

/// Keeps an answer: tells what names it and when it ends, and holds its forms.
pub trait CachedBody: Any + Send + Sync + 'static {
    /// What names the content.
    fn validator(&self) -> Option<Validator>;

    /// Whether this version of the answer is stale by now.
    fn is_stale(&self, version: u64) -> bool;

    /// What tells when this version of the answer is stale.
    fn staleness(&self, version: u64) -> Arc<dyn Staleness>;

    /// How old this version is, if a call like the one that it was given to would be given it
    /// again from memory now: the look-up of such a call, which counts as one. `None` by default,
    /// and wherever that is not sure.
    fn again(&self, version: u64) -> Option<Duration> {
        let _ = version;
        None
    }

    /// The body that is kept.
    fn body(&self) -> &Bytes;

    /// The other forms of that body.
    fn forms(&self) -> &Forms;
}

/// The forms of one body.
pub struct Forms {
    first: Link,
    room: Arc<FormsBudget>,
}

type Link = OnceLock<Box<StoredForm>>;

/// A form that was made, and the one that was made after it.
struct StoredForm {
    form: Form,
    bytes: Bytes,
    next: Link,
}

/// A form of a body: a format, and how it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// What the bytes mean before they are compressed.
    pub format: Format,
    /// How they are compressed.
    pub coding: Coding,
}

/// What bytes mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(u64);

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// They are not.
    Identity,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// What forms may take, all together.
#[derive(Debug)]
pub struct FormsBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Format {
    /// The body as the service gave it.
    pub const AS_GIVEN: Self = Self(0);

    /// A format that no other is equal to.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Forms {
    /// No forms yet; what will be made is counted in `room`.
    pub fn new(room: Arc<FormsBudget>) -> Self {
        Self { first: Link::new(), room }
    }

    /// This form; `make` makes it if it is not there.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn or_make<E>(
        &self,
        form: Form,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match self.iter().find(|made| made.form == form) {
            Some(made) => Ok(made.bytes.clone()),
            None => make().map(|bytes| self.keep(form, bytes)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &StoredForm> {
        std::iter::successors(self.first.get(), |made| made.next.get()).map(|made| &**made)
    }

    fn keep(&self, form: Form, bytes: Bytes) -> Bytes {
        if self.iter().count() >= FORMS_MAX || !self.room.take(weight(&bytes)) {
            return bytes;
        }
        // The bytes may be a view into a larger buffer, which would be kept with them.
        let bytes = Bytes::copy_from_slice(&bytes);
        let mut new = Box::new(StoredForm { form, bytes: bytes.clone(), next: Link::new() });
        let mut link = &self.first;
        while let Err(back) = link.set(new) {
            // Somebody else was faster, with this form or another.
            let Some(there) = link.get().filter(|there| there.form != form) else {
                self.room.give_back(weight(&bytes));
                break;
            };
            (new, link) = (back, &there.next);
        }
        bytes
    }
}

impl Drop for Forms {
    fn drop(&mut self) {
        self.room.give_back(self.iter().map(|made| weight(&made.bytes)).sum());
    }
}

/// What a form takes with all that holds it, about.
fn weight(bytes: &Bytes) -> usize {
    bytes.len() + size_of::<StoredForm>() + HOLDING_BYTES
}

impl FormsBudget {
    /// Room for so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// How many bytes are taken.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.bytes_max;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|made| made.form)).finish()
    }
}

/// One of another protocol, its compressed one, and the body compressed in two ways.
const FORMS_MAX: usize = 4;
/// What allocators and counters of references add.
const HOLDING_BYTES: usize = 56;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const GZIP: Form = Form { format: Format::AS_GIVEN, coding: Coding::Gzip };

    fn made(forms: &Forms, form: Form, bytes: &'static [u8]) -> Bytes {
        let Ok(bytes) = forms.or_make(form, || Ok::<_, Infallible>(Bytes::from_static(bytes)));
        bytes
    }

    #[test]
    fn a_form_is_made_once_and_counted_while_it_is_kept() {
        let room = Arc::new(FormsBudget::new(1000));
        let forms = Forms::new(Arc::clone(&room));
        assert_eq!(made(&forms, GZIP, b"first"), "first");
        assert_eq!(made(&forms, GZIP, b"second"), "first");
        let json = Form { format: Format::unique(), coding: Coding::Identity };
        assert_eq!(made(&forms, json, b"{}"), "{}");
        assert_eq!(made(&forms, Form { coding: Coding::Gzip, ..json }, b"z"), "z");
        assert_eq!(room.bytes(), 8 + 3 * weight(&Bytes::new()));
        drop(forms);
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn what_finds_no_room_or_no_place_is_made_each_time() {
        let beside = weight(&Bytes::new());
        let room = Arc::new(FormsBudget::new(5 + beside));
        let forms = Forms::new(Arc::clone(&room));
        assert_eq!(made(&forms, GZIP, b"too long"), "too long");
        assert_eq!(made(&forms, GZIP, b"short"), "short");
        assert_eq!((made(&forms, GZIP, b"other"), room.bytes()), ("short".into(), 5 + beside));
        let forms = Forms::new(Arc::new(FormsBudget::new(1000)));
        let form = || Form { format: Format::unique(), coding: Coding::Identity };
        for _ in 0..FORMS_MAX {
            made(&forms, form(), b"a");
        }
        let last = form();
        assert_eq!(made(&forms, last, b"b"), "b");
        assert_eq!(made(&forms, last, b"c"), "c");
        assert_eq!(forms.room.bytes(), FORMS_MAX * (1 + beside));
    }
}
