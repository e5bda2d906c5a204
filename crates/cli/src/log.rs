//! What the program logs: to standard error, at the level that the configuration says, or who operates it.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts logging; what is returned sets another level.
pub(crate) fn start(level: &str) -> anyhow::Result<impl Fn(&str) -> Result<(), String> + use<>> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("log.level = {level:?}; write info, or info,hyper=debug"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that nobody reads any more is no reason to end; complaining of it on the same output was.
    let log = log.log_internal_errors(false).with_filter_reloading();
    let filter = log.reload_handle();
    log.init();
    Ok(move |level: &str| {
        let wanted = EnvFilter::try_new(level)
            .map_err(|error| format!("{error}; write info, or info,hyper=debug"))?;
        filter.reload(wanted).map_err(|error| error.to_string())
    })
}
