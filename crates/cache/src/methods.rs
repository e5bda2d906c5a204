//! What there is of each method, found by where its spec is: at every call, so without a lock.
//!
//! Methods are added and never taken away. A bucket is a list that only grows at its end, so that
//! who looks needs no more than the links that are there.

use std::sync::OnceLock;

use tidewire_service::{Method, Spec};

/// A `T` for each method.
pub(crate) struct Methods<T>([Link<T>; BUCKETS]);

type Link<T> = OnceLock<Box<Node<T>>>;

struct Node<T> {
    /// Keeps the spec where it is.
    method: Method,
    value: T,
    next: Link<T>,
}

/// A power of two; most services have fewer methods.
const BUCKETS: usize = 64;

impl<T> Methods<T> {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }

    /// What there is of a method; `make` makes it the first time.
    pub(crate) fn find_or_add(&self, method: &Method, make: impl Fn() -> T) -> &T {
        let at = address(method);
        let mut link = &self.0[bucket(at)];
        loop {
            let node = link.get_or_init(|| {
                let next = OnceLock::new();
                Box::new(Node { method: method.clone(), value: make(), next })
            });
            if address(&node.method) == at {
                return &node.value;
            }
            link = &node.next;
        }
    }

    /// All there are.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|first| {
            std::iter::successors(first.get(), |node| node.next.get()).map(|node| &node.value)
        })
    }
}

fn address(method: &Method) -> usize {
    std::ptr::from_ref::<Spec>(method).addr()
}

/// The upper bits of a product, since the lower ones of addresses are alike.
fn bucket(address: usize) -> usize {
    let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - BUCKETS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidewire_service::StreamKind;

    use super::*;

    #[test]
    fn each_method_has_its_own_and_keeps_it() {
        let spec = |n: usize| {
            let spec = Spec::dynamic("a.B", &n.to_string(), StreamKind::Unary, ["a.Q", "a.R"]);
            Method::from(Arc::new(spec))
        };
        let methods: Vec<_> = (0..1000).map(spec).collect();
        let known = Methods::new();
        for _ in 0..2 {
            for method in &methods {
                let name = || method.method.clone().into_owned();
                assert_eq!(*known.find_or_add(method, name), method.method);
            }
        }
        assert_eq!(known.each().count(), 1000);
    }
}
