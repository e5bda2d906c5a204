//! `[rest]`: how REST requests are read and replies are printed.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidewire_rest::{
    Defaults, ErrorFormat, FieldNames, Int64, JsonOptions, RestOptions, UnknownNames,
};

/// `[rest]`.
///
/// ```
/// use tidewire::config::{Config, ErrorsSetting};
///
/// let config = Config::parse("[rest]\nerrors = \"problem\"\n", "tidewire.toml")?;
/// assert_eq!(config.rest.errors, Some(ErrorsSetting::Problem));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RestConfig {
    /// What errors look like.
    pub errors: Option<ErrorsSetting>,
    /// Whether fields with their default value are printed.
    pub defaults: Option<DefaultsSetting>,
    /// How 64-bit integers are printed.
    pub int64: Option<Int64Setting>,
    /// How fields are named.
    pub names: Option<NamesSetting>,
    /// What happens with query parameters that name no field.
    pub unknown_parameters: Option<UnknownSetting>,
    /// What happens with members of a JSON body that name no field.
    pub unknown_members: Option<UnknownSetting>,
    /// See [`RestOptions::query_parameters_max`].
    pub query_parameters_max: Option<usize>,
    /// See [`RestOptions::compression`].
    pub compression: Option<bool>,
    /// See [`RestOptions::openapi`].
    pub openapi: Option<bool>,
    /// See [`RestOptions::title`].
    pub title: Option<String>,
    /// See [`RestOptions::version`].
    pub version: Option<String>,
    /// `[rest.services."shop.v1.Contacts"]`: how replies of single services are printed.
    pub services: BTreeMap<String, RestServiceConfig>,
}

/// `[rest.services."shop.v1.Contacts"]`; what is not set is as for all services.
///
/// ```
/// use tidewire::config::{Config, NamesSetting};
///
/// let text = "[rest.services.\"shop.v1.Contacts\"]\nnames = \"original\"\n";
/// let rest = Config::parse(text, "tidewire.toml")?.rest;
/// assert_eq!(rest.services["shop.v1.Contacts"].names, Some(NamesSetting::Original));
/// # Ok::<(), tidewire::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RestServiceConfig {
    /// As in [`RestConfig`].
    pub defaults: Option<DefaultsSetting>,
    /// As in [`RestConfig`].
    pub int64: Option<Int64Setting>,
    /// As in [`RestConfig`].
    pub names: Option<NamesSetting>,
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident = $target:ident { $($word:ident),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[non_exhaustive]
        pub enum $name {
            $(
                #[doc = concat!("[`", stringify!($target), "::", stringify!($word), "`].")]
                $word,
            )*
        }

        impl From<$name> for $target {
            fn from(setting: $name) -> Self {
                match setting {
                    $($name::$word => Self::$word,)*
                }
            }
        }
    )*};
}

settings! {
    /// `rest.errors`.
    ErrorsSetting = ErrorFormat { Connect, Problem }
    /// `rest.defaults`.
    DefaultsSetting = Defaults { Printed, Omitted }
    /// `rest.int64`.
    Int64Setting = Int64 { Number, Text }
    /// `rest.names`.
    NamesSetting = FieldNames { Json, Original }
    /// `rest.unknown_parameters` and `rest.unknown_members`.
    UnknownSetting = UnknownNames { Refused, Ignored }
}

impl RestConfig {
    /// The options: defaults where nothing is set.
    pub(super) fn options(&self) -> RestOptions {
        let mut options = RestOptions::default();
        let all =
            RestServiceConfig { defaults: self.defaults, int64: self.int64, names: self.names };
        options.json = all.over(options.json);
        for (name, service) in &self.services {
            options.services.insert(name.clone(), service.over(options.json));
        }
        options.errors = self.errors.map_or(options.errors, Into::into);
        options.unknown_parameters =
            self.unknown_parameters.map_or(options.unknown_parameters, Into::into);
        options.unknown_members = self.unknown_members.map_or(options.unknown_members, Into::into);
        options.query_parameters_max =
            self.query_parameters_max.unwrap_or(options.query_parameters_max);
        options.compression = self.compression.unwrap_or(options.compression);
        options.openapi = self.openapi;
        options.title.clone_from(&self.title);
        options.version = self.version.clone().unwrap_or(options.version);
        options
    }
}

impl RestServiceConfig {
    fn over(&self, base: JsonOptions) -> JsonOptions {
        JsonOptions {
            defaults: self.defaults.map_or(base.defaults, Into::into),
            int64: self.int64.map_or(base.int64, Into::into),
            names: self.names.map_or(base.names, Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn what_is_set_is_set_and_the_rest_stays_as_it_is() {
        let text = "[rest]\nerrors = \"problem\"\nint64 = \"text\"\nopenapi = false\n\
                    unknown_members = \"refused\"\n[rest.services.\"a.B\"]\nnames = \"original\"\n";
        let options = Config::parse(text, "t.toml").unwrap().rest.options();
        let mut expected = RestOptions::default();
        expected.errors = ErrorFormat::Problem;
        expected.json.int64 = Int64::Text;
        expected.openapi = Some(false);
        expected.unknown_members = UnknownNames::Refused;
        let of_b = JsonOptions { names: FieldNames::Original, ..expected.json };
        expected.services.insert("a.B".to_owned(), of_b);
        assert_eq!(options, expected);
        assert_eq!(RestConfig::default().options(), RestOptions::default());
    }

    #[test]
    fn a_wrong_word_is_refused_with_the_right_ones() {
        let error = Config::parse("[rest]\nint64 = \"string\"\n", "t.toml").unwrap_err();
        assert_eq!(
            error.to_string(),
            "t.toml:2:9: unknown variant `string`, expected `number` or `text`"
        );
    }
}
