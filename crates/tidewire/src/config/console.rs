//! The console of a program that somebody tries or develops: reachable although `admin.listen` is
//! not set, for whoever started the program.
//!
//! Such a program tells of itself at a port of the system's choice. The token for that is another
//! one each time it starts; it is in a file that only its owner can read, named after the address,
//! in `$XDG_RUNTIME_DIR/tidewire` or `~/.tidewire/run`, so that `tidewire console` and its like
//! find the program. The file ends with the program.

use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use tidewire_admin::{LoadProgram, Token};
use tidewire_server::{Address, RunningServer};

use super::{Config, ConfigError};

impl Config {
    /// Lets the program be looked at although `admin.listen` is not set.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn offer_console(&mut self) -> Result<(), ConfigError> {
        if self.admin.listen.is_none() {
            if self.admin.token_file.is_none() {
                let token = Token::unknown().map_err(|why| ConfigError::new(why.to_string()))?;
                let _ = self.admin_handles.1.token.set(token);
            }
            self.admin.listen = Some(Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
        }
        Ok(())
    }

    /// Lets load be made on this server from its admin listener, by another process.
    pub fn offer_loads(&self, program: LoadProgram) {
        self.admin_handles.0.set_load_program(program);
    }

    /// The address of the console of a running server, with a code that is good once, for a minute;
    /// `None` where there is no admin listener that a browser reaches.
    ///
    /// # Errors
    /// Where the system has no randomness.
    pub fn console_url(&self, running: &RunningServer) -> Result<Option<String>, ConfigError> {
        let Some(url) = running.beside().map(RunningServer::url).filter(|url| !url.is_empty())
        else {
            return Ok(None);
        };
        let code = self.admin_handles.1.sign_in.operator_code();
        let code = code.map_err(|why| ConfigError::new(why.to_string()))?;
        Ok(Some(format!("{url}/#{code}")))
    }

    /// Puts the token of this run where the commands of this user find it, as long as what is
    /// returned lives; nothing is written where the token is that of a file of the settings.
    ///
    /// # Errors
    /// Where the file cannot be written, or others can read its folder.
    pub fn announce_console(&self, running: &RunningServer) -> io::Result<Option<ConsoleFile>> {
        let (Some(token), Some(folder)) = (self.admin_handles.1.token.get(), folder()) else {
            return Ok(None);
        };
        let addresses = running.beside().map_or(&[][..], RunningServer::addresses);
        let Some(Address::Tcp(address)) = addresses.first() else { return Ok(None) };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let known = std::fs::symlink_metadata(&folder)?;
        if !known.is_dir() || known.mode() & 0o077 != 0 {
            let text = format!("others can read {}; run chmod 700, or remove it", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let path = folder.join(format!("{address}.token"));
        token.write_file(&path)?;
        let served = running.addresses().iter().map(ToString::to_string);
        let served = served.collect::<Vec<_>>().join(", ");
        let about = format!("process {} at {served}", std::process::id());
        let about = match std::env::current_dir() {
            Ok(folder) => format!("{about}, started in {}", folder.display()),
            Err(_) => about,
        };
        // A program is found without it.
        let _ = std::fs::write(path.with_extension(ABOUT), about);
        Ok(Some(ConsoleFile { path }))
    }
}

/// The file with the token of a run; it goes with this.
#[derive(Debug)]
pub struct ConsoleFile {
    path: PathBuf,
}

impl Drop for ConsoleFile {
    fn drop(&mut self) {
        forget(&self.path);
    }
}

/// What a program says of itself beside the file of its token: its process, where it is called,
/// and the folder where it was started.
pub fn announcement(token_file: &Path) -> Option<String> {
    std::fs::read_to_string(token_file.with_extension(ABOUT)).ok()
}

/// Removes the file of a token, and what is beside it.
pub fn forget(token_file: &Path) {
    let _ = std::fs::remove_file(token_file);
    let _ = std::fs::remove_file(token_file.with_extension(ABOUT));
}

const ABOUT: &str = "about";

/// The programs of this user that announced themselves: where each is, and the file of its token.
pub fn announced() -> Vec<(SocketAddr, PathBuf)> {
    folder().map(|folder| in_folder(&folder)).unwrap_or_default()
}

fn in_folder(folder: &Path) -> Vec<(SocketAddr, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let of_entry = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".token")?;
        Some((name.parse().ok()?, path))
    };
    entries.filter_map(|entry| of_entry(entry.ok()?.path())).collect()
}

fn folder() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match of("XDG_RUNTIME_DIR") {
        Some(runtime) => Some(Path::new(&runtime).join("tidewire")),
        None => Some(Path::new(&of("HOME")?).join(".tidewire/run")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_the_names_of_their_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["127.0.0.1:8081.token", "127.0.0.1:x.token", "notes.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = in_folder(folder.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.to_string(), "127.0.0.1:8081");
        assert!(in_folder(Path::new("/nowhere")).is_empty());
    }
}
