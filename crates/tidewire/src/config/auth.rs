//! `[auth]`: who is known, and who may call what.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use http::HeaderName;
use serde::Deserialize;
use tidewire_auth::{ApiKeys, Authentication};
use tidewire_rest::SecurityScheme;
use tidewire_server::{AccessRules, Builder};
use tidewire_service::{Access, Method, Principal};

use super::{ConfigError, value};

/// `[auth]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = r#"
/// [auth.jwt]
/// issuer = "https://id.example"
/// audience = "shop"
/// keys = "https://id.example/keys"
///
/// [auth.methods]
/// "shop.v1.Orders/*" = { scopes = ["orders"] }
/// "#;
/// let auth = Config::parse(text, "tidewire.toml")?.auth;
/// assert_eq!(auth.jwt.map(|jwt| jwt.audience).as_deref(), Some("shop"));
/// assert!(auth.methods.contains_key("shop.v1.Orders/*"));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct AuthConfig {
    /// Who may call what no rule is for; who is authenticated where anybody is known, else
    /// everybody.
    pub otherwise: Option<AccessSetting>,
    /// Who may read the schema by reflection and `/openapi.json`, where these are on; as
    /// `otherwise` unless set.
    pub reflection: Option<AccessSetting>,
    /// Whether client certificates say who calls.
    pub certificates: Option<bool>,
    /// The header of API keys.
    pub api_key_header: Option<String>,
    /// `[auth.jwt]`: bearer tokens of an issuer.
    pub jwt: Option<JwtConfig>,
    /// `[[auth.api_key]]`: keys, as hashes.
    #[serde(rename = "api_key")]
    pub api_keys: Vec<ApiKeyConfig>,
    /// `[auth.methods."shop.v1.Items/Get"]`: rules for methods and services.
    pub methods: BTreeMap<String, AccessConfig>,
    /// `[auth.paths."/assets/*"]`: rules for plain HTTP.
    pub paths: BTreeMap<String, AccessConfig>,
    /// See [`AuthConfig::or_of_mock`].
    #[serde(skip)]
    ignores_declared: bool,
}

/// `[auth.jwt]`.
///
/// ```
/// use std::time::Duration;
/// use tidewire::config::Config;
///
/// let text = r#"
/// [auth.jwt]
/// issuer = "https://id.example"
/// audience = "shop"
/// keys = "https://id.example/keys"
/// leeway = "5s"
/// "#;
/// let jwt = Config::parse(text, "tidewire.toml")?.auth.jwt.expect("it is there");
/// assert_eq!(jwt.leeway, Some(Duration::from_secs(5)));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JwtConfig {
    /// What tokens have as `iss`.
    pub issuer: String,
    /// What they have among `aud`.
    pub audience: String,
    /// The issuer's keys (JWKS): a file, or an address to get them from.
    pub keys: String,
    /// PEM file of the authorities to trust at that address; the system's when left out.
    #[serde(default)]
    pub authorities: Option<PathBuf>,
    /// How old keys may become.
    #[serde(default, deserialize_with = "value::positive_duration")]
    pub refresh: Option<Duration>,
    /// How far the issuer's clock may be off.
    #[serde(default, deserialize_with = "value::duration")]
    pub leeway: Option<Duration>,
}

/// `[[auth.api_key]]`.
///
/// ```
/// use tidewire::config::Config;
///
/// let text = r#"
/// [[auth.api_key]]
/// subject = "reports"
/// sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
/// scopes = ["orders.read"]
/// "#;
/// let auth = Config::parse(text, "tidewire.toml")?.auth;
/// assert_eq!(auth.api_keys[0].subject, "reports");
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ApiKeyConfig {
    /// Whose it is.
    pub subject: String,
    /// The SHA-256 of it in hexadecimal digits.
    pub sha256: String,
    /// What its owner is allowed to do.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Who may call, as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessSetting {
    /// Everybody.
    Anonymous,
    /// Everybody who is known.
    Authenticated,
}

/// A rule of whoever may call: `access` or `scopes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "AccessFields")]
pub struct AccessConfig(Access);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessFields {
    access: Option<AccessSetting>,
    #[serde(default)]
    scopes: Vec<String>,
}

impl TryFrom<AccessFields> for AccessConfig {
    type Error = &'static str;

