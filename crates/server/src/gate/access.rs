//! Who may call what: the rules of `.proto` files, and those of an operator in their place.
//!
//! | a request is for | the rule is |
//! |---|---|
//! | a method | of the operator for it, or for its service; of its `.proto`; that of the health service: everybody; the general one |
//! | reflection, `/openapi.json`, `/docs` | of the operator for its methods, or its path; for both; the general one |
//! | plain HTTP | of the operator for its path; the general one |
//! | nothing that is there | the general one |
//!
//! The gate comes after those that find out who calls. It is there only where a rule asks for
//! something. A path is judged as it is written and as a program may read it (percent-decoded, dots
//! and double slashes resolved, without parameters behind `;`, and by what else is among the
//! [steps](super::path_steps), in any order; each also without regard to case), and has to be let
//! pass as each. Case is that of ASCII and of Unicode: some programs take `ß` for `SS`, `ſ` for `s`
//! or `ı` for `i`. Bytes that are not UTF-8 may be anything in another encoding, so a path with
//! such has to be let pass by each rule that begins as it does before them. A path that is encoded
//! twice, or has two slashes and a character that ends a host, has to be let pass by every rule,
//! the general one too: there is no end to what programs make of those. So has one with more than
//! 128 readings, or more than 64 KiB of them. Other forms of a letter are other letters: `é` in
//! one character and in two, `ａ` and `a`.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::access_error::AccessError;
use super::own_targets::{DOCS_PATH, DOCUMENT, HEALTH, REFLECTION};
use super::path_readings::{folded, readings};
use super::path_steps::without_slash;
use foldhash::fast::RandomState;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use tidewire_service::{Access, Admission, Error, Gate, Head, Principal, Result, Spec, Target};

/// Who may call what, in place of what `.proto` files say.
///
/// ```
/// use tidewire_server::AccessRules;
/// use tidewire_service::Access;
/// let rules = AccessRules::default()
///     .otherwise(Access::Authenticated)
///     .method("shop.v1.Items/Get", Access::Anonymous)
///     .method("shop.v1.Stock/*", Access::scopes(&["stock"]))
///     .path("/assets/*", Access::Anonymous);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "rules do nothing until a server has them"]
pub struct AccessRules {
    otherwise: Option<Access>,
    methods: BTreeMap<String, Access>,
    paths: BTreeMap<String, Access>,
    reflection: Option<Access>,
    /// Whether the rules of `.proto` files count for nothing.
    ignores_declared: bool,
    /// Whether `/docs` is the docs page.
    has_docs: bool,
}

impl AccessRules {
    /// Sets the general rule, which is for everything that no other rule is for; without it
    /// everybody may.
    pub fn otherwise(mut self, access: Access) -> Self {
        self.otherwise = Some(access);
        self
    }

    /// Sets the rule for a method, `shop.v1.Items/Get`, or for all of a service, `shop.v1.Items/*`.
    pub fn method(mut self, name: &str, access: Access) -> Self {
        self.methods.insert(name.to_owned(), access);
        self
    }

    /// Sets the rule for a path of plain HTTP, `/metrics`, or for all below it, `/assets/*`. With
    /// and without a slash at its end it is one path, as most programs have it, unless there is a
    /// rule for each. It is written decoded (`/café`): with percent signs a server does not start.
    pub fn path(mut self, path: &str, access: Access) -> Self {
        if let Some(bare) = without_slash(path) {
            self.paths.entry(bare.to_owned()).or_insert_with(|| access.clone());
        }
        self.paths.insert(path.to_owned(), access);
        self
    }

    /// Sets the rule for what publishes the schema: reflection, `/openapi.json` and `/docs`;
    /// without it the general rule. A rule for its methods, or for those paths, comes before it.
    /// Where everybody may, no gate of the program is asked.
    pub fn reflection(mut self, access: Access) -> Self {
        self.reflection = Some(access);
        self
    }

    /// Leaves the rules of `.proto` files out: for a mock that has nobody's credentials.
    pub fn without_declared(mut self) -> Self {
        self.ignores_declared = true;
        self
    }

    /// Says whether `/docs` is the docs page, which has the rule of reflection.
    pub(crate) fn with_docs(mut self, on: bool) -> Self {
        self.has_docs = on;
        self
    }

