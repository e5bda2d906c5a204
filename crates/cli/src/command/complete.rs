//! Shell completion: commands, flags, and the names of methods, services and messages.
//!
//! The shells' scripts hold no knowledge: each hands over the line up to the cursor and gets words
//! back, one a line. Names come from `--proto` or from the server that the line names, which has
//! less than a second unless `--timeout` says otherwise; a completion that fails completes nothing
//! and says nothing.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};

use crate::call::detect::detect;
use crate::call::reach::{Reach, duration};
use crate::call::reflection::reflect;
use crate::call::target::Target;
use crate::call::watch::Watch;
use crate::catalog::{Catalog, path};
use crate::failure::Failure;
use tidewire::schema::describe::template;

/// Print the completion script of a shell.
///
///   bash: eval "$(tidewire completions bash)" in ~/.bashrc
///   zsh:  eval "$(tidewire completions zsh)" in ~/.zshrc
///   fish: tidewire completions fish | source in ~/.config/fish/config.fish
///   PowerShell: tidewire completions powershell | Out-String | Invoke-Expression in $PROFILE
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    /// Shell to complete in.
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    #[value(alias = "pwsh")]
    Powershell,
}

/// What may follow on a command line; the scripts ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Complete {
    /// How long a server has to tell its names while somebody waits with a finger on the tab key.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "900ms")]
    timeout: Duration,
    /// The line up to the cursor.
    line: String,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let script = match self.shell {
            Shell::Bash => BASH,
            Shell::Zsh => ZSH,
            Shell::Fish => FISH,
            Shell::Powershell => POWERSHELL,
        };
        std::io::stdout().lock().write_all(script.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Complete {
    pub(crate) async fn run(&self, root: &Command) -> Result<ExitCode, Failure> {
        let words = words(&self.line);
        let mut out = std::io::stdout().lock();
        for candidate in candidates(root, &words, self.timeout).await {
            writeln!(out, "{candidate}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The words of a line; the last one is being typed and may be empty.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words
}

async fn candidates(root: &Command, words: &[String], timeout: Duration) -> Vec<String> {
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let mut command = root;
    let mut before = before.iter().skip(1).peekable();
    while let Some(inner) = before.peek().and_then(|word| command.find_subcommand(word.as_str())) {
        command = inner;
        before.next();
    }
    let line = Line::read(command, before.map(String::as_str));
    let found = if let Some(flag) = line.open_flag {
        flag.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
    } else if typed.starts_with('-') {
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        flags.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
    } else if command.has_subcommands() {
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        inner.map(|inner| inner.get_name().to_owned()).collect()
    } else {
        line.names(command.get_name(), typed, timeout).await
    };
    let mut found: Vec<_> = found.into_iter().filter(|word| word.starts_with(typed)).collect();
    found.dedup();
    found
}

/// The words before the one that is typed.
struct Line<'a> {
    command: &'a Command,
    positional: Vec<&'a str>,
    flags: Vec<(&'a str, &'a str)>,
    /// The flag whose value is being typed.
    open_flag: Option<&'a Arg>,
}

impl<'a> Line<'a> {
    fn read(command: &'a Command, words: impl Iterator<Item = &'a str>) -> Self {
        let mut line = Self { command, positional: Vec::new(), flags: Vec::new(), open_flag: None };
        for word in words {
            if let Some(flag) = line.open_flag.take() {
                line.flags.push((flag.get_id().as_str(), word));
            } else if let Some(name) = word.strip_prefix("--") {
                match name.split_once('=') {
                    Some((name, value)) => line.flags.push((name, value)),
                    None => line.open(command.get_arguments().find(|a| a.get_long() == Some(name))),
                }
            } else if let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) {
                let short = name.chars().last();
                line.open(command.get_arguments().find(|a| a.get_short() == short));
            } else {
                line.positional.push(word);
            }
        }
        line
    }

    fn open(&mut self, flag: Option<&'a Arg>) {
        let takes_value =
            |arg: &&Arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        self.open_flag = flag.filter(takes_value);
    }

    fn values(&self, names: &[&str]) -> Vec<PathBuf> {
        let of = self.flags.iter().filter(|(name, _)| names.contains(name));
        of.map(|(_, value)| PathBuf::from(value)).collect()
    }

    /// Names that may stand where a word is typed.
    async fn names(&self, command: &str, typed: &str, timeout: Duration) -> Vec<String> {
        if !matches!(command, "call" | "list" | "describe") {
            let arg = self.command.get_positionals().nth(self.positional.len());
            let values = arg.map(Arg::get_possible_values).unwrap_or_default();
            return values.iter().map(|value| value.get_name().to_owned()).collect();
        }
        let paths = self.values(&["proto", "descriptor_set", "descriptor-set"]);
        let (origin, names) = match (command, paths.is_empty()) {
            ("call", _) | (_, true) => match self.positional.split_first() {
                Some((origin, names)) => (Some(*origin), names),
                // The server itself is for the one who types to know.
                None => return Vec::new(),
            },
            (_, false) => (None, &self.positional[..]),
        };
        let Some(known) = load_catalog(origin, &paths, timeout).await else { return Vec::new() };
        match (command, names) {
            ("list", _) => known.services().map(str::to_owned).collect(),
            ("call", []) => methods(&known, typed),
            ("call", [name]) => {
                let input = known.method(name).ok().map(|method| method.input.to_string());
                let example = input.and_then(|input| template(&known.pool, &input));
                example.map(|example| format!("'{}'", example.line())).into_iter().collect()
            }
            ("describe", _) => {
                let types = known.pool.messages().iter().map(|message| message.full_name());
                let of_ours = types.filter(|name| !name.starts_with("google.protobuf."));
                let mut found = methods(&known, typed);
                found.extend(known.services().chain(of_ours).map(str::to_owned));
                found
            }
            _ => Vec::new(),
        }
    }
}

/// Methods by the name that is being typed: full, or from the service's own name on.
fn methods(known: &Catalog, typed: &str) -> Vec<String> {
    let full: Vec<_> = known.methods().map(|(service, method)| path(service, method)).collect();
    if full.iter().any(|name| name.starts_with(typed)) {
        return full;
    }
    let last = |path: &String| path.rsplit('.').next().unwrap_or(path).to_owned();
    let short: Vec<_> = full.iter().map(last).collect();
    if short.iter().any(|name| name.starts_with(typed)) {
        return short;
    }
    known.methods().map(|(_, method)| method.name().to_owned()).collect()
}

async fn load_catalog(
    origin: Option<&str>,
    paths: &[PathBuf],
    timeout: Duration,
) -> Option<Catalog> {
    if !paths.is_empty() {
        return Catalog::load(paths).ok();
    }
    let origin = origin?;
    if std::path::Path::new(origin).exists() {
        return Catalog::load(&[origin]).ok();
    }
    let reach = Reach::within(timeout);
    let target = Target::parse(origin).ok()?;
    let asked = async {
        let server = detect(&target, &reach, &Watch::new(false)).await.ok()?;
        reflect(&server, &reach, None).await.ok()
    };
    tokio::time::timeout(timeout, asked).await.ok()?
}

const BASH: &str = r#"_tidewire() {
  local IFS=$'\n'
  COMPREPLY=($(tidewire complete -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o default -o bashdefault -F _tidewire tidewire
"#;

const ZSH: &str = r#"_tidewire() {
  local -a found
  found=("${(@f)$(tidewire complete -- "${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
  if (( ${#found[1]} )); then compadd -Q -a found; else _files; fi
}
compdef _tidewire tidewire
"#;

/// fish quotes what it inserts by itself. Files are offered where nothing else is, as in the
/// others.
const FISH: &str = r#"function __tidewire_complete
    set -l found (tidewire complete -- (commandline -cp) 2>/dev/null)
    if set -q found[1]
        string unescape -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tidewire -f -a '(__tidewire_complete)'
"#;

/// The line is what the cursor has passed; blanks at its end are not part of the syntax tree.
const POWERSHELL: &str = r#"Register-ArgumentCompleter -Native -CommandName tidewire -ScriptBlock {
    param($word, $tree, $cursor)
    $length = $cursor - $tree.Extent.StartOffset
    $line = $tree.ToString().PadRight($length).Substring(0, $length)
    tidewire complete -- $line 2>$null | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_as_a_shell_does() {
        assert_eq!(words("tidewire call "), ["tidewire", "call", ""]);
        assert_eq!(words("a 'b c' \"d\\\"e\" f"), ["a", "b c", "d\"e", "f"]);
        assert_eq!(words("a -H 'x: y"), ["a", "-H", "x: y"]);
    }
}
