//! `[oplog]`: how this host follows the change log of its database.
//!
//! A Rust program names its sources and tables itself ([`Oplog`](tidewire_oplog::Oplog)) and takes
//! the rest from here. For hosted programs `[[oplog.capture]]` names them: what a program declares
//! with `depends` is then stale when anybody changes the table.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tidewire_memo::{Graph, Source};
use tidewire_oplog::{Settings, TextKey};

use super::value;

/// `[oplog]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = r#"
/// [oplog]
/// url = "postgres://shop@10.0.0.7/shop"
///
/// [[oplog.capture]]
/// table = "public.item"
/// source = "items"
/// key = ["id"]
/// "#;
/// let oplog = Config::parse(text, "tidewire.toml")?.oplog;
/// assert_eq!(oplog.capture[0].source, "items");
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OplogConfig {
    /// Whether a change log is followed, where there is one; on unless set.
    pub enabled: Option<bool>,
    /// The database, for hosted programs: `postgres://…`, or `sqlite:` and a path.
    pub url: Option<String>,
    /// See [`Settings::schema`].
    pub schema: Option<String>,
    /// See [`Settings::install`].
    pub install: Option<bool>,
    /// See [`Settings::poll`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub poll: Option<Duration>,
    /// See [`Settings::wake`].
    pub wake: Option<bool>,
    /// See [`Settings::lease`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub lease: Option<Duration>,
    /// See [`Settings::token_wait`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub token_wait: Option<Duration>,
    /// See [`Settings::keep`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub keep: Option<Duration>,
    /// See [`Settings::check`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub check: Option<Duration>,
    /// See [`Settings::keys_max`].
    pub keys_max: Option<u32>,
    /// See [`Settings::key_bytes_max`].
    #[serde(deserialize_with = "value::bytes")]
    pub key_bytes_max: Option<usize>,
    /// See [`Settings::rows_max`].
    pub rows_max: Option<u32>,
    /// `[[oplog.capture]]`: which tables hosted programs depend on.
    pub capture: Vec<CaptureConfig>,
}

/// `[[oplog.capture]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CaptureConfig {
    /// The table: `public.contact`.
    pub table: String,
    /// The source that a program names: `contacts`.
    pub source: String,
    /// The columns that a key is made of, in order; none for a source without keys.
    #[serde(default)]
    pub key: Vec<String>,
}

impl OplogConfig {
    /// Whether a change log is followed.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// How it is followed: defaults where nothing is set.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        macro_rules! take {
            ($($name:ident)*) => {
                $(if let Some(value) = self.$name.clone() { settings.$name = value; })*
            };
        }
        take! { schema install poll wake lease token_wait keep check keys_max rows_max }
        if let Some(bytes) = self.key_bytes_max {
            settings.key_bytes_max = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
        settings
    }

    /// What is wrong with it.
    pub(super) fn fault(&self) -> Option<String> {
        if self.is_on() && !self.capture.is_empty() && self.url.is_none() {
            return Some(
                "oplog.capture needs oplog.url, such as postgres://user@host/name".to_owned(),
            );
        }
        let url = self.url.as_deref().filter(|_| self.is_on())?;
        let settings = self.settings();
        if let Some(fault) = settings.fault() {
            return Some(fault);
        }
        let Settings { poll, lease, .. } = &settings;
        if poll >= lease {
            return Some(format!(
                "oplog.poll = {poll:?} is not shorter than oplog.lease = {lease:?}; between two \
                 looks nothing would be given from memory"
            ));
        }
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|it| url.starts_with(it));
        let is_sqlite = url.starts_with("sqlite:");
        // It may hold a password, so it is not repeated.
        if !is_postgres && !is_sqlite {
            return Some(
                "oplog.url is neither postgres://user@host/name nor sqlite:path".to_owned(),
            );
        }
        let lacks = |feature: &str| {
            Some(format!("oplog.url: this program was built without the feature {feature}"))
        };
        if is_postgres && cfg!(not(feature = "oplog-postgres")) {
            return lacks("oplog-postgres");
        }
        if is_sqlite && cfg!(not(feature = "oplog-sqlite")) {
            return lacks("oplog-sqlite");
        }
        None
    }

    /// Why the log cannot be written into the SQLite file of [`url`](Self::url), if it cannot. A
    /// file that is not there may be made before the start.
    #[cfg(feature = "oplog-sqlite")]
    pub(super) fn file_fault(&self) -> Option<String> {
        let path = self.url.as_deref().filter(|_| self.is_on())?.strip_prefix("sqlite:")?;
        if !std::path::Path::new(path).exists() {
            return None;
        }
        let log = tidewire_oplog::Oplog::sqlite(path).settings(self.settings());
        log.check_writable().err().map(|error| format!("oplog.url: {error}"))
    }

    #[cfg(not(feature = "oplog-sqlite"))]
    pub(super) fn file_fault(&self) -> Option<String> {
        None
    }

    /// The names of the sources of `[[oplog.capture]]`; none where no log is followed.
    #[must_use]
    pub fn captured_sources(&self) -> BTreeSet<&str> {
        let is_followed = self.url.is_some() && self.is_on();
        let captures = self.capture.iter().filter(|_| is_followed);
        captures.map(|capture| &*capture.source).collect()
    }

    /// The sources of `[[oplog.capture]]`, one for each name, in a graph.
    #[must_use]
    pub fn sources(&self, graph: &Graph) -> Vec<Source<TextKey>> {
        let mut sources: Vec<Source<TextKey>> = Vec::new();
        for capture in &self.capture {
            if !sources.iter().any(|source| source.name() == capture.source) {
                sources.push(Source::new_in(graph, &capture.source));
            }
        }
        sources
    }
}