    /// Whether everybody may read the schema, and that was set.
    pub(crate) fn is_reflection_open(&self) -> bool {
        self.reflection == Some(Access::Anonymous)
    }

    /// The gate for these methods; `None` where nothing is asked of anybody.
    ///
    /// # Errors
    /// A rule for what is not served.
    pub(crate) fn gate<'a>(
        mut self,
        served: impl Iterator<Item = &'a Spec> + Clone,
    ) -> Result<Option<AccessGate>, AccessError> {
        for rule in self.methods.keys() {
            AccessError::find(rule, served.clone())?;
        }
        if let Some(path) = self.paths.keys().find(|path| !path.starts_with('/')) {
            let why = "which is not a path; write /metrics, or /assets/* for all below it";
            return Err(AccessError { rule: format!("auth.paths has {path:?}"), why: why.into() });
        }
        self.paths.keys().try_for_each(|path| check_written(path))?;
        let otherwise = self.otherwise.unwrap_or(Access::Anonymous);
        let mut undeclared = HashSet::default();
        let methods: HashMap<_, _, RandomState> = served
            .map(|spec| {
                let by_name = self.methods.get(spec.path.trim_start_matches('/'));
                let by_service = || self.methods.get(&format!("{}/*", spec.service));
                let health = (spec.service == HEALTH).then_some(&Access::Anonymous);
                let is_reflection = REFLECTION.contains(&&*spec.service);
                let reflection = self.reflection.as_ref().filter(|_| is_reflection);
                let declared = spec.access.as_ref().filter(|_| !self.ignores_declared);
                let rule = by_name.or_else(by_service).or(declared);
                let rule = rule.or(health).or(reflection);
                if rule.is_none() {
                    undeclared.insert(spec.path.as_ref().into());
                }
                (spec.path.as_ref().into(), rule.unwrap_or(&otherwise).clone())
            })
            .collect();
        if let Some(access) = self.reflection.take() {
            if self.has_docs {
                let below = format!("{DOCS_PATH}/*");
                self.paths.entry(below).or_insert_with(|| access.clone());
            }
            self.paths.entry(DOCUMENT.to_owned()).or_insert(access);
        }
        let asks = |access: &Access| *access != Access::Anonymous;
        let paths: Vec<_> = self.paths.into_iter().rev().collect();
        let is_needed = asks(&otherwise)
            || methods.values().any(asks)
            || paths.iter().any(|(_, access)| asks(access));
        let lower_case_paths = without_case(&paths, str::to_lowercase);
        let folded_paths = without_case(&paths, folded);
        let is_ascii = paths.iter().all(|(path, _)| path.is_ascii());
        let gate = AccessGate {
            otherwise,
            methods,
            undeclared,
            paths,
            lower_case_paths,
            folded_paths,
            is_ascii,
        };
        Ok(is_needed.then_some(gate))
    }
}

/// Lets those pass who may call.
#[derive(Debug)]
pub(crate) struct AccessGate {
    otherwise: Access,
    /// By path.
    methods: HashMap<Box<str>, Access, RandomState>,
    /// Those of the methods for which there is no rule but the general one.
    undeclared: HashSet<Box<str>, RandomState>,
    /// The longer of two that begin alike comes first.
    paths: Vec<(String, Access)>,
    /// The same in lower case. Of two that are the same then, the stricter comes first.
    lower_case_paths: Vec<(String, Access)>,
    /// The same without case as Unicode has it.
    folded_paths: Vec<(String, Access)>,
    /// Whether all rules for paths are.
    is_ascii: bool,
}

impl Gate for AccessGate {
    fn admit(&self, head: &mut Head) -> Admission {
        let principal = head.context.principal();
        Admission::Ready(match &head.target {
            Target::Method(method) => check(self.of_method(method), principal),
            Target::Http(http) => {
                let written = http.uri.path();
                let Some(readings) = readings(written) else {
                    let mut all = self.paths.iter().map(|(_, access)| access);
                    let strictest = all.try_for_each(|access| check(access, principal));
                    let strictest = strictest.and_then(|()| check(&self.otherwise, principal));
                    return Admission::Ready(strictest);
                };
                let first = self.check_path(written, principal);
                readings.iter().fold(first, |before, read| {
                    before.and_then(|()| self.check_path(read, principal))
                })
            }
            _ => check(&self.otherwise, principal),
        })
    }
}

