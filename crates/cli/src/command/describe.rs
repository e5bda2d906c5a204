//! `tidewire describe`: what a service, a method, a message or an enum is.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::catalog::{Catalog, is_end};
use crate::failure::Failure;
use crate::names;
use crate::origin::Origin;
use tidewire::schema::describe::{
    enumeration, enumerations_of, message, method_with_messages, service, template,
};

/// Describe a service, method, message or enum: `.proto` text, and a request to fill in.
#[derive(Debug, clap::Args)]
pub(crate) struct Describe {
    /// Print only a request to fill in, as one line of JSON.
    #[arg(long)]
    request: bool,
    /// Write all files with their imports to a file, as a descriptor set for protoc, buf and other
    /// tools. Prints nothing.
    #[arg(long, value_name = "FILE")]
    descriptor_set_out: Option<PathBuf>,
    #[command(flatten)]
    origin: Origin,
}

impl Describe {
    pub(crate) async fn run(self) -> Result<ExitCode, Failure> {
        let (origin, mut names) = self.origin.split()?;
        let known = origin.load_catalog().await?;
        if let Some(file) = self.descriptor_set_out {
            std::fs::write(&file, known.schema.descriptors())
                .with_context(|| format!("cannot write {}", file.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        if names.is_empty() {
            let all = known.services().map(str::to_owned);
            // Health and reflection are the same everywhere.
            let own = all.clone().filter(|name| !name.starts_with("grpc."));
            names.extend(own);
            if names.is_empty() {
                names.extend(all);
            }
        }
        let mut out = std::io::stdout().lock();
        for (index, name) in names.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            let text = match self.request {
                true => request(&known, name),
                false => text(&known, name),
            };
            write!(out, "{separator}{}", text.map_err(Failure::usage)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(known: &Catalog, name: &str) -> anyhow::Result<String> {
    let pool = &known.pool;
    let found = known.one_service(name).ok();
    if let Some((name, text)) = found.and_then(|name| Some((name.clone(), service(pool, &name)?))) {
        let package = name.rsplit_once('.').map(|(package, _)| format!("package {package};\n\n"));
        return Ok(format!("{}{text}", package.unwrap_or_default()));
    }
    let types = pool.messages().iter().map(|message| message.full_name());
    let types = types.chain(pool.enums().iter().map(|one| one.full_name()));
    let exact = types.clone().filter(|known| *known == name);
    let mut found: Vec<_> = exact.collect();
    if found.is_empty() {
        found = types.clone().filter(|known| is_end(known, name)).collect();
    }
    match found[..] {
        [] => match (known.method(name), name.contains('/')) {
            (Ok(found), _) => of_method(known, &found),
            (Err(error), true) => Err(error),
            (Err(_), false) => bail!("{}", nothing(known, name, types)),
        },
        [name] => {
            let Some(text) = message(pool, name) else {
                return Ok(enumeration(pool, name).unwrap_or_default());
            };
            let example = template(pool, name).map(|example| example.lines()).unwrap_or_default();
            let enums = enumerations_of(pool, &[name]).into_iter().map(|text| format!("\n{text}"));
            Ok(format!("{text}{}\n{example}\n", enums.collect::<String>()))
        }
        _ => bail!("{name} is the end of several names; say which: {}", found.join(", ")),
    }
}

fn of_method(known: &Catalog, found: &tidewire::Method) -> anyhow::Result<String> {
    let text = method_with_messages(&known.pool, &found.service, &found.method);
    let mut parts: Vec<_> = text.into_iter().collect();
    let example = template(&known.pool, &found.input).map(|example| example.line());
    let example = example.unwrap_or_default();
    let path = found.path.trim_start_matches('/');
    parts.push(format!("tidewire call URL {path} '{example}'\n"));
    Ok(parts.join("\n"))
}

fn request(known: &Catalog, name: &str) -> anyhow::Result<String> {
    let input = match known.pool.message_by_name(name) {
        Some(message) => message.full_name().to_owned(),
        None => known.method(name)?.input.to_string(),
    };
    let example = template(&known.pool, &input).map(|example| example.line());
    Ok(format!("{}\n", example.unwrap_or_default()))
}

fn nothing<'a>(
    known: &'a Catalog,
    name: &str,
    types: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let all = || types.clone().chain(known.services());
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let near = names::near(name, all()).or_else(|| {
        let near = names::near(last_part(name), all().map(last))?;
        all().find(|full_name| last(full_name) == near)
    });
    let near = near.or_else(|| names::near(name, known.methods().map(|(_, method)| method.name())));
    let suggestion = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("{} has no service, method, message or enum {name}{suggestion}", known.origin)
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
