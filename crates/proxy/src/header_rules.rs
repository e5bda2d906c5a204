//! What is changed in the headers of requests on their way to a service, and of its responses.
//!
//! | rule | does |
//! |---|---|
//! | `remove` | takes the header out, first |
//! | `set` | gives it this value, in place of any that it has |
//!
//! The rules stand between the page cache and the service: a page is stored as they left it, and
//! may be stored because of them. What fails on the way has no response that they could change.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use tidewire_service::{Answer, Call, Headers, Layer, Progress, Reply, Service, is_of_connection};

/// The header rules of a service: a [`Layer`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderRules {
    /// What is changed in requests.
    pub request: HeaderChanges,
    /// What is changed in responses.
    pub response: HeaderChanges,
}

/// Which headers are taken out, and which are set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderChanges {
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, HeaderValue)>,
}

/// A rule that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRuleError(String);

impl HeaderRules {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty()
    }
}

impl HeaderChanges {
    /// Takes headers of this name out.
    ///
    /// # Errors
    /// It cannot be a name, or is that of a header of the connection or the gateway.
    pub fn remove(&mut self, name: &str) -> Result<(), HeaderRuleError> {
        self.remove.push(changeable(name)?);
        Ok(())
    }

    /// Gives the header of this name this value.
    ///
    /// # Errors
    /// Those of [`remove`](Self::remove), or a value that no header can have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), HeaderRuleError> {
        let wrong = |_| HeaderRuleError(format!("header {name} cannot have the value {value:?}"));
        let name = changeable(name)?;
        let value = HeaderValue::from_str(value).map_err(wrong)?;
        self.set.push((name, value));
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty()
    }

    fn apply(&self, headers: &mut Headers) {
        self.remove.iter().for_each(|name| _ = headers.remove(name));
        self.set.iter().for_each(|(name, value)| _ = headers.insert(name, value.clone()));
    }
}

/// The name of a header that rules may change.
fn changeable(name: &str) -> Result<HeaderName, HeaderRuleError> {
    let wrong = |_| HeaderRuleError(format!("{name:?} is not the name of a header"));
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(wrong)?;
    let text = parsed.as_str();
    if is_of_connection(text) || text == "content-length" || text.starts_with("tidewire-") {
        return Err(HeaderRuleError(format!(
            "header {name} is set by the gateway itself; remove the rule"
        )));
    }
    Ok(parsed)
}

impl Layer for HeaderRules {
    fn layer(&self, inner: Arc<dyn Service>) -> Arc<dyn Service> {
        match self.is_empty() {
            true => inner,
            false => Arc::new(WithRules { rules: Arc::new(self.clone()), inner }),
        }
    }
}

struct WithRules {
    rules: Arc<HeaderRules>,
    inner: Arc<dyn Service>,
}

impl Service for WithRules {
    fn call(&self, mut call: Call) -> Answer {
        self.rules.request.apply(call.context.headers_mut());
        let answer = self.inner.call(call);
        if self.rules.response.is_empty() {
            return answer;
        }
        let rules = Arc::clone(&self.rules);
        let changed = move |mut reply: Reply| {
            rules.response.apply(&mut reply.headers);
            reply
        };
        match answer.into_progress() {
            Progress::Ready(outcome) => Answer::ready(outcome.map(|reply| changed(*reply))),
            Progress::Pending(pending) => {
                Answer::pending(async move { pending.await.map(changed) })
            }
        }
    }
}

impl fmt::Display for HeaderRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HeaderRuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_taken_out_before_others_are_set() {
        let mut changes = HeaderChanges::default();
        changes.remove("X-Old").unwrap();
        changes.remove("X-Both").unwrap();
        changes.set("x-both", "new").unwrap();
        let mut headers = Headers::new();
        for name in ["x-old", "x-both", "x-both", "x-other"] {
            headers.append(name, HeaderValue::from_static("a"));
        }
        changes.apply(&mut headers);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let value = HeaderValue::from_static;
        assert_eq!(left, [("x-other", &value("a")), ("x-both", &value("new"))]);
    }

    #[test]
    fn what_the_gateway_sets_itself_is_refused() {
        let mut changes = HeaderChanges::default();
        for name in ["Connection", "content-length", "Tidewire-Principal", "upgrade", "a b", ""] {
            assert!(changes.remove(name).is_err(), "{name}");
            assert!(changes.set(name, "a").is_err(), "{name}");
        }
        assert!(changes.set("x", "a\nb").is_err());
        assert!(changes.is_empty());
    }
}
