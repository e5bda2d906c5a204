//! Reaching the admin listener of a running program: where it is, and the token for it.
//!
//! Without `--admin` it is that of the settings, as the program in this folder has them
//! (`tidewire.toml`, `TIDEWIRE_ADMIN_LISTEN`), with their token, or else the one mock or `serve
//! --dev` that this user runs, which is named if it was started in another folder. An address
//! that is named gets the token of `--token-file`, or that of the settings where its file is there
//! and the address is of this machine: it is nobody's business elsewhere.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use tidewire::config::{Flags, announced, announcement, forget};
use tidewire::http::HeaderValue;
use tidewire::http::header::AUTHORIZATION;
use tidewire::service::{Answer, Channel};
use tidewire::{Address, Call, Client, Code, Error, Service};

use crate::call::printable::printable;
use crate::failure::Failure;

/// Where an admin listener is.
#[derive(Debug, clap::Args)]
pub(crate) struct Admin {
    /// Address of the admin listener, such as 127.0.0.1:8081 or unix:/run/shop/admin.sock [default:
    /// `admin.listen` of tidewire.toml, or else the one mock or `serve --dev` that you run].
    #[arg(long, value_name = "ADDRESS", global = true)]
    admin: Option<String>,
    /// File with the token; a Unix socket needs none [default: `admin.token_file` of
    /// tidewire.toml].
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
    /// Configuration file of the program [default: tidewire.toml, if it exists].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

impl Admin {
    /// What clients of its services call through.
    pub(crate) fn channel(&self) -> Result<Channel, Failure> {
        Ok(Channel::new(self.service()?))
    }

    /// The same, for calls that are put together by hand.
    pub(crate) fn service(&self) -> Result<impl Service + use<>, Failure> {
        let (address, token_file) = self.place()?;
        let url = match address.starts_with("unix:") || address.contains("://") {
            true => address,
            false => format!("http://{address}"),
        };
        let client = Client::builder(url).build().map_err(Failure::usage)?;
        let token = token_file.as_deref().map(token).transpose()?;
        Ok(TokenChannel { client, token })
    }

    /// Where it is, and the file with its token.
    pub(crate) fn place(&self) -> Result<(String, Option<PathBuf>), Failure> {
        if self.config.is_none() && self.token_file.is_none() {
            crate::serving::enter_settings_folder().map_err(Failure::usage)?;
        }
        let flags = Flags { file: self.config.clone(), ..Flags::default() };
        let config = flags.load(std::env::vars());
        if let Some(address) = &self.admin {
            // Settings that are wrong are no reason not to look at a program.
            let known = config.ok().and_then(|config| config.admin.token_file);
            let is_here = address.parse::<Address>().is_ok_and(|address| address.is_local());
            let known = known.filter(|file| is_here && file.exists());
            let announced = || {
                let mut all = announced().into_iter();
                all.find(|(at, _)| at.to_string() == *address).map(|(_, file)| file)
            };
            let known = known.or_else(announced);
            return Ok((address.clone(), self.token_file.clone().or(known)));
        }
        let config = config.map_err(Failure::usage)?;
        if let Some(address) = config.admin.listen {
            let file = self.token_file.clone().or(config.admin.token_file);
            return Ok((address.to_string(), file));
        }
        let (address, file) = the_one_announced()?;
        Ok((address.to_string(), self.token_file.clone().or(Some(file))))
    }
}

/// Where the one program is that this user tries (`tidewire mock`, `tidewire serve --dev`), and
/// the file with its token.
fn the_one_announced() -> Result<(SocketAddr, PathBuf), Failure> {
    let answers = |(address, file): &(SocketAddr, PathBuf)| {
        let is_there = TcpStream::connect(address).is_ok();
        if !is_there {
            // It was killed, and could not remove it.
            forget(file);
        }
        is_there
    };
    let mut running: Vec<_> = announced().into_iter().filter(answers).collect();
    match (running.pop(), &running[..]) {
        (Some(one), []) => {
            say_whose(&one.1);
            Ok(one)
        }
        (None, _) => Err(Failure::usage(anyhow!(
            "where is the program? write --admin ADDRESS, or admin.listen into tidewire.toml"
        ))),
        (Some(one), others) => {
            let mut text = "several programs run; say which:".to_owned();
            for (address, file) in others.iter().chain([&one]) {
                text += &format!("\n  --admin {address}");
                if let Some(about) = announcement(file) {
                    text += &format!("   {}", printable(&about));
                }
            }
            Err(Failure::usage(anyhow!(text)))
        }
    }
}

/// Says which program it is, unless it was started in this folder.
fn say_whose(token_file: &Path) {
    let Some(about) = announcement(token_file) else { return };
    let here = std::env::current_dir().unwrap_or_default();
    if !about.ends_with(&format!(", started in {}", here.display())) {
        crate::failure::report(&format!("no admin.listen here; this is {}", printable(&about)));
    }
}

/// What an admin listener answered.
///
/// # Errors
/// What it refuses, and that it is not there.
pub(crate) fn body_or_failure<T>(
    reply: tidewire::Result<tidewire::Reply<T>>,
) -> Result<T, Failure> {
    let refused = |error: Error| {
        let summary = match error.code() {
            Code::Unavailable => "the admin listener does not answer",
            _ => "the admin listener refuses",
        };
        let hint = match error.code() {
            Code::Unauthenticated => "; name the file of its token by --token-file",
            _ => "",
        };
        anyhow!("{}: {}{hint}", error.code().as_str(), error.message()).context(summary)
    };
    Ok(reply.map_err(refused)?.body)
}

fn token(path: &Path) -> Result<HeaderValue, Failure> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {}", path.display()))
        .map_err(Failure::usage)?;
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", text.trim())).map_err(Failure::usage)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A client that shows the token.
struct TokenChannel {
    client: Client,
    token: Option<HeaderValue>,
}

impl Service for TokenChannel {
    fn call(&self, mut call: Call) -> Answer {
        if let Some(token) = &self.token {
            call.context.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        self.client.call(call)
    }
}
