//! A whole program in one line: its settings, its log, its server, until it is stopped.
//!
//! ```text
//! serve ─▶ tidewire.toml + environment ─▶ log ─▶ change log ─▶ services, hosted programs ─▶ stopped
//! ```

use tidewire_memo::Graph;
use tidewire_server::Builder;
use tidewire_service::RpcService;

use crate::Exit;
use crate::config::{Config, ConfigError, Flags, ServiceEntry};

/// Serves one service over every protocol until Ctrl-C or SIGTERM, then drains.
///
/// This is what the `main` of a program returns:
///
/// ```ignore
/// #[tokio::main]
/// async fn main() -> tidewire::Exit {
///     tidewire::serve(GreeterServer::new(Hello)).await
/// }
/// ```
///
/// Settings come from `tidewire.toml` in the folder where the program is started, where there is
/// one, then from the environment (`server.listen` is `TIDEWIRE_SERVER_LISTEN`). Without them it
/// listens on `127.0.0.1:8080`. The log goes to standard error, and names the addresses. Arguments
/// of the command line are not read; settings of your own belong in another file. Use
/// [`serve_with`] for several services, plain HTTP handlers, gates and layers.
///
/// # Errors
/// A setting that is wrong or that this program cannot follow; an address that is taken; a second
/// signal while it drains.
///
/// # Cancel safety
/// Dropping the future cuts off connections and calls; commands that are under way end.
pub async fn serve(service: impl RpcService) -> Exit {
    serve_with(|server| server.service(service)).await
}

/// As [`serve`], with what `add` puts into the server:
///
/// ```no_run
/// # use tidewire::http::Method;
/// # use tidewire::Call;
/// # use tidewire::RpcService;
/// # async fn example(cart: impl RpcService, prices: impl RpcService) -> tidewire::Exit {
/// tidewire::serve_with(|server| {
///     server
///         .service(cart)
///         .service(prices)
///         .route(Method::GET, "/version", async |_: Call| Ok(env!("CARGO_PKG_VERSION")))
/// })
/// .await
/// # }
/// ```
///
/// What stands below is there for programs that need more: [`Config::load`] or [`Flags`] for the
/// settings, [`Config::server`] for the server, [`Builder::start`] to learn its addresses.
///
/// Programs of `[[service]]` are hosted if `main` begins with
/// [`supervisor()`](crate::hosting::supervisor()), and `[oplog]` is followed.
///
/// # Errors
/// As those of [`serve`].
///
/// # Cancel safety
/// As that of [`serve`].
pub async fn serve_with(add: impl FnOnce(Builder) -> Builder) -> Exit {
    let flags = Flags::default();
    let config = flags.load(std::env::vars())?;
    #[cfg(feature = "log")]
    config.log.start()?;
    all_is_read(&config)?;

    let captured = config.oplog.sources(&Graph::global());
    let log = config.oplog.start(&captured).await?;
    let builder = add(config.server_with_log(log.as_deref())?);
    let (builder, mut programs) = config.host(builder)?;
    if let Some(log) = &log {
        programs.share_log(log, captured);
    }
    let running = builder.start().await?;
    if let Some(host) = programs.host() {
        host.answered_by(running.callee());
    }
    let addresses = running.addresses().to_vec();
    let stopped = programs.run_until(running.until_stopped(), &flags);
    for address in addresses {
        tracing::info!(%address, "serving");
    }
    let outcome = stopped.await;
    if let Some(log) = log {
        log.stop().await;
    }
    outcome?;
    Ok(())
}

/// A section that is written and not read would be believed.
fn all_is_read(config: &Config) -> Result<(), ConfigError> {
    let without_code = config.services.iter().find_map(|entry| match entry {
        ServiceEntry::Schema(service) => Some(service.proto.display()),
        ServiceEntry::Program(_) | ServiceEntry::Upstream(_) => None,
    });
    match without_code {
        None => Ok(()),
        Some(proto) => Err(ConfigError::new(format!(
            "[[service]] with proto = \"{proto}\": this program serves services that it has code for; \
             start `tidewire serve` for services without code, or remove the section"
        ))),
    }
}
