//! Services without code, put into a server: what `serve` starts and `check` tries;
//! what a server runs on, and what is said once it listens.

use std::io::Write as _;
use std::num::NonZero;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::bail;
use tidewire::admin::LoadProgram;
use tidewire::config::{Backend, Config, ConsoleFile, Flags, ServiceConfig};
use tidewire::server::StartError;
use tidewire::{Builder, Echo, RunningServer, Schema};
use tokio::runtime::{self, Runtime};

use crate::failure::Failure;

/// The services of `schema` that are asked for, added to `builder`; `names` gets their names.
///
/// # Errors
/// A service that is not there, an upstream that cannot be used, options that make no sense.
pub(crate) fn add(
    mut builder: Builder,
    service: &ServiceConfig,
    schema: &Schema,
    names: &mut Vec<String>,
) -> anyhow::Result<Builder> {
    let wanted: Vec<String> = if service.names.is_empty() {
        schema.services().map(str::to_owned).collect()
    } else {
        service.names.clone()
    };
    let upstream = match service.backend {
        Backend::Upstream => Some(service.upstream(schema)?),
        _ => None,
    };
    for name in wanted {
        builder = match (service.backend, &upstream) {
            (Backend::Upstream, Some(upstream)) => {
                builder.service(schema.serve(&name, upstream.clone())?)
            }
            // What a program answers is known to its host, which `check` has not.
            (Backend::Echo | Backend::Program, _) => {
                builder.service(schema.implement(&name, Echo::new(schema))?)
            }
            _ => bail!("backend of {name} is not known to this program"),
        };
        names.push(name);
    }
    Ok(builder)
}

/// What a server runs on: `server.threads` threads. Without that a thread a core, or half of it
/// where programs are hosted, which want the other half.
///
/// # Errors
/// The system gives no threads or no descriptors.
pub(crate) fn runtime(config: &Config) -> std::io::Result<Runtime> {
    let threads = config.server.threads.map_or_else(
        || {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            if config.programs().next().is_some() { (cores / 2).max(1) } else { cores }
        },
        |threads| usize::from(threads.get()),
    );
    let mut builder = match threads {
        1 => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build()
}

/// Goes to the nearest folder above that has a `tidewire.toml`, where this one has none: paths in
/// the file are relative to where it is. A folder or a file of another user ends the search, since
/// the file names programs to run.
pub(crate) fn enter_settings_folder() -> std::io::Result<()> {
    let here = std::env::current_dir()?;
    let owner = std::fs::metadata(&here)?.uid();
    let is_own = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.uid() == owner);
    let folders = here.ancestors().take_while(|folder| is_own(folder));
    let found = folders.into_iter().find(|folder| folder.join(SETTINGS).exists());
    match found {
        Some(folder) if folder != here && is_own(&folder.join(SETTINGS)) => {
            crate::failure::report(&format!(
                "the settings are those of {}",
                folder.join(SETTINGS).display()
            ));
            std::env::set_current_dir(folder)
        }
        _ => Ok(()),
    }
}

const SETTINGS: &str = "tidewire.toml";

/// Why a server did not start. Where an address is taken it names the flag that asked for it.
pub(crate) fn start_failure(
    error: StartError,
    port: Option<u16>,
    listen: &[String],
    flags: &Flags,
    config: &Config,
) -> Failure {
    let StartError::Listen { address, cause } = &error else { return Failure::usage(error) };
    let is_admin = config.admin.listen.as_ref() == Some(address);
    let is_of_flag = port.is_some() || !listen.is_empty();
    if cause.kind() != std::io::ErrorKind::AddrInUse || !is_admin && !is_of_flag {
        return Failure::from(error);
    }
    let flag = match port {
        _ if is_admin => admin_advice(flags),
        Some(_) => "another --port (0 is any free port)".to_owned(),
        None => "another --listen (port 0 is any free port)".to_owned(),
    };
    Failure::from(anyhow::anyhow!(
        "{address} is in use by another program; stop it, or give {flag}"
    ))
}

/// Which `admin.listen` to change: the file may be that of the program that has the address.
fn admin_advice(flags: &Flags) -> String {
    let is_of_flag = flags.settings.iter().any(|setting| setting.starts_with("admin.listen="));
    let origin = match &flags.file {
        _ if is_of_flag => return "another admin.listen (port 0 is any free port)".to_owned(),
        _ if std::env::var_os(ADMIN_VARIABLE).is_some() => ADMIN_VARIABLE.to_owned(),
        Some(file) => file.display().to_string(),
        None => SETTINGS.to_owned(),
    };
    format!(
        "another admin.listen: this one is of {origin}; --set admin.listen=127.0.0.1:0 is for this \
         program alone"
    )
}

const ADMIN_VARIABLE: &str = "TIDEWIRE_ADMIN_LISTEN";

/// Where a server listens, what it does there, and where its settings come from.
pub(crate) fn start(running: &RunningServer, what: &str, flags: &Flags) -> String {
    let mut text = String::new();
    let beside = running.beside().map_or(&[][..], RunningServer::addresses);
    for (name, addresses) in [("listening", running.addresses()), ("admin", beside)] {
        text.extend(addresses.iter().map(|address| format!("{name} on {address}\n")));
    }
    text += &format!("{what}\n");
    let origins = flags.origins(std::env::vars());
    if !origins.is_empty() {
        text += &format!("settings are from {}\n", origins.join(", "));
    }
    if let Some(url) = running.docs_url() {
        text += &format!("docs at {url}\n");
    }
    text
}

/// Lets the console make load on the server, by this program in another process. Results are
/// kept for this user and this folder; where the user has no folder there is no load.
pub(crate) fn offer_loads(config: &Config) {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let all = match (of("XDG_STATE_HOME"), of("HOME")) {
        (Some(state), _) => Path::new(&state).join("tidewire/loads"),
        (None, Some(home)) => Path::new(&home).join(".tidewire/loads"),
        (None, None) => return,
    };
    let (Ok(program), Ok(here)) = (std::env::current_exe(), std::env::current_dir()) else {
        return;
    };
    config.offer_loads(LoadProgram::new(program, all.join(name_of(&here))));
}

/// A folder by one name: its last part for people, and a number that tells it from others.
fn name_of(folder: &Path) -> String {
    // FNV-1a: the same with every version of this program.
    let hash =
        folder.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("{}-{hash:016x}", last.chars().take(40).collect::<String>())
}

/// The line with the address of the console, and what lets `tidewire console` find the program
/// as long as it is held.
pub(crate) fn console(config: &Config, running: &RunningServer) -> (String, Option<ConsoleFile>) {
    let file = config.announce_console(running).unwrap_or_else(|why| {
        tracing::warn!("tidewire console will not find this program: {why}");
        None
    });
    let line = match config.console_url(running) {
        Ok(Some(url)) => format!("console at {url} (once, for a minute; then: tidewire console)\n"),
        Ok(None) => String::new(),
        Err(why) => {
            tracing::warn!("there is no way into the console: {why}");
            String::new()
        }
    };
    (line, file)
}

/// Why a method that asks for a credential is out of reach, and what to do.
pub(crate) const NO_CREDENTIAL: &str = "its rule asks for a credential, and none is configured; set \
     [auth.jwt], [[auth.api_key]] or auth.certificates, or give it a rule in [auth.methods]";

/// Prints it. Nobody may be reading any more; the server goes on.
pub(crate) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