#[cfg(any(feature = "oplog-postgres", feature = "oplog-sqlite"))]
mod follow {
    use tidewire_oplog::Oplog;

    use super::{CaptureConfig, OplogConfig, Source, TextKey};
    use crate::config::ConfigError;

    impl OplogConfig {
        /// Follows the log of `oplog.url` for these sources; `None` where no URL is set, or it is
        /// off.
        ///
        /// # Errors
        /// A URL that cannot be used; a database that cannot be reached; a table that cannot be
        /// captured.
        pub async fn start(
            &self,
            sources: &[Source<TextKey>],
        ) -> Result<Option<Oplog>, ConfigError> {
            let Some(url) = self.url.as_deref().filter(|_| self.is_on()) else { return Ok(None) };
            if let Some(fault) = self.fault() {
                return Err(ConfigError::new(fault));
            }
            let started = match url.strip_prefix("sqlite:") {
                #[cfg(feature = "oplog-sqlite")]
                Some(path) => self.sqlite(path, sources).start().await,
                #[cfg(not(feature = "oplog-sqlite"))]
                Some(_) => return Ok(None),
                #[cfg(feature = "oplog-postgres")]
                None => self.postgres(url, sources)?.start().await,
                #[cfg(not(feature = "oplog-postgres"))]
                None => return Ok(None),
            };
            started.map(Some).map_err(|error| ConfigError::new(format!("oplog: {error}")))
        }

        /// The statements that make the log of `oplog.url`, for whoever may run them.
        ///
        /// # Errors
        /// As those of [`start`](Self::start); that no URL is set.
        pub async fn ddl(&self, role: Option<&str>) -> Result<String, ConfigError> {
            let Some(url) = self.url.as_deref() else {
                let text = "oplog.url is not set; write it into tidewire.toml, or --set oplog.url=postgres://user@host/name";
                return Err(ConfigError::new(text.to_owned()));
            };
            if let Some(fault) = self.fault() {
                return Err(ConfigError::new(fault));
            }
            if role.is_some() && url.starts_with("sqlite:") {
                let text = "--role: a SQLite file has no roles; leave it out";
                return Err(ConfigError::new(text.to_owned()));
            }
            let sources = self.sources(&tidewire_memo::Graph::new());
            let ddl = match url.strip_prefix("sqlite:") {
                #[cfg(feature = "oplog-sqlite")]
                Some(path) => self.sqlite(path, &sources).ddl(),
                #[cfg(not(feature = "oplog-sqlite"))]
                Some(_) => return Ok(String::new()),
                #[cfg(feature = "oplog-postgres")]
                None => self.postgres(url, &sources)?.ddl(role).await,
                #[cfg(not(feature = "oplog-postgres"))]
                None => return Ok(String::new()),
            };
            ddl.map_err(|error| ConfigError::new(format!("oplog: {error}")))
        }

