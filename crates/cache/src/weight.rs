//! What things take on the heap, by the rules of general allocators: a request is rounded up to 16
//! bytes with a word of the allocator's own. What is counted here is what the budget is kept by, so
//! it has to be what the process takes; `tests/it/memory.rs` compares both.

use bytes::Bytes;
use http::HeaderValue;
use tidewire_service::{Error, Headers};

/// An allocation of so many bytes.
pub(crate) fn allocation(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (bytes + WORD).next_multiple_of(2 * WORD).max(4 * WORD) }
}

/// An allocation that is counted by its owners (`Arc`).
pub(crate) fn heap_bytes(bytes: usize) -> usize {
    allocation(bytes + 2 * WORD)
}

/// Bytes that are lent to whoever is given an answer: they and their count have an allocation each.
pub(crate) fn shared(bytes: &Bytes) -> usize {
    if bytes.is_empty() { 0 } else { allocation(bytes.len()) + allocation(3 * WORD) }
}

/// Headers of which [`own_headers::own`](crate::own_headers::own) has made one allocation of
/// values. Names that HTTP knows take nothing, but nobody can tell which these are.
pub(crate) fn headers(headers: &Headers) -> usize {
    if headers.is_empty() {
        return 0;
    }
    let values: usize = headers.values().map(HeaderValue::len).sum();
    let names = headers.keys().map(|name| allocation(name.as_str().len()) + allocation(3 * WORD));
    // A table of numbers that is a third larger, and the entries with a name, a value and links.
    let slots = headers.capacity() * 4 / 3;
    allocation(size_of::<Headers>())
        + allocation(slots * 4)
        + allocation(headers.capacity() * ENTRY_BYTES)
        + allocation(values)
        + allocation(3 * WORD)
        + names.sum::<usize>()
}

/// An error with its details; its cause is not known.
pub(crate) fn error(error: &Error) -> usize {
    let details = error.details().iter();
    let details = details.map(|it| it.value.len() + it.type_name.len() + DETAIL_BYTES);
    ERROR_BYTES
        + allocation(error.message().len())
        + details.sum::<usize>()
        + headers(error.headers())
        + headers(error.trailers())
}

const WORD: usize = size_of::<usize>();
/// What a header takes in its map.
const ENTRY_BYTES: usize = 104;
/// About what an error takes beside its message.
const ERROR_BYTES: usize = 208;
/// About what a detail takes beside its bytes.
const DETAIL_BYTES: usize = 120;
