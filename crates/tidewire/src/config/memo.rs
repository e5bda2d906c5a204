//! `[memo]`: for how long and for whom answers are kept, in general and for single methods.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use tidewire_cache::{CacheSetting, MethodOverride, PageCache, ReplyCache};
use tidewire_memo::Graph;
use tidewire_proxy::TokioPages;
use tidewire_service::{CacheScope, Caching};

use super::{Part, value};

/// `[memo]`.
///
/// ```
/// use std::time::Duration;
/// use tidewire::config::Config;
///
/// let text = "[memo]\nbudget_bytes = \"256MiB\"\ncaller_ttl = \"10s\"\n";
/// let memo = Config::parse(text, "tidewire.toml")?.memo;
/// assert_eq!(memo.budget_bytes, Some(256 * 1024 * 1024));
/// assert_eq!(memo.caller_ttl, Some(Duration::from_secs(10)));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MemoConfig {
    /// Whether answers are kept; on unless set.
    pub enabled: Option<bool>,
    /// See [`Graph::set_budget`].
    #[serde(deserialize_with = "value::bytes")]
    pub budget_bytes: Option<usize>,
    /// See [`ReplyCache::caller_ttl`].
    #[serde(deserialize_with = "value::duration")]
    pub caller_ttl: Option<Duration>,
    /// See [`ReplyCache::compute_timeout`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub compute_timeout: Option<Duration>,
    /// Whether nobody else writes to what sources of this program stand for; see
    /// [`Graph::set_external_life`].
    pub single_writer: Option<bool>,
    /// See [`ReplyCache::key_bytes_max`].
    #[serde(deserialize_with = "value::bytes")]
    pub key_bytes_max: Option<usize>,
    /// See [`ReplyCache::reply_bytes_max`].
    #[serde(deserialize_with = "value::bytes")]
    pub reply_bytes_max: Option<usize>,
    /// See [`ReplyCache::forms_bytes_max`].
    #[serde(deserialize_with = "value::bytes")]
    pub forms_bytes_max: Option<usize>,
    /// See [`PageCache::bytes_max`](tidewire_cache::PageCache::bytes_max).
    #[serde(deserialize_with = "value::bytes")]
    pub pages_bytes_max: Option<usize>,
    /// See [`ReplyCache::verify`]; one of 16 in a debug build, else none, unless set.
    pub verify: Option<Part>,
    /// See [`Caching::max_age`].
    #[serde(deserialize_with = "value::seconds")]
    pub max_age: Option<u64>,
    /// See [`Caching::stale_while_revalidate`].
    #[serde(deserialize_with = "value::seconds")]
    pub stale_while_revalidate: Option<u64>,
    /// See [`Caching::stale_if_error`].
    #[serde(deserialize_with = "value::seconds")]
    pub stale_if_error: Option<u64>,
    /// `[memo.methods."shop.v1.Items/Get"]`: what holds for single methods; by a service's name,
    /// `[memo.methods."shop.v1.Items/*"]`, for all its queries.
    pub methods: BTreeMap<String, MemoMethodConfig>,
}

/// `[memo.methods."shop.v1.Items/Get"]`; what is not set is as the method's `.proto` says.
///
/// ```
/// use std::time::Duration;
/// use tidewire::config::Config;
///
/// let text = "[memo.methods.\"shop.v1.Items/Get\"]\ncache = \"public\"\nttl = \"30s\"\n";
/// let memo = Config::parse(text, "tidewire.toml")?.memo;
/// assert_eq!(memo.methods["shop.v1.Items/Get"].ttl, Some(Duration::from_secs(30)));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct MemoMethodConfig {
    /// Whether replies are cached, and for whom: `public`, `caller`, a list of request headers in
    /// lower case, or `off`.
    #[serde(deserialize_with = "cache")]
    pub cache: Option<CacheSetting>,
    /// See [`MethodOverride::ttl`].
    #[serde(deserialize_with = "value::positive_duration")]
    pub ttl: Option<Duration>,
    /// See [`MethodOverride::immutable`].
    pub immutable: Option<bool>,
    /// See [`MethodOverride::coalesce`].
    pub coalesce: Option<bool>,
    /// See [`Caching::max_age`].
    #[serde(deserialize_with = "value::seconds")]
    pub max_age: Option<u64>,
    /// See [`Caching::stale_while_revalidate`].
    #[serde(deserialize_with = "value::seconds")]
    pub stale_while_revalidate: Option<u64>,
    /// See [`Caching::stale_if_error`].
    #[serde(deserialize_with = "value::seconds")]
    pub stale_if_error: Option<u64>,
}

