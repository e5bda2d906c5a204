//! What the program logs: to standard error, at the level that the configuration says.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Starts logging.
pub(crate) fn start(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level)
        .with_context(|| format!("log.level = {level:?}; write info, or info,hyper=debug"))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}