    fn try_from(fields: AccessFields) -> Result<Self, Self::Error> {
        match (fields.access, fields.scopes.is_empty()) {
            (None, true) => Err("write access = \"anonymous\", \"authenticated\", or scopes"),
            (Some(AccessSetting::Anonymous), false) => Err("anonymous callers have no scopes"),
            (Some(access), true) => Ok(Self(access.into())),
            (_, false) => Ok(Self(Access::scopes_dynamic(fields.scopes))),
        }
    }
}

impl From<AccessSetting> for Access {
    fn from(setting: AccessSetting) -> Self {
        match setting {
            AccessSetting::Anonymous => Self::Anonymous,
            AccessSetting::Authenticated => Self::Authenticated,
        }
    }
}

impl AuthConfig {
    /// What a mock does where no kind of credential is set: it answers everybody, whatever rules
    /// the `.proto` files declare. Returns whether it is so.
    pub fn or_of_mock(&mut self) -> bool {
        self.ignores_declared = !self.is_on();
        self.ignores_declared
    }

    /// The paths of methods that nobody can call: their rule asks for a credential, and no kind of
    /// credential is set. A gate of a program's own may find out who calls, of which this knows
    /// nothing.
    pub fn unreachable<'m>(&self, methods: impl IntoIterator<Item = &'m Method>) -> Vec<&'m str> {
        if self.is_on() || self.ignores_declared {
            return Vec::new();
        }
        let asks = |method: &&Method| {
            let service = format!("{}/*", method.service);
            let path = method.path.trim_start_matches('/');
            let set = self.methods.get(path).or_else(|| self.methods.get(&service));
            let rule = set.map(|rule| &rule.0).or(method.access.as_ref());
            rule.is_some_and(|rule| *rule != Access::Anonymous)
        };
        methods.into_iter().filter(asks).map(|method| &*method.path).collect()
    }

    /// Whether anybody can be known.
    fn is_on(&self) -> bool {
        self.jwt.is_some() || !self.api_keys.is_empty() || self.certificates == Some(true)
    }

    /// The server with what finds out who calls, and the rules of whoever may.
    pub(super) fn apply(&self, mut builder: Builder) -> Result<Builder, ConfigError> {
        if let Some(authentication) = self.authentication()? {
            builder = builder.gate(authentication);
        }
        Ok(builder.access(self.rules()))
    }

    /// The rules of another, for whom this knows.
    pub(super) fn with_rules_of(&self, other: &Self) -> Self {
        let Self { otherwise, reflection, methods, paths, .. } = other.clone();
        Self { otherwise, reflection, methods, paths, ..self.clone() }
    }

    pub(super) fn rules(&self) -> AccessRules {
        let mut rules = AccessRules::default();
        if self.ignores_declared {
            rules = rules.without_declared();
        }
        let known = self.is_on().then_some(AccessSetting::Authenticated);
        if let Some(otherwise) = self.otherwise.or(known) {
            rules = rules.otherwise(otherwise.into());
        }
        if let Some(reflection) = self.reflection {
            rules = rules.reflection(reflection.into());
        }
        for (name, rule) in &self.methods {
            rules = rules.method(name, rule.0.clone());
        }
        for (path, rule) in &self.paths {
            rules = rules.path(path, rule.0.clone());
        }
        rules
    }

    /// How callers say who they are, for `/openapi.json`.
    pub(super) fn schemes(&self) -> Result<Vec<SecurityScheme>, ConfigError> {
        let keys = self.key_header()?.map(|header| SecurityScheme::ApiKey(header.to_string()));
        let tokens = self.jwt.as_ref().map(|_| SecurityScheme::Bearer);
        let certificates = self.certificates == Some(true);
        let certificates = certificates.then_some(SecurityScheme::Certificate);
        Ok(tokens.into_iter().chain(keys).chain(certificates).collect())
    }

    /// What finds out who calls; `None` where nobody can be known.
    pub(super) fn authentication(&self) -> Result<Option<Authentication>, ConfigError> {
        if !self.is_on() {
            return Ok(None);
        }
        let mut authentication = Authentication::new(SystemTime::now);
        if let Some(jwt) = &self.jwt {
            authentication = jwt.apply(authentication)?;
        }
        if let Some(header) = self.key_header()? {
            authentication = authentication.api_keys(self.keys(header)?);
        }
        if self.certificates == Some(true) {
            authentication = certificates(authentication)?;
        }
        Ok(Some(authentication))
    }

    /// The header of API keys, where there are any.
    ///
    /// # Errors
    /// A setting that is not a header name.
    pub(super) fn key_header(&self) -> Result<Option<HeaderName>, ConfigError> {
        if self.api_keys.is_empty() {
            return Ok(None);
        }
        let name = self.api_key_header.as_deref().unwrap_or("x-api-key");
        let header = name.parse().map_err(|_| {
            ConfigError::new(format!("auth.api_key_header = {name:?} is not a header name"))
        })?;
        Ok(Some(header))
    }

    fn keys(&self, header: HeaderName) -> Result<ApiKeys, ConfigError> {
        let mut keys = ApiKeys::new(header);
        for key in &self.api_keys {
            let owner = Principal::new("api-key", &*key.subject);
            let owner = key.scopes.iter().fold(owner, |owner, scope| owner.with_scope(scope));
            keys = keys.key(&key.sha256, owner).map_err(|error| {
                ConfigError::new(format!("auth.api_key of {:?}: {error}", key.subject))
            })?;
        }
        Ok(keys)
    }
}

