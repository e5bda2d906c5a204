//! The token of an admin listener: 256 random bits in a file that only its owner can read.
//!
//! A file that is not there is made; one that others can read, that is a link, or that holds less
//! than 32 characters is refused, since somebody else may know what is in it.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;

/// The token of an admin listener; it prints as nothing.
///
/// ```
/// # mod tidewire { pub mod admin { pub use tidewire_admin::*; } }
/// use tidewire::admin::Token;
///
/// let token = Token::unknown()?;
/// assert!(!token.is_that(&Token::unknown()?), "each is another one");
/// # Ok::<(), tidewire::admin::TokenError>(())
/// ```
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// The token of a file, which is made where it is not there.
    ///
    /// # Errors
    /// A file that cannot be read or made, or that others can read.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let fault = |why: String| TokenError(format!("{}: {why}", path.display()));
        let mut new = std::fs::OpenOptions::new();
        match new.write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let token = Self::random().map_err(fault)?;
                writeln!(file, "{}", token.0).map_err(|error| fault(error.to_string()))?;
                Ok(token)
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                read(path).map_err(fault)
            }
            Err(error) => Err(fault(error.to_string())),
        }
    }

    /// A token that nobody knows, for a listener that nobody comes to by TCP.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn unknown() -> Result<Self, TokenError> {
        Self::random().map_err(TokenError)
    }

    fn random() -> Result<Self, String> {
        Ok(Self(random_hex::<32>().map_err(|error| error.to_string())?.into()))
    }

    /// Writes it into a file for its owner alone, in place of what was there.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn write_file(&self, path: &Path) -> std::io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = std::fs::OpenOptions::new();
        let mut file = new.write(true).create_new(true).mode(0o600).open(path)?;
        writeln!(file, "{}", self.0)
    }

    /// Whether both are the same, so that one who has this has that too.
    pub fn is_that(&self, other: &Self) -> bool {
        self.is(other.0.as_bytes())
    }

    /// Whether somebody showed it; how long that takes says nothing of it.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(shown).into()
    }
}

/// As many random bytes, as hexadecimal digits.
pub(crate) fn random_hex<const BYTES: usize>() -> Result<String, TokenError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| TokenError(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn read(path: &Path) -> Result<Token, String> {
    let io = |error: std::io::Error| error.to_string();
    let link = std::fs::symlink_metadata(path).map_err(io)?;
    if !link.is_file() {
        return Err("it is not a file; name a file, or a path that does not exist yet".to_owned());
    }
    let mut file = std::fs::File::open(path).map_err(io)?;
    let known = file.metadata().map_err(io)?;
    if known.mode() & 0o077 != 0 {
        let mode = known.mode() & 0o777;
        return Err(format!("others can read it (mode {mode:04o}); run chmod 600, or remove it"));
    }
    let mut text = String::new();
    Read::by_ref(&mut file).take(4096).read_to_string(&mut text).map_err(io)?;
    let token = text.trim();
    if token.len() < 32 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "it does not hold a token of 32 characters or more; remove the file to get a new one"
                .to_owned(),
        );
    }
    Ok(Token(token.into()))
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A file that holds no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError(String);

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TokenError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_that_is_not_there_is_made_for_its_owner_alone_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::of_file(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let read = Token::of_file(&path).unwrap();
        assert!(made.is(text.trim().as_bytes()) && read.is(text.trim().as_bytes()));
        assert!(!read.is(b"") && !read.is(&text.as_bytes()[..63]) && !read.is(text.as_bytes()));
        assert_eq!(format!("{read:?}"), "Token");
        let other = Token::of_file(&folder.path().join("other")).unwrap();
        assert!(!other.is(text.trim().as_bytes()));
        assert!(read.is_that(&made) && !read.is_that(&other));
    }

    #[test]
    fn a_file_that_others_know_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let refused = |expected: &str| {
            let error = Token::of_file(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        Token::of_file(&path).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            refused("others can read it");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short", &"\u{e4}".repeat(40)] {
            std::fs::write(&path, text).unwrap();
            refused("does not hold a token");
        }
        std::fs::remove_file(&path).unwrap();
        symlink("/etc/hostname", &path).unwrap();
        refused("it is not a file");
    }
}