impl super::Config {
    /// What `memo.single_writer` beside a change log means, which is for what others write.
    pub fn single_writer_doubt(&self) -> Option<&'static str> {
        let is_followed = self.oplog.is_on() && self.oplog.url.is_some();
        let is_single = self.memo.is_on() && self.memo.single_writer == Some(true);
        (is_followed && is_single).then_some(SINGLE_WRITER_DOUBT)
    }
}

/// See [`single_writer_doubt`](super::Config::single_writer_doubt).
const SINGLE_WRITER_DOUBT: &str = "memo.single_writer = true beside [oplog]: replies that depend on what \
                                   [[oplog.capture]] does not name never expire, so what another process \
                                   writes there, or what a host that was killed did not say, stays old; \
                                   leave it out, or capture the tables";

impl MemoConfig {
    /// Whether answers are kept.
    pub fn is_on(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    /// What is kept and for how long, for the line that a program prints at start.
    pub fn summary(&self, answers: Answers) -> &'static str {
        match (self.is_on(), answers, self.single_writer.unwrap_or(false)) {
            (false, ..) => "answers are not kept (memo.enabled = false)",
            (true, Answers::Announced, _) => {
                "replies are cached until this process changes their dependencies; what other \
                 processes change is not noticed"
            }
            (true, Answers::Logged, _) => {
                "replies are cached until their dependencies change, as the change log tells"
            }
            (true, Answers::Captured, true) => {
                "replies are cached until their dependencies change: captured sources by whoever \
                 writes, others by this program (memo.single_writer = true)"
            }
            (true, Answers::Captured, false) => {
                "replies are cached until their dependencies change: captured sources by whoever \
                 writes; for 5 s at most where they depend on others, which may change unseen \
                 (memo.single_writer = true if no other process writes these)"
            }
            (true, Answers::External, true) => {
                "replies are cached until this program changes their dependencies \
                 (memo.single_writer = true)"
            }
            (true, Answers::External, false) => {
                "replies are cached until their dependencies change, and for 5 s at most since \
                 others may write to the database (memo.single_writer = true if no other process does)"
            }
        }
    }

    /// The pages that are kept of programs and upstreams.
    pub(super) fn page_cache(&self) -> PageCache {
        let pages = PageCache::new(TokioPages::default());
        match self.pages_bytes_max {
            Some(bytes) => pages.bytes_max(bytes),
            None => pages,
        }
    }

    /// What keeps answers, in `graph`; `None` where it is off.
    pub(super) fn reply_cache(&self, graph: &Graph) -> Option<ReplyCache> {
        if !self.is_on() {
            return None;
        }
        if let Some(bytes) = self.budget_bytes {
            graph.set_budget(bytes);
        }
        if self.single_writer == Some(true) {
            graph.set_external_life(None);
        }
        let mut cache = ReplyCache::new(graph).caching(Caching {
            max_age: self.max_age,
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
        });
        let usual = if cfg!(debug_assertions) { 1.0 / 16.0 } else { 0.0 };
        cache = cache.verify(self.verify.map_or(usual, Part::get));
        if let Some(life) = self.caller_ttl {
            cache = cache.caller_ttl(life);
        }
        if let Some(timeout) = self.compute_timeout {
            cache = cache.compute_timeout(timeout);
            graph.set_write_limit(timeout);
        }
        if let Some(bytes) = self.key_bytes_max {
            cache = cache.key_bytes_max(bytes);
        }
        if let Some(bytes) = self.reply_bytes_max {
            cache = cache.reply_bytes_max(bytes);
        }
        if let Some(bytes) = self.forms_bytes_max {
            cache = cache.forms_bytes_max(bytes);
        }
        for (name, method) in &self.methods {
            cache = cache.method(name, method.terms());
        }
        Some(cache)
    }
}

/// Whose changes the sources of a program hear of; see
/// [`Source::external`](tidewire_memo::Source::external).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Everybody's.
    Announced,
    /// Everybody's, where a change log of the database tells of them.
    Logged,
    /// Everybody's of the sources that `[[oplog.capture]]` names, and this program's of others.
    Captured,
    /// This program's only.
    External,
}

impl MemoMethodConfig {
    fn terms(&self) -> MethodOverride {
        let mut terms = MethodOverride::default();
        terms.cache.clone_from(&self.cache);
        terms.ttl = self.ttl;
        terms.immutable = self.immutable;
        terms.coalesce = self.coalesce;
        terms.caching = Caching {
            max_age: self.max_age,
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
        };
        terms
    }
}

