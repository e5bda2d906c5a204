//! Rules for paths at which methods are served: they ask nothing of a method, whose own rule
//! decides, so one that asks for more than that is refused at start.

use tidewire_service::{Access, Spec};

use super::access::AccessGate;
use super::access_error::AccessError;
use super::own_targets::{DOCS_PATH, DOCUMENT};
use super::path_readings::folded;

impl AccessGate {
    /// Finds a rule for a path that seems to protect a method for which there is none.
    ///
    /// # Errors
    /// The rule, and what to write in its place.
    pub(crate) fn check_paths<'a>(
        &self,
        routes: impl Iterator<Item = (&'a Spec, &'a str)>,
    ) -> Result<(), AccessError> {
        for (spec, template) in routes.filter(|(spec, _)| !self.is_declared(spec)) {
            for template in [template, &spec.path] {
                let of_path = self.path_rules().find(|(rule, _)| covers(rule, template));
                if let Some((rule, _)) = of_path.filter(|(_, access)| self.asks_more(access)) {
                    let method = spec.path.trim_start_matches('/');
                    return Err(AccessError {
                        rule: format!("auth.paths has {rule:?}"),
                        why: format!(
                            "which asks nothing of {method} at {template}: paths are of plain \
                             HTTP. Write a rule for it in auth.methods, or auth.otherwise"
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether a rule asks for what the general one does not.
    fn asks_more(&self, access: &Access) -> bool {
        match (access, self.otherwise()) {
            (Access::Anonymous, _) => false,
            (Access::Authenticated, otherwise) => *otherwise == Access::Anonymous,
            (scopes, otherwise) => scopes != otherwise,
        }
    }
}

/// Whether a rule is for a request that may be one of these templates, or of a page that every
/// server may have. Case does not count, as when a request is judged.
pub(crate) fn is_for_any<'t>(rule: &str, templates: impl Iterator<Item = &'t str>) -> bool {
    let rule = folded(rule);
    let rule = match rule.strip_suffix('/') {
        Some(bare) if !bare.is_empty() => bare,
        _ => &rule,
    };
    let own = [DOCUMENT, DOCS_PATH, "/docs/{*path}"];
    templates.chain(own).any(|template| covers(rule, &folded(template)))
}

/// Whether some request that a rule is for may be one of a template, in which `{...}` and what is
/// behind it stand for anything.
fn covers(rule: &str, template: &str) -> bool {
    let (rule, is_prefix) = match rule.strip_suffix("/*") {
        Some(prefix) => (prefix, true),
        None => (rule, false),
    };
    let template = template.split('{').next().unwrap_or_default();
    let is_whole = |rest: &str| rest.is_empty() || rest.starts_with('/');
    match (template.strip_prefix(rule), rule.strip_prefix(template)) {
        (Some(rest), _) if is_prefix => is_whole(rest),
        (Some(rest), _) => rest.is_empty(),
        // The template goes on with what may be anything.
        (None, Some(_)) => template.ends_with('/'),
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_the_templates_below_it() {
        for (rule, template, expected) in [
            ("/contacts/*", "/contacts/{id}", true),
            ("/contacts/*", "/contacts", true),
            ("/contacts/1", "/contacts/{id}", true),
            ("/contacts", "/contacts", true),
            ("/contacts", "/contacts/{id}", false),
            ("/contacts/*", "/contacts:count", false),
            ("/contact/*", "/contacts", false),
            ("/assets/*", "/contacts", false),
            ("/*", "/contacts/{id}/notes", true),
            ("/a.B/*", "/a.B/Get", true),
            ("/a.B/Get", "/a.B/Get", true),
            ("/a/b/*", "/a/{b}/c", true),
        ] {
            assert_eq!(covers(rule, template), expected, "{rule} {template}");
        }
    }
}
