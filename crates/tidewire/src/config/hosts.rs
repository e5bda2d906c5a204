//! `server.hosts`: names without scheme and port.

use std::net::{IpAddr, Ipv6Addr};

use super::ConfigError;

/// The names as they are compared with what requests ask for.
///
/// # Errors
/// The first that is not a host.
pub(super) fn names(set: &[String]) -> Result<Vec<String>, ConfigError> {
    set.iter().map(|name| host(name)).collect()
}

fn host(text: &str) -> Result<String, ConfigError> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if let Ok(address) = name.parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]"));
    }
    let literal = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_address = literal.unwrap_or(&name).parse::<IpAddr>().is_ok();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(is_part)
    };
    match is_address || labels.split('.').all(is_label) {
        true => Ok(name),
        false => Err(ConfigError::new(format!(
            "server.hosts has {text:?}, which is not a host; write a name without scheme and port \
             (shop.example), all below one (*.shop.example), or * for any host"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_without_scheme_and_port() {
        for (text, expected) in [
            ("Shop.example", "shop.example"),
            ("shop.example.", "shop.example"),
            ("*.shop.example", "*.shop.example"),
            ("*", "*"),
            ("fe80::1", "[fe80::1]"),
            ("[fe80::1]", "[fe80::1]"),
            ("10.0.0.1", "10.0.0.1"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(host(text).unwrap(), expected);
        }
        for text in [
            "",
            "*shop.example",
            "a.*.b",
            "shop.example:8080",
            "http://shop.example",
            "shop..example",
            "shop example",
            "*.",
        ] {
            let error = host(text).unwrap_err().to_string();
            assert!(error.contains("server.hosts") && error.contains("*.shop.example"), "{error}");
        }
    }
}