impl AccessGate {
    /// Whether a rule asks who calls the health service.
    pub(crate) fn asks_of_health(&self) -> bool {
        let health = format!("/{HEALTH}/");
        let mut of_health = self.methods.iter().filter(|(path, _)| path.starts_with(&health));
        of_health.any(|(_, access)| *access != Access::Anonymous)
    }

    /// Who may call a method.
    pub(crate) fn of_method(&self, spec: &Spec) -> &Access {
        self.methods.get(&*spec.path).unwrap_or(&self.otherwise)
    }

    /// Whether there is a rule for a method, or its service.
    pub(super) fn is_declared(&self, spec: &Spec) -> bool {
        !self.undeclared.contains(&*spec.path)
    }

    /// The general rule.
    pub(super) fn otherwise(&self) -> &Access {
        &self.otherwise
    }

    /// The rules for paths; the longer of two that begin alike comes first.
    pub(super) fn path_rules(&self) -> impl Iterator<Item = (&str, &Access)> {
        self.paths.iter().map(|(rule, access)| (&**rule, access))
    }

    /// A path as it is read, and as programs read it that ignore case.
    fn check_path(&self, path: &str, principal: Option<&Principal>) -> Result<()> {
        check(self.of_path(&self.paths, path), principal)?;
        check(self.of_path(&self.lower_case_paths, &path.to_lowercase()), principal)?;
        if self.is_ascii && path.is_ascii() {
            return Ok(());
        }
        let path = folded(path);
        check(self.of_path(&self.folded_paths, &path), principal)?;
        // What was not UTF-8 may be the rest of any rule.
        let Some((before, _)) = path.split_once('\u{fffd}') else { return Ok(()) };
        let mut rules = self.folded_paths.iter();
        rules.try_for_each(|(rule, access)| match rule.trim_end_matches("/*").starts_with(before) {
            true => check(access, principal),
            false => Ok(()),
        })
    }

    fn of_path<'a>(&'a self, rules: &'a [(String, Access)], path: &str) -> &'a Access {
        let found = rules.iter().find(|(rule, _)| match rule.strip_suffix("/*") {
            Some(prefix) => path
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            None => path == rule,
        });
        found.map_or(&self.otherwise, |(_, access)| access)
    }
}

fn check(access: &Access, principal: Option<&Principal>) -> Result<()> {
    match (access, principal) {
        (Access::Anonymous, _) => Ok(()),
        (_, None) => {
            let mut error = Error::unauthenticated("this call needs a credential, and none came");
            error.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Err(error)
        }
        (access, Some(principal)) => {
            let lacking: Vec<_> = access.lacking(principal).collect();
            if lacking.is_empty() {
                return Ok(());
            }
            let text = format!("this call needs the scope {}", lacking.join(" and "));
            Err(Error::permission_denied(text))
        }
    }
}

/// Rules as they hold for programs that ignore case.
fn without_case(
    paths: &[(String, Access)],
    fold: impl Fn(&str) -> String,
) -> Vec<(String, Access)> {
    let mut lower: Vec<_> =
        paths.iter().map(|(path, access)| (fold(path), access.clone())).collect();
    let rank = |access: &Access| match access {
        Access::Anonymous => 0,
        Access::Authenticated => 1,
        _ => 2,
    };
    lower.sort_by(|(a, x), (b, y)| b.cmp(a).then(rank(y).cmp(&rank(x))));
    lower
}

/// Refuses a rule with percent signs: the paths of requests are decoded before they are compared,
/// so that one spelling would be protected, and no other.
///
/// # Errors
/// The rule, and how to write it.
fn check_written(rule: &str) -> Result<(), AccessError> {
    let why = match percent_encoding::percent_decode_str(rule).decode_utf8() {
        Ok(decoded) if decoded == rule => return Ok(()),
        Ok(decoded) => format!("which is percent-encoded; write {:?}", &*decoded),
        Err(_) => "which is percent-encoded, and not as UTF-8; name a folder above it".to_owned(),
    };
    Err(AccessError { rule: format!("auth.paths has {rule:?}"), why })
}

#[cfg(test)]
mod tests;