        #[cfg(feature = "oplog-postgres")]
        fn postgres(
            &self,
            url: &str,
            sources: &[Source<TextKey>],
        ) -> Result<tidewire_oplog::PostgresLog, ConfigError> {
            let log = Oplog::postgres_url(url);
            let log = log.map_err(|error| ConfigError::new(format!("oplog.url: {error}")))?;
            let log = log.settings(self.settings());
            Ok(self.captured(sources).fold(log, |log, (capture, source)| {
                log.capture(&capture.table, source, capture.key.clone())
            }))
        }

        #[cfg(feature = "oplog-sqlite")]
        fn sqlite(&self, path: &str, sources: &[Source<TextKey>]) -> tidewire_oplog::SqliteLog {
            let log = Oplog::sqlite(path).settings(self.settings());
            self.captured(sources).fold(log, |log, (capture, source)| {
                log.capture(&capture.table, source, capture.key.clone())
            })
        }

        fn captured<'a>(
            &'a self,
            sources: &'a [Source<TextKey>],
        ) -> impl Iterator<Item = (&'a CaptureConfig, &'a Source<TextKey>)> {
            self.capture.iter().filter_map(|capture| {
                let source = sources.iter().find(|source| source.name() == capture.source)?;
                Some((capture, source))
            })
        }
    }
}

#[cfg(not(any(feature = "oplog-postgres", feature = "oplog-sqlite")))]
impl OplogConfig {
    /// Follows no log: `None`, where no URL is set or it is off.
    ///
    /// # Errors
    /// A URL, which this program was built without the features for.
    #[expect(clippy::unused_async, reason = "as with the features")]
    pub async fn start(
        &self,
        _: &[Source<TextKey>],
    ) -> Result<Option<tidewire_oplog::Oplog>, super::ConfigError> {
        self.fault().map_or(Ok(None), |fault| Err(super::ConfigError::new(fault)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn oplog(text: &str) -> Result<OplogConfig, String> {
        let config = Config::parse(text, "t.toml").map_err(|error| error.to_string())?;
        Ok(config.oplog)
    }

    #[test]
    fn what_is_set_is_set_and_the_rest_is_as_usual() {
        let config =
            oplog("[oplog]\nlease = \"2s\"\nkey_bytes_max = \"2KiB\"\nwake = false\n").unwrap();
        let settings = config.settings();
        assert_eq!(settings.lease, Duration::from_secs(2));
        assert_eq!((settings.key_bytes_max, settings.wake), (2048, false));
        assert_eq!(settings.poll, Settings::default().poll);
    }

    #[test]
    fn two_tables_may_feed_one_source() {
        let text = "[oplog]\nurl = \"postgres://h/d\"\n\
            [[oplog.capture]]\ntable = \"a\"\nsource = \"s\"\nkey = [\"id\"]\n\
            [[oplog.capture]]\ntable = \"b\"\nsource = \"s\"\nkey = [\"a_id\"]\n\
            [[oplog.capture]]\ntable = \"b\"\nsource = \"t\"\n";
        let names: Vec<_> = oplog(text)
            .unwrap()
            .sources(&Graph::new())
            .iter()
            .map(|it| it.name().to_owned())
            .collect();
        assert_eq!(names, ["s", "t"]);
    }

    #[test]
    fn what_cannot_work_is_said() {
        for (text, expected) in [
            ("[[oplog.capture]]\ntable = \"a\"\nsource = \"s\"\n", "oplog.capture needs oplog.url"),
            ("[oplog]\nurl = \"mysql://secret\"\n", "oplog.url is neither"),
            ("[oplog]\nurl = \"postgres://h/d\"\npoll = \"5s\"\n", "oplog.poll = 5s is not"),
            ("[oplog]\nurl = \"postgres://h/d\"\nschema = \"\"\n", "oplog.schema has 0 bytes"),
        ] {
            let fault = oplog(text).unwrap().fault().unwrap();
            assert!(fault.starts_with(expected) && !fault.contains("secret"), "{fault}");
        }
        assert_eq!(
            oplog("[oplog]\nlease = \"0s\"\n").unwrap_err(),
            "t.toml:2:9: a duration of 0 allows nothing; write 1ms or more"
        );
        assert_eq!(
            oplog("[oplog]\nleese = \"1s\"\n").unwrap_err(),
            "t.toml:2:1: unknown key leese; did you mean lease?"
        );
    }
}
