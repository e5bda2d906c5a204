//! `request_headers` and `response_headers` of a `[[service]]`: what is changed in them.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidewire_proxy::{HeaderChanges, HeaderRules};

use super::value;

/// `request_headers = { set = { X-Shop = "1" }, remove = ["Cookie"] }`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ChangesSetting {
    set: BTreeMap<String, String>,
    #[serde(deserialize_with = "value::texts")]
    remove: Vec<String>,
}

/// The rules of a service.
pub(super) fn header_rules(
    request: Option<&ChangesSetting>,
    response: Option<&ChangesSetting>,
) -> Result<HeaderRules, String> {
    Ok(HeaderRules {
        request: changes("request_headers", request)?,
        response: changes("response_headers", response)?,
    })
}

fn changes(key: &str, setting: Option<&ChangesSetting>) -> Result<HeaderChanges, String> {
    let mut changes = HeaderChanges::default();
    let Some(setting) = setting else { return Ok(changes) };
    let said = |error| format!("{key} has a wrong rule: {error}");
    setting.remove.iter().try_for_each(|name| changes.remove(name)).map_err(said)?;
    let mut set = setting.set.iter();
    set.try_for_each(|(name, value)| changes.set(name, value)).map_err(said)?;
    Ok(changes)
}
