//! Errors of other crates in a handler: logged, and never sent.

use std::error::Error as StdError;

use crate::{Error, Result};

/// Turns results of other crates into results of a call.
///
/// `?` alone does not: what another crate says in its errors, such as an address or a statement, is
/// not for callers.
pub trait ResultExt<T> {
    /// Makes any error an `internal` one. Its text goes to the log (`tracing`) as the cause;
    /// callers read that the server's log has it. In a test it is the error's `source`.
    ///
    /// ```
    /// # use tidewire_service as tidewire;
    /// use tidewire::{Code, Result, ResultExt as _};
    ///
    /// fn limit(setting: &str) -> Result<u32> {
    ///     setting.trim().parse().internal()
    /// }
    /// assert_eq!(limit("12").unwrap(), 12);
    /// assert_eq!(limit("a dozen").unwrap_err().code(), Code::Internal);
    /// ```
    /// # Errors
    /// `internal`, where there is an error.
    fn internal(self) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ResultExt<T> for std::result::Result<T, E> {
    fn internal(self) -> Result<T> {
        self.map_err(|cause| Error::internal(MESSAGE).with_boxed_cause(cause.into()))
    }
}

const MESSAGE: &str = "internal error; the log of the server says why";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn read() -> Result<String> {
        let text = std::fs::read_to_string("/there is/no such file").internal()?;
        Ok(text)
    }

    #[test]
    fn what_another_crate_says_is_for_the_log() {
        let error = read().unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::Internal, MESSAGE));
        let cause = StdError::source(&error).unwrap();
        assert!(cause.to_string().contains("No such file"), "{cause}");
    }

    #[test]
    fn boxed_errors_and_texts_are_causes_too() {
        let boxed: std::result::Result<(), Box<dyn StdError + Send + Sync>> = Err("boxed".into());
        let text: std::result::Result<(), String> = Err("a text".to_owned());
        for (error, cause) in [(boxed.internal(), "boxed"), (text.internal(), "a text")] {
            assert_eq!(StdError::source(&error.unwrap_err()).unwrap().to_string(), cause);
        }
    }
}
