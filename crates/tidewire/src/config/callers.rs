//! From which addresses calls are taken, and which proxies are believed.

use tidewire_server::{CallerAddresses, NetworkError};

use super::{ConfigError, ServerConfig};

impl ServerConfig {
    /// `server.allow`, `server.deny` and `server.trusted_proxies`.
    pub(super) fn callers(&self) -> Result<CallerAddresses, ConfigError> {
        let texts = |list: &'static str| {
            move |error: NetworkError| ConfigError::new(format!("server.{list}: {error}"))
        };
        let callers = CallerAddresses::default();
        let callers = callers.allow(names(&self.allow)).map_err(texts("allow"))?;
        let callers = callers.deny(names(&self.deny)).map_err(texts("deny"))?;
        callers.trust(names(&self.trusted_proxies)).map_err(texts("trusted_proxies"))
    }
}

fn names(list: &[String]) -> impl Iterator<Item = &str> {
    list.iter().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn a_list_is_of_addresses_and_networks_and_says_which_is_not() {
        let right = "[server]\nallow = [\"10.0.0.0/8\"]\ndeny = [\"10.0.0.7\"]\n\
                     trusted_proxies = [\"::1\", \"unix\"]\n";
        assert!(Config::parse(right, "t").unwrap().server().is_ok());
        for (key, value) in [
            ("allow", "10.0.0"),
            ("deny", "shop.example"),
            ("deny", "unix"),
            ("trusted_proxies", "10.0.0.0/40"),
        ] {
            let error = Config::parse(&format!("[server]\n{key} = [\"{value}\"]\n"), "t");
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains(&format!("{value:?} is not an address or a network")),
                "{error}"
            );
        }
    }
}
