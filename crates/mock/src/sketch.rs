//! A value of a rule with templates in it: parsed once, made into a value for each call.

use crate::node::{Member, Node, Place, Tree};
use crate::path::Path;
use crate::scene::Scene;
use crate::template::{Rendering, Template, TooLarge};

/// A value with templates in its texts; the keys of objects are no templates.
#[derive(Debug, Clone)]
pub(crate) enum Sketch {
    /// Without any.
    Plain(Node),
    Text(Template, Place),
    List(Vec<Self>, Place),
    Object(Vec<(String, Place, Self)>, Place),
}

impl Sketch {
    /// Parses every text of a value.
    pub(crate) fn new(node: &Node) -> Self {
        let parts = |nodes: &mut dyn Iterator<Item = &Node>| -> Vec<Self> {
            nodes.map(Self::new).collect()
        };
        let is_plain = |parts: &[Self]| parts.iter().all(|part| matches!(part, Self::Plain(_)));
        match &node.value {
            Tree::Text(text) => match Template::parse(text) {
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
        scene: &Scene<'_>,
        rendering: &mut Rendering<'_>,
    ) -> Result<Node, TooLarge> {
        Ok(match self {
            Self::Plain(node) => node.clone(),
            Self::Text(template, place) => {
                Node { value: Tree::Text(template.render(scene, rendering)?), place: *place }
            }
            Self::List(parts, place) => {
                let items: Result<_, _> =
                    parts.iter().map(|part| part.render(scene, rendering)).collect();
                Node { value: Tree::List(items?), place: *place }
            }
            Self::Object(parts, place) => {
                let mut members = Vec::with_capacity(parts.len());
                for (key, at, part) in parts {
                    let value = part.render(scene, rendering)?;
                    members.push(Member { key: key.clone(), place: *at, value });
                }
                Node { value: Tree::Object(members), place: *place }
            }
        })
    }

    /// The paths that its templates look at, and where they stand.
    pub(crate) fn paths<'s>(&'s self, each: &mut dyn FnMut(&'s Path, Place)) {
        match self {
            Self::Plain(_) => {}
            Self::Text(template, place) => {
                template.paths().into_iter().for_each(|path| each(path, *place));
            }
            Self::List(parts, _) => parts.iter().for_each(|part| part.paths(each)),
            Self::Object(parts, _) => parts.iter().for_each(|(_, _, part)| part.paths(each)),
        }
    }
}