/// `"public"`, `"caller"`, names of headers, or `"off"`.
fn cache<'de, D: Deserializer<'de>>(input: D) -> Result<Option<CacheSetting>, D::Error> {
    const WORDS: &str =
        "write \"public\", \"caller\", a list of request headers in lower case, or \"off\"";
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Setting {
        Word(String),
        Headers(Vec<String>),
    }

    let is_header = |name: &String| {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        !name.is_empty() && name.chars().all(allowed)
    };
    let setting = match Setting::deserialize(input) {
        Ok(Setting::Word(word)) if word == "off" => CacheSetting::Off,
        Ok(Setting::Word(word)) if word == "public" => CacheSetting::On(CacheScope::Public),
        Ok(Setting::Word(word)) if word == "caller" => CacheSetting::On(CacheScope::Caller),
        Ok(Setting::Word(word)) => {
            return Err(D::Error::custom(format!("unknown cache {word:?}; {WORDS}")));
        }
        Ok(Setting::Headers(names)) => match names.iter().find(|name| !is_header(name)) {
            Some(name) => {
                let text = format!("{name:?} is not a header name in lower case; {WORDS}");
                return Err(D::Error::custom(text));
            }
            None if names.is_empty() => {
                return Err(D::Error::custom(format!("the list of headers is empty; {WORDS}")));
            }
            None => CacheSetting::On(CacheScope::vary_dynamic(names)),
        },
        Err(_) => return Err(D::Error::custom(format!("not a cache setting; {WORDS}"))),
    };
    Ok(Some(setting))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn memo(text: &str) -> Result<MemoConfig, String> {
        let config = Config::parse(text, "t.toml").map_err(|error| error.to_string())?;
        Ok(config.memo)
    }

    #[test]
    fn it_is_on_unless_it_is_switched_off() {
        assert!(memo("").unwrap().reply_cache(&Graph::new()).is_some());
        assert!(memo("[memo]\nenabled = false\n").unwrap().reply_cache(&Graph::new()).is_none());
    }

    #[test]
    fn what_is_set_for_a_method_is_set_and_the_rest_stays_as_its_proto_says() {
        let text = "[memo.methods.\"a.B/Get\"]\ncache = [\"x-tenant\"]\nttl = \"90s\"\n\
                    max_age = 5\n[memo.methods.\"a.B/List\"]\nimmutable = false\n";
        let memo = memo(text).unwrap();
        let get = memo.methods["a.B/Get"].terms();
        let tenant = CacheScope::vary_dynamic(vec!["x-tenant".to_owned()]);
        assert_eq!(get.cache, Some(CacheSetting::On(tenant)));
        assert_eq!(get.ttl, Some(Duration::from_secs(90)));
        assert_eq!((get.immutable, get.coalesce, get.caching.max_age), (None, None, Some(5)));
        let mut list = MethodOverride::default();
        list.immutable = Some(false);
        assert_eq!(memo.methods["a.B/List"].terms(), list);
    }

    #[test]
    fn what_cannot_work_is_named_with_what_can() {
        let method = "[memo.methods.\"a.B/Get\"]\n";
        for (text, expected) in [
            (
                format!("{method}cache = \"all\"\n"),
                "t.toml:2:9: unknown cache \"all\"; write \"public\", \"caller\", a list of request \
                 headers in lower case, or \"off\"",
            ),
            (
                format!("{method}cache = [\"X-Tenant\"]\n"),
                "t.toml:2:9: \"X-Tenant\" is not a header name in lower case; write \"public\", \
                 \"caller\", a list of request headers in lower case, or \"off\"",
            ),
            (
                format!("{method}ttl = 0\n"),
                "t.toml:2:7: a duration of 0 allows nothing; write 1ms or more",
            ),
            (
                format!("{method}max_age = \"1500ms\"\n"),
                "t.toml:2:11: caches count whole seconds; write \"1s\" or \"2s\"",
            ),
            (
                format!("{method}imutable = true\n"),
                "t.toml:2:1: unknown key imutable; did you mean immutable?",
            ),
            (
                "[memo]\ncompute_timeout = \"0s\"\n".to_owned(),
                "t.toml:2:19: a duration of 0 allows nothing; write 1ms or more",
            ),
        ] {
            assert_eq!(memo(&text).unwrap_err(), expected);
        }
    }

    #[test]
    fn the_line_at_start_says_how_long_answers_live() {
        let on = MemoConfig::default();
        let single = MemoConfig { single_writer: Some(true), ..MemoConfig::default() };
        let off = MemoConfig { enabled: Some(false), ..MemoConfig::default() };
        for (config, answers, says) in [
            (&on, Answers::Announced, "until this process changes their dependencies"),
            (&on, Answers::External, "for 5 s at most"),
            (&on, Answers::Logged, "as the change log tells"),
            (&on, Answers::Captured, "5 s at most where they depend on others"),
            (&single, Answers::Captured, "others by this program"),
            (&single, Answers::External, "memo.single_writer = true)"),
            (&off, Answers::External, "not kept"),
        ] {
            assert!(config.summary(answers).contains(says), "{says}");
        }
    }
}
