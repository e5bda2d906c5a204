//! Rules of the configuration file that cover nothing: each is probably a mistake in writing, and
//! what it was to protect is open.

use tidewire_proxy::Route;
use tidewire_schema::Diagnostic;
use tidewire_server::Builder;
use toml::de::DeTable;

use super::place::{Position, position};
use super::{Config, ServiceEntry};

impl Config {
    /// The rules of `auth.paths` that are for no page of a server with these services, which has
    /// what the file names not mounted yet; each with its place in the file, where it comes from
    /// one.
    pub fn idle_rules(&self, builder: &Builder) -> Vec<Diagnostic> {
        let mut templates = Vec::new();
        for route in self.services.iter().flat_map(routes) {
            let route = route.path();
            templates.extend(match route.strip_suffix("/*") {
                Some(prefix) => vec![prefix.to_owned(), format!("{prefix}/{{*rest}}")],
                None => vec![route],
            });
        }
        let templates = || templates.iter().map(String::as_str);
        let rules = self.auth.paths.keys();
        let idle = rules.filter(|rule| !builder.has_path_of(rule, templates()));
        let file = self.origins.file.as_deref();
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        let name = file.map_or_else(|| "auth.paths".to_owned(), |file| file.display().to_string());
        let diagnostic = |rule: &String| {
            let message = format!("auth.paths has {rule:?}, which is for nothing that is served");
            let diagnostic = Diagnostic::new(&name, message).help(
                "it is for plain HTTP: a route of a [[service]], or a handler; rules of methods \
                 stand in auth.methods",
            );
            match place(&text, rule) {
                Some(Position { line, column }) => {
                    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                    diagnostic.at(number(line), number(column))
                }
                None => diagnostic,
            }
        };
        idle.map(diagnostic).collect()
    }
}

fn routes(entry: &ServiceEntry) -> &[Route] {
    match entry {
        ServiceEntry::Program(program) => &program.routes,
        ServiceEntry::Upstream(upstream) => &upstream.routes,
        ServiceEntry::Schema(_) => &[],
    }
}

/// Where a rule of `auth.paths` is in the text of a file.
fn place(text: &str, rule: &str) -> Option<Position> {
    let table = DeTable::parse(text).ok()?;
    let auth = table.get_ref().get("auth")?.get_ref().as_table()?;
    let paths = auth.get("paths")?.get_ref().as_table()?;
    let (key, _) = paths.iter().find(|(key, _)| key.get_ref() == rule)?;
    Some(position(text, key.span().start))
}
