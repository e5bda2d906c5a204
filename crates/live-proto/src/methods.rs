//! Methods are named once on a connection and numbered from then on (specification 3.2).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tidewire_service::Codec;

use crate::message::MethodId;
use crate::reason::{Reason, Violation};

/// The methods that this side calls. Ids last for the session, numbers for a connection.
#[derive(Debug, Default)]
pub(crate) struct OwnMethods {
    known: Vec<(Codec, Bytes)>,
    /// By codec and path.
    ids: [HashMap<Bytes, u32, RandomState>; 2],
    numbers: Vec<u32>,
    named: u32,
}

const NOT_NAMED: u32 = u32::MAX;

impl OwnMethods {
    /// Asked for each call, so it takes nothing but a look.
    #[inline]
    pub(crate) fn id(&mut self, path: &str, codec: Codec) -> MethodId {
        match self.ids[codec as usize].get(path.as_bytes()) {
            Some(&id) => MethodId(id),
            None => self.add(path, codec),
        }
    }

    #[cold]
    fn add(&mut self, path: &str, codec: Codec) -> MethodId {
        let id = self.known.len() as u32;
        let path = Bytes::copy_from_slice(path.as_bytes());
        self.ids[codec as usize].insert(path.clone(), id);
        self.known.push((codec, path));
        self.numbers.push(NOT_NAMED);
        MethodId(id)
    }

    /// The number of a method, if it has one on this connection.
    #[inline]
    pub(crate) fn number(&self, id: MethodId) -> Option<u32> {
        self.numbers.get(id.0 as usize).copied().filter(|&number| number != NOT_NAMED)
    }

    /// Names a method, with its number on this connection unless the peer takes no more of them.
    #[cold]
    pub(crate) fn name(
        &mut self,
        id: MethodId,
        max: u32,
    ) -> Option<(Option<u32>, &(Codec, Bytes))> {
        let number = (self.named < max).then_some(self.named);
        if let Some(number) = number {
            *self.numbers.get_mut(id.0 as usize)? = number;
            self.named += 1;
        }
        Some((number, self.known.get(id.0 as usize)?))
    }

    /// The length of a method's path; `None` for an id of another session.
    pub(crate) fn path_len(&self, id: MethodId) -> Option<usize> {
        self.known.get(id.0 as usize).map(|(_, path)| path.len())
    }

    pub(crate) fn restart(&mut self) {
        self.numbers.fill(NOT_NAMED);
        self.named = 0;
    }
}

/// A method that the peer named on this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerMethod {
    /// How messages are encoded.
    pub codec: Codec,
    /// The path, `/pkg.Service/Method`.
    pub path: Arc<str>,
}

impl PeerMethod {
    /// What the field `name` says.
    pub(crate) fn read(codec: u8, path: &[u8]) -> Result<Self, Violation> {
        let codec = match codec {
            0 => Codec::Proto,
            1 => Codec::Json,
            _ => return Err(Violation::malformed("a method is named with an unknown codec")),
        };
        let path = std::str::from_utf8(path)
            .ok()
            .filter(|path| path.starts_with('/'))
            .ok_or_else(|| Violation::malformed("a method's path is not /service/method"))?;
        Ok(Self { codec, path: path.into() })
    }
}

/// The methods that the peer calls.
#[derive(Debug, Default)]
pub(crate) struct PeerMethods(Vec<PeerMethod>);

impl PeerMethods {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&PeerMethod> {
        self.0.get(number as usize)
    }

    /// Whether a method number was named.
    #[inline]
    pub(crate) fn knows(&self, number: Option<u64>) -> bool {
        number.is_some_and(|number| number < self.0.len() as u64)
    }

    /// Names a method; one without a number is only looked at.
    ///
    /// # Errors
    /// Also when there is no name, for a number that is not known.
    pub(crate) fn add(
        &mut self,
        number: Option<u64>,
        name: Option<(u8, &[u8])>,
        methods_max: u32,
    ) -> Result<(), Violation> {
        let Some((codec, path)) = name else {
            return Err(match number {
                None => Violation::malformed("a request has neither number nor name of a method"),
                Some(number) => Violation::new(
                    Reason::UnknownMethod,
                    format!("method number {number} was not named on this connection"),
                ),
            });
        };
        let method = PeerMethod::read(codec, path)?;
        let Some(number) = number else { return Ok(()) };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if number as usize != self.0.len() || number >= methods_max {
            return Err(Violation::new(
                Reason::MethodsMax,
                format!(
                    "method number {number} is out of turn or over methods_max = {methods_max}"
                ),
            ));
        }
        self.0.push(method);
        Ok(())
    }

    /// There is no such method: what is left of its name is a mark, and enough to say which.
    pub(crate) fn forget(&mut self, number: u32) {
        const KEPT_CHARS_MAX: usize = 100;
        let Some(method) = self.0.get_mut(number as usize) else { return };
        if let Some((end, _)) = method.path.char_indices().nth(KEPT_CHARS_MAX) {
            // No path of a method has this character.
            method.path = format!("{}…", &method.path[..end]).into();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.0.clear();
    }
}
