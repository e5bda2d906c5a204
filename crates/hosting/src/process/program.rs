//! What is run as a hosted service: command, folder, environment, user, and how it listens.
//!
//! The environment of the gateway does not go along but for a few variables: a certificate bundle
//! or a site hook in it makes an interpreter twice as slow to start, and its secrets are none of
//! the program's business.

use std::io;
use std::path::PathBuf;

use crate::supervisor::message::{Bounds, User};

/// What the gateway's environment passes on, where it is set.
const PASSED_ON: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// A program to be hosted.
///
/// ```
/// use tidewire_hosting::{Listen, Program};
/// let shop = Program::new("shop", ["gunicorn", "--bind", "unix:{socket}", "app:app"])
///     .listen(Listen::Unix)
///     .folder("shop")
///     .environment("STAGE", "test");
/// assert_eq!(shop.name(), "shop");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    command: Vec<String>,
    folder: Option<PathBuf>,
    environment: Vec<(String, String)>,
    user: Option<String>,
    ready: Option<String>,
    health: Option<String>,
    pub(crate) listen: Listen,
    pub(crate) speaks_http2: bool,
    pub(crate) reuses_after_body: bool,
}

/// How a program is reached: where it listens for HTTP, and how it is told, or that it speaks the
/// live protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Listen {
    /// At a port of 127.0.0.1 or ::1 that the variable `PORT` names, and `{port}` in its arguments.
    #[default]
    Port,
    /// At a Unix socket whose path the variable `SOCKET` names, and `{socket}` in its arguments.
    Unix,
    /// At a socket that is open as descriptor 3 (`LISTEN_FDS`, as systemd has it).
    Inherited,
    /// Not at all: it speaks the live protocol on a socket that is open as the descriptor that the
    /// variable `TIDEWIRE_FD` names. So it serves methods too, and calls back.
    Native,
    /// At a Unix socket whose path the variable `PIPE_ADDRESS` names, and `{socket}` in its
    /// arguments: each connection has one request and one response, both JSON objects
    /// (`pipe-json`).
    PipeJson,
}

