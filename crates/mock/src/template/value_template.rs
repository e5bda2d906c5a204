//! A value of a rule with templates in it: parsed once, made into a value for each call.

use crate::template::formula::Formula;
use crate::template::{RenderError, RenderState, Template};
use crate::value::eval_context::EvalContext;
use crate::value::node::{Node, ObjectMember, Position, Tree};

/// A value with templates in its texts; the keys of objects are not templates.
#[derive(Debug, Clone)]
pub(crate) enum ValueTemplate {
    /// Without any.
    Plain(Node),
    Text(Template, Position),
    List(Vec<Self>, Position),
    Object(Vec<(String, Position, Self)>, Position),
}

impl ValueTemplate {
    /// Parses every text of a value; `formula` compiles what `{{cel: …}}` says.
    pub(crate) fn new(node: &Node, formula: &mut dyn FnMut(&str) -> Formula) -> Self {
        let mut parts = |nodes: &mut dyn Iterator<Item = &Node>| -> Vec<Self> {
            nodes.map(|node| Self::new(node, formula)).collect()
        };
        let is_plain = |parts: &[Self]| parts.iter().all(|part| matches!(part, Self::Plain(_)));
        match &node.value {
            Tree::Text(text) => match Template::parse(text, formula) {
                Some(template) => Self::Text(template, node.place),
                None => Self::Plain(node.clone()),
            },
            Tree::List(items) => {
                let parts = parts(&mut items.iter());
                if is_plain(&parts) {
                    Self::Plain(node.clone())
                } else {
                    Self::List(parts, node.place)
                }
            }
            Tree::Object(members) => {
                let parts = parts(&mut members.iter().map(|member| &member.value));
                if is_plain(&parts) {
                    return Self::Plain(node.clone());
                }
                let keys = members.iter().map(|member| (member.key.clone(), member.place));
                let parts = keys.zip(parts).map(|((key, place), part)| (key, place, part));
                Self::Object(parts.collect(), node.place)
            }
            _ => Self::Plain(node.clone()),
        }
    }

    /// The value for a call.
    pub(crate) fn render(
        &self,
        eval: &EvalContext<'_>,
        rendering: &mut RenderState<'_>,
    ) -> Result<Node, RenderError> {
        Ok(match self {
            Self::Plain(node) => node.clone(),
            Self::Text(template, place) => {
                Node { value: template.value(eval, rendering)?, place: *place }
            }
            Self::List(parts, place) => {
                let items: Result<_, _> =
                    parts.iter().map(|part| part.render(eval, rendering)).collect();
                Node { value: Tree::List(items?), place: *place }
            }
            Self::Object(parts, place) => {
                let mut members = Vec::with_capacity(parts.len());
                for (key, at, part) in parts {
                    let value = part.render(eval, rendering)?;
                    members.push(ObjectMember { key: key.clone(), place: *at, value });
                }
                Node { value: Tree::Object(members), place: *place }
            }
        })
    }

    /// Its templates, and where they stand.
    pub(crate) fn templates<'s>(&'s self, each: &mut dyn FnMut(&'s Template, Position)) {
        match self {
            Self::Plain(_) => {}
            Self::Text(template, place) => each(template, *place),
            Self::List(parts, _) => parts.iter().for_each(|part| part.templates(each)),
            Self::Object(parts, _) => parts.iter().for_each(|(_, _, part)| part.templates(each)),
        }
    }

    /// What of it has no templates: what can be checked before a call.
    pub(crate) fn plain_part(&self) -> Option<Node> {
        Some(match self {
            Self::Plain(node) => node.clone(),
            Self::Text(..) => return None,
            Self::List(parts, place) => {
                let items = parts.iter().filter_map(Self::plain_part).collect();
                Node { value: Tree::List(items), place: *place }
            }
            Self::Object(parts, place) => {
                let members = parts.iter().filter_map(|(key, place, part)| {
                    let key = key.clone();
                    let place = *place;
                    let value = part.plain_part()?;
                    Some(ObjectMember { key, place, value })
                });
                Node { value: Tree::Object(members.collect()), place: *place }
            }
        })
    }
}
