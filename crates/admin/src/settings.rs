//! Settings as they are shown: with where each comes from, and no secret.

use crate::redact::{has_credential, is_secret};

/// One setting, its value, and where that comes from.
///
/// ```
/// # mod tidewire { pub mod admin { pub use tidewire_admin::*; } }
/// use tidewire::admin::Setting;
///
/// let about = "How many orders are packed at once.";
/// let setting = Setting::new("shop.packers", "4", "SHOP_PACKERS", about);
/// assert_eq!(setting.origin, "SHOP_PACKERS");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its path, `server.listen`.
    pub key: String,
    /// Its value as text.
    pub value: String,
    /// `default`, a file, a variable, `flag`, or `admin` where it was set at the admin listener.
    pub origin: String,
    /// What it does.
    pub about: String,
}

impl Setting {
    /// A setting; the value of one whose name or whose value speaks of a secret is shown as `set`.
    pub fn new(key: &str, value: &str, origin: &str, about: &str) -> Self {
        let last = key.rsplit('.').next().unwrap_or_default();
        let value = if is_secret(last) || has_credential(value) { "set" } else { value };
        Self {
            key: key.to_owned(),
            value: value.to_owned(),
            origin: origin.to_owned(),
            about: about.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_shown_as_set() {
        for (key, value, shown) in [
            ("limits.streams_max", "8", "8"),
            ("auth.api_key_header", "x-api-key", "x-api-key"),
            ("admin.token_file", "/run/token", "/run/token"),
            ("a.password", "hunter2", "set"),
            ("a.client_secret", "hunter2", "set"),
            ("store.url", "postgres://ada:hunter2@db/shop", "set"),
            ("auth.jwt.keys", "https://id.example/a@b", "https://id.example/a@b"),
        ] {
            assert_eq!(Setting::new(key, value, "default", "").value, shown, "{key}");
        }
    }
}
