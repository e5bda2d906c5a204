//! `[cors]`: which pages of other origins may call from a browser.

use std::time::Duration;

use serde::Deserialize;
use tidewire_server::{Address, Cors};

use super::value;

/// `[cors]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let config = Config::parse("[cors]\norigins = [\"https://app.example\"]\n", "tidewire.toml")?;
/// assert_eq!(config.cors.origins, ["https://app.example"]);
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CorsConfig {
    /// See [`Cors::origins`].
    #[serde(deserialize_with = "value::list")]
    pub origins: Vec<String>,
    /// See [`Cors::credentials`].
    pub credentials: Option<bool>,
    /// See [`Cors::max_age`].
    #[serde(deserialize_with = "value::duration")]
    pub max_age: Option<Duration>,
    /// See [`Cors::headers`].
    #[serde(deserialize_with = "value::list")]
    pub headers: Vec<String>,
    /// See [`Cors::exposed_headers`].
    #[serde(deserialize_with = "value::list")]
    pub exposed_headers: Vec<String>,
}

impl CorsConfig {
    /// What a mock allows where nothing else is set: pages of this machine, with any header.
    pub fn or_of_mock(&mut self) {
        for (list, word) in [
            (&mut self.origins, "loopback"),
            (&mut self.headers, "*"),
            (&mut self.exposed_headers, "*"),
        ] {
            if list.is_empty() {
                list.push(word.to_owned());
            }
        }
    }

    /// What `serve --dev` allows where no origin is set: the same as a mock, if nothing is opened
    /// by it that a browser has credentials for. Pages of this machine come from any program of it.
    /// Their cookies count for nothing, but a client certificate would; a listener that others
    /// reach is not for development; and programs and upstreams that answer plain HTTP may decide
    /// otherwise who may call.
    pub fn or_of_development(config: &mut super::Config) {
        config.is_of_development = true;
        let has_routes = config.programs().any(|program| !program.routes.is_empty())
            || config.upstreams().next().is_some();
        let is_local = config.server.listen.iter().all(Address::is_local);
        let has_certificates = config.auth.certificates == Some(true);
        if config.cors.origins.is_empty() && is_local && !has_certificates && !has_routes {
            config.cors.or_of_mock();
        }
    }

    /// The settings: defaults where nothing is set.
    pub(super) fn cors(&self) -> Cors {
        let mut cors = Cors::new(self.origins.iter().cloned());
        cors.credentials = self.credentials.unwrap_or(cors.credentials);
        cors.max_age = self.max_age.unwrap_or(cors.max_age);
        cors.headers.clone_from(&self.headers);
        cors.exposed_headers.clone_from(&self.exposed_headers);
        cors
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn what_is_set_is_set_and_the_rest_stays_as_it_is() {
        let text = "[cors]\norigins = [\"https://a.example\"]\ncredentials = true\n\
                    max_age = \"10m\"\nheaders = \"x-a, x-b\"\n";
        let cors = Config::parse(text, "t.toml").unwrap().cors.cors();
        let mut expected = Cors::new(["https://a.example"]);
        expected.credentials = true;
        expected.max_age = Duration::from_secs(600);
        expected.headers = vec!["x-a".to_owned(), "x-b".to_owned()];
        assert_eq!(cors, expected);
        assert_eq!(CorsConfig::default().cors(), Cors::default());
    }

    #[test]
    fn in_development_pages_of_this_machine_may_call_where_that_opens_nothing() {
        for (text, expected) in [
            ("", &["loopback"][..]),
            ("[cors]\norigins = [\"https://a.example\"]\n", &["https://a.example"]),
            ("[server]\nlisten = \"0.0.0.0:8080\"\n", &[]),
            ("[auth]\ncertificates = true\n", &[]),
            ("[[service]]\nurl = \"http://127.0.0.1:1\"\nroute = \"/*\"\n", &[]),
        ] {
            let mut config = Config::parse(text, "t.toml").unwrap();
            CorsConfig::or_of_development(&mut config);
            assert_eq!(config.cors.origins, expected, "{text}");
        }
    }

    #[test]
    fn a_variable_takes_several_origins() {
        let origins = "https://a.example, https://b.example".to_owned();
        let env = [("TIDEWIRE_CORS_ORIGINS".to_owned(), origins)];
        let config = Config::load(None, env, &[]).unwrap();
        assert_eq!(config.cors.origins, ["https://a.example", "https://b.example"]);
        assert!(config.server().is_ok());
    }

    #[test]
    fn all_origins_with_credentials_are_refused_by_both_their_keys() {
        let text = "[cors]\norigins = [\"*\"]\ncredentials = true\n";
        let error = Config::parse(text, "t.toml").unwrap().server().unwrap_err().to_string();
        assert!(
            error.starts_with("cors.origins = \"*\" and cors.credentials = true exclude each"),
            "{error}"
        );
    }
}