#[cfg(feature = "jwt")]
impl JwtConfig {
    fn apply(&self, authentication: Authentication) -> Result<Authentication, ConfigError> {
        use tidewire_auth::{Issuer, Keys, TokenRequirements};
        let mut expected = TokenRequirements::new(&*self.issuer, &*self.audience);
        if let Some(leeway) = self.leeway {
            expected = expected.leeway(leeway);
        }
        let mut keys = match crate::keys::of_address(self)? {
            Some(remote) => Keys::new(remote),
            None => {
                // Looked at again within a second, so that a rotation or a mend is seen.
                let second = Duration::from_secs(1);
                Keys::new(crate::keys::File::new(&self.keys)).refresh(second).retry(second)
            }
        };
        if let Some(refresh) = self.refresh {
            keys = keys.refresh(refresh);
        }
        Ok(authentication.issuer(Issuer::new(expected, keys)))
    }
}

#[cfg(not(feature = "jwt"))]
impl JwtConfig {
    fn apply(&self, _: Authentication) -> Result<Authentication, ConfigError> {
        Err(ConfigError::new("auth.jwt: this program was built without the feature jwt".into()))
    }
}

#[cfg(feature = "tls")]
fn certificates(authentication: Authentication) -> Result<Authentication, ConfigError> {
    Ok(authentication.certificates())
}

#[cfg(not(feature = "tls"))]
fn certificates(_: Authentication) -> Result<Authentication, ConfigError> {
    Err(ConfigError::new(
        "auth.certificates: this program was built without the feature tls".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn auth(text: &str) -> Result<AuthConfig, String> {
        let config = Config::parse(text, "t.toml").map_err(|error| error.to_string())?;
        config.auth.authentication().map_err(|error| error.to_string())?;
        Ok(config.auth)
    }

    #[test]
    fn where_nobody_can_be_known_everybody_may_and_else_who_is_known() {
        assert_eq!(auth("").unwrap().rules(), AccessRules::default());
        let known = AccessRules::default().otherwise(Access::Authenticated);
        assert_eq!(auth("[auth]\ncertificates = true\n").unwrap().rules(), known);
        let open = AccessRules::default().otherwise(Access::Anonymous);
        let text = "[auth]\ncertificates = true\notherwise = \"anonymous\"\n";
        assert_eq!(auth(text).unwrap().rules(), open);
    }

    #[test]
    fn what_cannot_work_is_named_with_what_can() {
        let rule = "[auth.methods.\"a.B/Get\"]\n";
        for (text, expected) in [
            (format!("{rule}access = \"public\"\n"), "t.toml:2:10: unknown variant `public`"),
            (rule.to_owned(), "t.toml:1:1: write access = \"anonymous\""),
            (
                format!("{rule}access = \"anonymous\"\nscopes = [\"a\"]\n"),
                "t.toml:1:1: anonymous callers have no scopes",
            ),
            (
                "[[auth.api_key]]\nsubject = \"ci\"\nsha256 = \"secret\"\n".to_owned(),
                "auth.api_key of \"ci\": write the SHA-256 of the key as 64 hexadecimal digits",
            ),
            (
                "[auth.jwt]\nissuer = \"a\"\naudience = \"b\"\nkeys = \"http://id.example/jwks\"\n"
                    .to_owned(),
                "auth.jwt.keys = \"http://id.example/jwks\": keys fetched over http://",
            ),
        ] {
            let error = auth(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
