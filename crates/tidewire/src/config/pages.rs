//! `cache` of a `[[service]]`: whether and how its pages are kept.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use tidewire_cache::PageSettings;

use super::value;

/// `cache = true`, or `[service.cache]` with settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PagesSetting {
    Off,
    On(Pages),
}

/// `[service.cache]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pages {
    #[serde(deserialize_with = "value::bytes")]
    page_bytes_max: Option<usize>,
    #[serde(deserialize_with = "value::duration")]
    heuristic_max: Option<Duration>,
    set_cookie: Option<bool>,
    #[serde(deserialize_with = "value::duration")]
    stale_if_error: Option<Duration>,
    #[serde(deserialize_with = "value::duration")]
    stale_if_unreachable: Option<Duration>,
    variants_max: Option<NonZeroUsize>,
}

impl PagesSetting {
    /// The settings, where pages are kept.
    pub(super) fn settings(self) -> Option<PageSettings> {
        let Self::On(set) = self else { return None };
        let mut settings = PageSettings::default();
        settings.page_bytes_max = set.page_bytes_max.unwrap_or(settings.page_bytes_max);
        settings.heuristic_max = set.heuristic_max.unwrap_or(settings.heuristic_max);
        settings.set_cookie = set.set_cookie.unwrap_or(settings.set_cookie);
        settings.stale_if_error = set.stale_if_error;
        let unreachable = set.stale_if_unreachable;
        settings.stale_if_unreachable = unreachable.unwrap_or(settings.stale_if_unreachable);
        settings.variants_max = set.variants_max.map_or(settings.variants_max, NonZeroUsize::get);
        Some(settings)
    }
}

impl<'de> Deserialize<'de> for PagesSetting {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct SwitchOrTable;

        impl<'de> Visitor<'de> for SwitchOrTable {
            type Value = PagesSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table [service.cache]")
            }

            fn visit_bool<E: Error>(self, on: bool) -> Result<PagesSetting, E> {
                Ok(match on {
                    true => PagesSetting::On(Pages::default()),
                    false => PagesSetting::Off,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PagesSetting, A::Error> {
                Pages::deserialize(MapAccessDeserializer::new(map)).map(PagesSetting::On)
            }
        }

        input.deserialize_any(SwitchOrTable)
    }
}
