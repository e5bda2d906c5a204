//! What the `main` of a program returns.

use std::error::Error;
use std::fmt;

/// Nothing, or an error that is shown as it reads, with its causes.
///
/// ```
/// use std::net::SocketAddr;
///
/// fn main() -> tidewire::Exit {
///     let address: SocketAddr = "127.0.0.1:8080".parse()?; // `?` takes any error
///     println!("{address}");
///     Ok(())
/// }
/// ```
pub type Exit = Result<(), Failure>;

/// Any error, on its way out of `main`.
///
/// ```
/// use tidewire::{Error, Failure};
///
/// let cause = std::io::Error::other("no route to host");
/// let failure = Failure::from(Error::unavailable("the shop does not answer").with_cause(cause));
/// assert_eq!(format!("{failure:?}"), "unavailable: the shop does not answer: no route to host");
/// ```
pub struct Failure(Box<dyn Error + Send + Sync>);

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The text for people, since `main` prints this one.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_text_with_its_causes() {
        let cause = std::io::Error::other("no route");
        let error =
            tidewire_service::Error::unavailable("the shop does not answer").with_cause(cause);
        let failure = Failure::from(error);
        assert_eq!(format!("{failure:?}"), "unavailable: the shop does not answer: no route");
    }
}
