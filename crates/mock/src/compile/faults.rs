//! What goes wrong with an answer: `fault: {kind: reset, after: 1, p: 0.1}`, or a list of them.

use http::HeaderValue;

use super::Compiler;
use crate::body::meant;
use crate::compile::duration;
use crate::rule::{Delay, FaultKind, FaultRule};
use crate::value::node::{Node, Tree};
use crate::value::view::View;

const KINDS: [&str; 7] =
    ["reset", "goaway", "truncate", "dribble", "slow", "drop_trailers", "content_type"];

impl Compiler<'_> {
    /// The faults of an answer.
    pub(crate) fn faults(&mut self, node: &Node) -> Vec<FaultRule> {
        let Some(said) = node.get("fault").filter(|one| one.value != Tree::Null) else {
            return Vec::new();
        };
        let list = match &said.value {
            Tree::List(items) => items.iter().collect(),
            _ => vec![said],
        };
        list.into_iter().filter_map(|one| self.fault(one)).collect()
    }

    fn fault(&mut self, node: &Node) -> Option<FaultRule> {
        self.unknown_keys(node, &["kind", "after", "bytes", "every", "value", "p"], "a fault");
        let Some(kind) = node.get("kind").map(|kind| View::Rule(kind).text().into_owned()) else {
            let why = "a fault is an object with a kind; write fault: {kind: reset, after: 1}";
            self.error(node.place, why);
            return None;
        };
        let probability = match node.get("p").map(|p| View::Rule(p).number()) {
            None => 1.0,
            Some(Some(p)) if (0.0..=1.0).contains(&p.as_f64()) => p.as_f64(),
            Some(_) => {
                self.error(node.place, "p is a probability: 0 to 1");
                return None;
            }
        };
        let kind = match &*kind {
            "reset" => FaultKind::Reset(self.count(node, "after", 0)?),
            "goaway" => FaultKind::GoAway(self.count(node, "after", 0)?),
            "truncate" => FaultKind::Truncate(self.count(node, "after", 0)?),
            "dribble" => {
                let bytes = self.count(node, "bytes", 1)?;
                FaultKind::Dribble(bytes, self.every(node)?)
            }
            "slow" => FaultKind::Slow(self.every(node)?),
            "drop_trailers" => FaultKind::DropTrailers,
            "content_type" => {
                let value = node.get("value").map(|value| View::Rule(value).text().into_owned());
                match value.map(|value| HeaderValue::from_str(&value)) {
                    Some(Ok(value)) => FaultKind::ContentType(value),
                    _ => {
                        let why = "content_type has a value; write value: text/html";
                        self.error(node.place, why);
                        return None;
                    }
                }
            }
            other => {
                let meant = meant(other, &KINDS);
                let why = format!("{other} is not a kind of fault: {}{meant}", KINDS.join(", "));
                self.error(node.place, why);
                return None;
            }
        };
        Some(FaultRule { kind, probability })
    }

    fn count(&mut self, node: &Node, key: &str, unsaid: usize) -> Option<usize> {
        let Some(said) = node.get(key) else { return Some(unsaid) };
        match View::Rule(said).number().map(|number| number.as_f64()) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in range"
            )]
            Some(number) if (0.0..=1e9).contains(&number) => Some(number as usize),
            _ => {
                self.error(said.place, format!("{key} is a number, 0 or more"));
                None
            }
        }
    }

    fn every(&mut self, node: &Node) -> Option<Delay> {
        match node.get("every").map(duration::delay) {
            Some(Ok(delay)) => Some(delay),
            Some(Err(why)) => {
                self.error(node.place, why);
                None
            }
            None => {
                self.error(node.place, "every is missing; write every: 10ms");
                None
            }
        }
    }
}