impl Program {
    /// A program by its name in `ps`, logs and errors, and its command: a path or a name that is
    /// looked up in `PATH`, and its arguments. No shell reads it.
    pub fn new(
        name: impl Into<String>,
        command: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name: name.into(),
            command: command.into_iter().map(Into::into).collect(),
            folder: None,
            environment: Vec::new(),
            user: None,
            ready: None,
            health: None,
            listen: Listen::default(),
            speaks_http2: false,
            reuses_after_body: false,
        }
    }

    /// Sets how it is told where to listen.
    #[must_use]
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = listen;
        self
    }

    /// Says that it speaks HTTP/2 without TLS from the first byte on (`h2c`), as gRPC servers do;
    /// HTTP/1.1 unless said. WebSockets and other upgrades do not reach it then.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.speaks_http2 = true;
        self
    }

    /// Sets its working folder; that of the gateway unless set.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Adds a variable to its environment.
    #[must_use]
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the user that it runs as, by name; only root may.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// Sets a path, such as `/healthz`, that says whether it is ready: it is called once that is
    /// answered with a status below 400, and not before. Without one it is ready once it accepts a
    /// connection. A program that speaks the live protocol says it itself.
    #[must_use]
    pub fn ready(mut self, path: impl Into<String>) -> Self {
        self.ready = Some(path.into());
        self
    }

    /// Sets a path, such as `/healthz`, that says while it runs whether it is well: it is asked for
    /// each [`health_interval`](crate::LifeLimits::health_interval). After three answers in a row
    /// with a status of 400 or more, or none, another process takes over. A program that speaks the
    /// live protocol is not asked.
    #[must_use]
    pub fn health(mut self, path: impl Into<String>) -> Self {
        self.health = Some(path.into());
        self
    }

    /// Lets a connection to it be used again on which a request with a body or a `HEAD` was sent. A
    /// program that answers without reading a body takes what is left of it for the next request,
    /// which may be another caller's: set it for one that reads what it is sent.
    #[must_use]
    pub fn reuse_after_body(mut self) -> Self {
        self.reuses_after_body = true;
        self
    }

    /// The path that says whether it is well.
    pub(crate) fn health_path(&self) -> Option<&str> {
        self.health.as_deref()
    }

    /// The path that says whether it is ready.
    pub(crate) fn ready_path(&self) -> Option<&str> {
        self.ready.as_deref()
    }

    /// Whether its user is known on this machine.
    ///
    /// # Errors
    /// There is no such user, or nobody can tell.
    pub fn check_user(&self) -> io::Result<()> {
        self.runs_as().map(drop)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it speaks the live protocol, by an SDK ([`Listen::Native`]).
    pub fn is_native(&self) -> bool {
        self.listen == Listen::Native
    }

    /// The program itself.
    pub(crate) fn executable(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// Whom it runs as, if not as the gateway.
    ///
    /// # Errors
    /// There is no such user.
    pub(crate) fn runs_as(&self) -> io::Result<Option<User>> {
        self.user.as_deref().map(user).transpose()
    }

    /// What the supervisor is told, with the place to listen at filled in.
    ///
    /// # Errors
    /// A user that is not there; a folder that is not there.
    pub(crate) fn order(
        &self,
        id: u64,
        place: &[(&str, &str)],
    ) -> io::Result<crate::supervisor::message::Start> {
        if let Some(folder) = self.folder.as_ref().filter(|folder| !folder.is_dir()) {
            let text = format!("its folder {} does not exist", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let filled = |word: &String| {
            place.iter().fold(word.clone(), |word, (name, value)| {
                word.replace(place_in_arguments(name), value)
            })
        };
        let passed_on = PASSED_ON
            .iter()
            .filter_map(|name| std::env::var(name).ok().map(|value| ((*name).to_owned(), value)));
        let place = place.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut environment: Vec<_> = passed_on.chain(place).collect();
        let user = self.runs_as()?;
        environment.extend(user.iter().flat_map(User::environment));
        environment.extend(self.environment.iter().cloned());
        Ok(crate::supervisor::message::Start {
            id,
            command: self.command.iter().map(filled).collect(),
            environment,
            folder: self.folder.clone(),
            user,
            listens: self.listen == Listen::Inherited,
            bounds: Bounds::default(),
        })
    }
}

impl User {
    /// What programs read of their user.
    fn environment(&self) -> [(String, String); 3] {
        [("HOME", &self.home), ("USER", &self.name), ("LOGNAME", &self.name)]
            .map(|(name, value)| (name.to_owned(), value.clone()))
    }
}

/// What stands in arguments for the place that a variable names.
fn place_in_arguments(variable: &str) -> &'static str {
    match variable {
        "PORT" => "{port}",
        "TIDEWIRE_FD" => "{tidewire_fd}",
        _ => "{socket}",
    }
}

/// Looks a user up in `/etc/passwd`.
fn user(name: &str) -> io::Result<User> {
    let text = std::fs::read_to_string("/etc/passwd")?;
    let known = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next() != Some(name) {
            return None;
        }
        let mut fields = fields.skip(1);
        let uid = fields.next()?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?.to_owned();
        Some(User { name: name.to_owned(), uid, gid, home })
    });
    known.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no user {name} in /etc/passwd"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_into_arguments_and_environment() {
        let program = Program::new("a", ["serve", "--bind=unix:{socket}"]).environment("X", "1");
        let start = program.order(7, &[("SOCKET", "/run/a.sock")]).unwrap();
        assert_eq!(start.command, ["serve", "--bind=unix:/run/a.sock"]);
        for (name, value) in [("SOCKET", "/run/a.sock"), ("X", "1")] {
            assert!(start.environment.contains(&(name.to_owned(), value.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_program_of_pipe_json_finds_its_socket_as_such_programs_do() {
        let program = Program::new("a", ["serve", "{socket}"]).listen(Listen::PipeJson);
        let start = program.order(7, &[("PIPE_ADDRESS", "/run/a.sock")]).unwrap();
        assert_eq!(start.command, ["serve", "/run/a.sock"]);
        let told = ("PIPE_ADDRESS".to_owned(), "/run/a.sock".to_owned());
        assert!(start.environment.contains(&told));
    }

    #[test]
    fn only_variables_of_the_list_are_passed_on() {
        let program = Program::new("a", ["a"]);
        let start = program.order(7, &[]).unwrap();
        let names = start.environment.iter().map(|(name, _)| name.as_str());
        // `cargo test` sets many more.
        assert!(names.into_iter().all(|name| PASSED_ON.contains(&name)));
        assert!(std::env::vars().count() > start.environment.len());
    }

    #[test]
    fn users_are_found_by_name() {
        let root = user("root").unwrap();
        assert_eq!((root.uid, root.gid, root.home.as_str()), (0, 0, "/root"));
        assert!(user("nobody-of-this-name").is_err());
        let program = Program::new("a", ["a"]).folder("/no/such/folder");
        let error = program.order(1, &[]).unwrap_err().to_string();
        assert_eq!(error, "its folder /no/such/folder does not exist");
    }
}
