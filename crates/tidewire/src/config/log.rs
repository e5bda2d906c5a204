//! Starting the log that `[log]` describes: lines on standard error, in colour on a terminal only.
//!
//! A program says `config.log.start()?` once, before it starts its server; one that has a
//! other subscriber does not. Without the feature `log` neither this nor the library behind it
//! is there.

use std::io::IsTerminal as _;
// tidy: allow-stream this is the log that a program asks for
use std::io::stderr;

use std::sync::OnceLock;

use tidewire_service::OneLine;
use tracing_subscriber::Registry;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::{FormatFields, Layer, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{ConfigError, LogConfig};

/// What sets the level of the log that was started.
static STARTED: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Sets the level of the log while the program runs, if [`LogConfig::start`] started one.
pub(super) fn level_control() -> Option<SetLevel> {
    STARTED.get().map(|_| set_level as SetLevel)
}

type SetLevel = fn(&str) -> Result<(), String>;

fn set_level(level: &str) -> Result<(), String> {
    let wanted = filter(level)?;
    let started = STARTED.get().ok_or("the log is not started")?;
    started.reload(wanted).map_err(|error| error.to_string())
}

impl LogConfig {
    /// Whether the level is one, or a list of directives.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.filter().map(drop)
    }

    /// Starts the log of this program; the admin listener can set its level.
    ///
    /// # Errors
    /// An invalid level; a log that was started before.
    pub fn start(&self) -> Result<(), ConfigError> {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let lines = lines().with_ansi(stderr().is_terminal() && !is_plain).with_writer(stderr);
        let (filter, level) = reload::Layer::new(self.filter()?);
        let log = tracing_subscriber::registry().with(filter).with(lines);
        log.try_init()
            .map_err(|_| ConfigError::new("a log is started already; start it once".to_owned()))?;
        let _ = STARTED.set(level);
        Ok(())
    }

    fn filter(&self) -> Result<Targets, ConfigError> {
        let level = &self.level;
        filter(level).map_err(|error| ConfigError::new(format!("log.level = {level:?}: {error}")))
    }
}

/// The lines of a log, each of one event, whatever is in it: messages and fields repeat what
/// callers and programs say.
fn lines<S>() -> Layer<S, impl for<'a> FormatFields<'a> + 'static> {
    let fields = debug_fn(|to, field, value| {
        let value = OneLine(format_args!("{value:?}"));
        match field.name() {
            "message" => write!(to, "{value}"),
            name if to.has_ansi_escapes() => {
                write!(to, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}")
            }
            name => write!(to, "{name}={value}"),
        }
    });
    // A log that nobody reads any more is no reason to end; complaining of it on the same output
    // was.
    layer().fmt_fields(fields.delimited(" ")).log_internal_errors(false)
}

/// What a level, or a list of directives, lets through. A word that is not a level would be taken
/// for a module and silence all others, so it is refused.
fn filter(text: &str) -> Result<Targets, String> {
    let refused = |why: String| format!("{why}; write {}, or info,hyper=debug", LEVELS.join(", "));
    for directive in text.split(',').map(str::trim) {
        let (module, level) = match directive.split_once('=') {
            Some((module, level)) => (Some(module), level),
            None => (None, directive),
        };
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(refused(format!("{level:?} is not a level")));
        }
        let of_name = |c: char| c.is_ascii_alphanumeric() || "_:-".contains(c);
        if let Some(module) = module.filter(|name| name.is_empty() || !name.chars().all(of_name)) {
            return Err(refused(format!("{module:?} is not a module")));
        }
    }
    text.parse().map_err(|error| refused(format!("{error}")))
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let forged = "x\n2026-01-01T00:00:00Z ERROR forged \u{1b}[31mred\u{202e}";
        let written = Written::default();
        let into = written.clone();
        let log = lines().with_ansi(false).with_writer(move || into.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log), || {
            tracing::error!(error = %forged, text = forged, count = 3, "said {forged}");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line = text.trim_end_matches('\n');
        assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'), "{line:?}");
        let escaped = "x\\n2026-01-01T00:00:00Z ERROR forged \\u{1b}[31mred\\u{202e}";
        assert!(line.contains(&format!("said {escaped} error={escaped} text=\"x\\n")), "{line}");
        assert!(line.contains(" count=3"), "{line}");
    }

    #[test]
    fn a_level_is_one_of_those_there_are_or_directives_with_one_each() {
        for text in
            ["info", "OFF", "trace", "info,hyper=debug", "tidewire::access=off, my-app=warn"]
        {
            assert!(filter(text).is_ok(), "{text}");
        }
        for (text, why) in [
            (
                "",
                "\"\" is not a level; write off, error, warn, info, debug, trace, or info,hyper=debug",
            ),
            ("ifno", "\"ifno\" is not a level"),
            (" ", "\"\" is not a level"),
            ("info,,", "\"\" is not a level"),
            ("info,hyper", "\"hyper\" is not a level"),
            ("x=verbose", "\"verbose\" is not a level"),
            ("hyper=", "\"\" is not a level"),
            ("=info", "\"\" is not a module"),
            ("a\u{1b}[31m=debug", "\"a\\u{1b}[31m\" is not a module"),
        ] {
            let error = filter(text).unwrap_err();
            assert!(error.starts_with(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_log_is_started_once_and_at_a_level_that_is_one() {
        let wrong = LogConfig { level: "a=b=c".to_owned(), ..LogConfig::default() }
            .start()
            .unwrap_err()
            .to_string();
        assert!(wrong.starts_with("log.level = \"a=b=c\": "), "{wrong}");
        assert_eq!(LogConfig::default().start(), Ok(()));
        let again = LogConfig::default().start().unwrap_err();
        assert_eq!(again.to_string(), "a log is started already; start it once");
    }
}
