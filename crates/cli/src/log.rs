//! What the program logs: to standard error, at the level that the configuration says.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts logging.
pub(crate) fn start(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("log.level = {level:?}; write info, or info,hyper=debug"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that nobody reads any more is no reason to end; complaining of it on the same output was.
    log.log_internal_errors(false).init();
    Ok(())
}
