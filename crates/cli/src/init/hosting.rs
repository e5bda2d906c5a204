//! A `tidewire.toml` that hosts the program of a folder: Node, Python, Go or PHP.
//!
//! | found | run |
//! |---|---|
//! | `package.json` with `scripts.start` | what it says where that is `node FILE`, else `npm run start` |
//! | `requirements.txt` or `pyproject.toml` that names a server, and an application | that server |
//! | `go.mod` and a `package main` | the program that `go build` makes |
//! | `index.php`, or one in `public` | PHP's own server |
//!
//! Only names of files and their text are looked at; nothing is run or installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A program that can be hosted.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The file by which it was found.
    file: &'static str,
    /// What it is: `a Node program`.
    what: String,
    run: Vec<String>,
    /// `unix`; nothing where it listens at a port.
    listen: Option<&'static str>,
    /// What has to be done before it can be started.
    before: Option<String>,
    /// What the program has to do, which nobody can see from outside.
    needs: Option<&'static str>,
    /// Whether it serves methods by Tidewire's library.
    uses_library: bool,
}

impl Program {
    /// Whether it serves methods by Tidewire's library.
    pub(crate) fn uses_library(&self) -> bool {
        self.uses_library
    }

    /// The steps until a server runs.
    pub(crate) fn next(&self, folder: &Path) -> String {
        let mut steps: Vec<&str> = self.before.as_deref().into_iter().collect();
        steps.push("tidewire serve");
        let there = match folder == Path::new(".") {
            true => String::new(),
            false => format!("cd {} && ", folder.display()),
        };
        format!("next: {there}{}", steps.join(" && "))
    }

    /// The `[[service]]` that hosts it; `place` is where it is found: `route = "/*"`.
    pub(crate) fn service(&self, folder: &Path, place: &str) -> anyhow::Result<String> {
        let name = super::project::package_name(&std::path::absolute(folder)?);
        let listen = self.listen.map_or_else(String::new, |how| format!("listen = {how:?}\n"));
        Ok(format!(
            "# Started by its first request, and ended when nobody has asked for 5 minutes.\n\
             [[service]]\nname = {name:?}\n{place}\nrun = {:?}\n{listen}idle_stop = \"5m\"\n",
            self.run
        ))
    }
}

/// The program of a folder, if there is one that can be hosted.
///
/// # Errors
/// A program that was found and cannot be started, with what it lacks.
pub(crate) fn find(folder: &Path) -> anyhow::Result<Option<Program>> {
    for look in [node, python, go, php] {
        if let Some(found) = look(folder)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What it was found by, for people.
pub(crate) fn name(found: &Program) -> String {
    format!("{} ({})", found.what, found.file)
}

/// Writes the settings; what to say of them.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(folder: &Path, found: &Program) -> anyhow::Result<Vec<String>> {
    let text = format!("{}\n{}", super::settings::HEAD, found.service(folder, "route = \"/*\"")?);
    let path = folder.join("tidewire.toml");
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut lines = vec![format!("{}: {}", found.file, found.what)];
    lines.push(format!("wrote {}: every path goes to {}", path.display(), found.run.join(" ")));
    lines.extend(found.needs.map(str::to_owned));
    lines.push(found.next(folder));
    lines.push("then: curl http://127.0.0.1:8080/".to_owned());
    Ok(lines)
}

fn node(folder: &Path) -> anyhow::Result<Option<Program>> {
    let Some(text) = read(folder, "package.json") else { return Ok(None) };
    let package: serde_json::Value =
        serde_json::from_str(&text).context("package.json is not JSON")?;
    let start = package["scripts"]["start"].as_str().unwrap_or_default().trim();
    if start.is_empty() {
        anyhow::bail!(
            "package.json has no script `start`; add one, such as \"start\": \"node server.js\", \
             and run tidewire init again"
        );
    }
    let words: Vec<&str> = start.split_whitespace().collect();
    let is_plain = start.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=: ".contains(c));
    // npm stands between the gateway and the program, and costs each start.
    let run: Vec<String> = match words[..] {
        ["node", _, ..] if is_plain => words.iter().map(|&word| word.to_owned()).collect(),
        _ => ["npm", "run", "--silent", "start"].map(str::to_owned).to_vec(),
    };
    let has_packages =
        package["dependencies"].as_object().is_some_and(|packages| !packages.is_empty());
    let is_installed = !has_packages || folder.join("node_modules").exists();
    let is_dependency = package["dependencies"].get("tidewire").is_some();
    // It may have been copied, too.
    let is_in_sources = || {
        let sources = words.iter().filter(|word| is_script(word));
        sources.filter_map(|name| read(folder, name)).any(|text| text.contains("tidewire"))
    };
    Ok(Some(Program {
        uses_library: is_dependency || is_in_sources(),
        file: "package.json",
        what: format!("a Node program, started by `{start}`"),
        run,
        before: (!is_installed).then(|| "npm install".to_owned()),
        needs: Some("it has to listen at the port that the variable PORT names"),
        ..Program::default()
    }))
}

fn is_script(word: &str) -> bool {
    [".js", ".mjs", ".cjs", ".ts"].into_iter().any(|end| word.ends_with(end))
}

/// A server of Python: its name in requirements, whether it serves ASGI, and how it is told where
/// to listen and what to serve.
struct PythonServer {
    name: &'static str,
    is_asgi: bool,
    words: &'static [&'static str],
}

const PYTHON_SERVERS: [PythonServer; 6] = [
    PythonServer {
        name: "uvicorn",
        is_asgi: true,
        words: &["uvicorn", "--uds", "{socket}", "APP"],
    },
    PythonServer {
        name: "hypercorn",
        is_asgi: true,
        words: &["hypercorn", "--bind", "unix:{socket}", "APP"],
    },
    PythonServer { name: "daphne", is_asgi: true, words: &["daphne", "-u", "{socket}", "APP"] },
    PythonServer {
        name: "gunicorn",
        is_asgi: false,
        words: &["gunicorn", "--bind", "unix:{socket}", "APP"],
    },
    PythonServer {
        name: "waitress",
        is_asgi: false,
        words: &["waitress-serve", "--unix-socket={socket}", "APP"],
    },
    PythonServer {
        name: "flask",
        is_asgi: false,
        words: &["flask", "--app", "APP", "run", "--port", "{port}"],
    },
];

fn python(folder: &Path) -> anyhow::Result<Option<Program>> {
    let files = ["requirements.txt", "pyproject.toml"];
    let Some((file, text)) = files.into_iter().find_map(|it| Some((it, read(folder, it)?))) else {
        return Ok(None);
    };
    let Some((app, is_asgi)) = application(folder) else {
        anyhow::bail!(
            "{file} is there and no application was found: a line such as app = Flask(__name__) or \
             app = FastAPI() in a file of this folder; write [[service]] with run by hand, see \
             docs/guide/hosting.md"
        );
    };
    let text = text.to_lowercase();
    let is_named = |name: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c))
            .any(|word| word.replace('_', "-") == name)
    };
    let named = PYTHON_SERVERS.into_iter().filter(|it| is_named(it.name));
    let mut fitting = named.filter(|it| it.is_asgi == is_asgi || it.name == "hypercorn");
    let Some(PythonServer { name: server, words, .. }) = fitting.next() else {
        let kind = if is_asgi { "uvicorn, hypercorn or daphne" } else { "gunicorn or waitress" };
        anyhow::bail!("{file} names no server for {app}; add {kind}, and run tidewire init again");
    };
    let mut run: Vec<String> = words.iter().map(|word| word.replace("APP", &app)).collect();
    let environments = [".venv", "venv"].map(|folder| format!("{folder}/bin/{}", run[0]));
    let installed = environments.into_iter().find(|path| folder.join(path).exists());
    let is_found = installed.is_some() || is_on_path(&run[0]);
    if let Some(path) = installed {
        run[0] = path;
    }
    let install = match file {
        "requirements.txt" => "pip install -r requirements.txt",
        _ => "pip install .",
    };
    Ok(Some(Program {
        file,
        what: format!("a Python application, {app}, served by {server}"),
        listen: run.iter().any(|word| word.contains("{socket}")).then_some("unix"),
        run,
        before: (!is_found).then(|| install.to_owned()),
        ..Program::default()
    }))
}

/// `module:name` of an application in a folder, and whether it speaks ASGI.
fn application(folder: &Path) -> Option<(String, bool)> {
    const KINDS: [(&str, bool); 10] = [
        ("Flask(", false),
        ("Bottle(", false),
        ("falcon.App(", false),
        ("get_wsgi_application(", false),
        ("FastAPI(", true),
        ("Starlette(", true),
        ("Quart(", true),
        ("Litestar(", true),
        ("falcon.asgi.App(", true),
        ("get_asgi_application(", true),
    ];
    let of_file = |path: &PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        let (name, is_asgi) = text.lines().find_map(|line| {
            let (name, made) = line.split_once('=')?;
            let name = name.split(':').next()?.trim_end();
            let is_name =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let (_, is_asgi) =
                KINDS.into_iter().find(|(kind, _)| made.trim_start().starts_with(kind))?;
            is_name.then_some((name.to_owned(), is_asgi))
        })?;
        let module = path.strip_prefix(folder).ok()?.with_extension("");
        let parts: Vec<_> = module.iter().map(|part| part.to_string_lossy()).collect();
        Some((format!("{}:{name}", parts.join(".")), is_asgi))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        // The packages of a project, and those of Django.
        if path.is_dir() && !entry.file_name().to_string_lossy().contains(['.', '-']) {
            let inner = fs::read_dir(&path).into_iter().flatten().flatten();
            files.extend(inner.map(|entry| entry.path()).filter(|path| is_python(path)));
        } else if is_python(&path) {
            files.push(path);
        }
    }
    files.sort_by_key(|path| (path.components().count(), path.clone()));
    files.iter().find_map(of_file)
}

fn is_python(path: &Path) -> bool {
    let is_test = |name: &str| name.starts_with("test_") || name == "conftest.py";
    path.extension().is_some_and(|end| end == "py")
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| !is_test(name))
}

fn go(folder: &Path) -> anyhow::Result<Option<Program>> {
    if read(folder, "go.mod").is_none() {
        return Ok(None);
    }
    let commands = fs::read_dir(folder.join("cmd")).into_iter().flatten().flatten();
    let mut commands: Vec<_> = commands.map(|entry| entry.path()).collect();
    commands.sort();
    let Some(package) =
        [folder.to_owned()].into_iter().chain(commands).find(|package| has_main(package))
    else {
        anyhow::bail!(
            "go.mod is there and no `package main`, neither here nor below cmd; write [[service]] \
             with run by hand, see docs/guide/hosting.md"
        );
    };
    let below = package.strip_prefix(folder).unwrap_or(&package);
    let source = match below.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => format!("./{}", below.display()),
    };
    let name = super::project::package_name(&std::path::absolute(&package)?);
    // One that is not on the way of a package with the same name.
    let program = format!("./{name}.bin");
    Ok(Some(Program {
        file: "go.mod",
        what: format!("a Go program, {source}"),
        run: vec![program.clone()],
        before: Some(format!("go build -o {program} {source}")),
        needs: Some("it has to listen at the port that the variable PORT names"),
        ..Program::default()
    }))
}

fn has_main(package: &Path) -> bool {
    let files = fs::read_dir(package).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sources = files.filter(|path| path.extension().is_some_and(|end| end == "go"));
    sources.any(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.trim_end() == "package main") && text.contains("func main()")
    })
}

fn php(folder: &Path) -> anyhow::Result<Option<Program>> {
    let found =
        ["public/index.php", "index.php"].into_iter().find(|file| folder.join(file).exists());
    Ok(found.map(|file| {
        let mut run = ["php", "-S", "127.0.0.1:{port}"].map(str::to_owned).to_vec();
        if file.starts_with("public") {
            run.extend(["-t", "public"].map(str::to_owned));
        }
        Program {
            file,
            what: "a PHP site, served by PHP's own server".to_owned(),
            run,
            ..Program::default()
        }
    }))
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is run for a folder of these files; or why not.
    fn run(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        match find(folder.path()) {
            Ok(Some(found)) => found.run.join(" "),
            Ok(None) => "nothing".to_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn programs_are_found_by_their_files() {
        let package = |start: &str| format!(r#"{{"scripts": {{"start": "{start}"}}}}"#);
        assert_eq!(run(&[("package.json", &package("node server.js"))]), "node server.js");
        let shell = package("NODE_ENV=production node server.js && true");
        assert_eq!(run(&[("package.json", &shell)]), "npm run --silent start");
        assert!(run(&[("package.json", "{}")]).starts_with("error: package.json has no script"));
        let flask = ("app.py", "from flask import Flask\napp = Flask(__name__)\n");
        assert_eq!(
            run(&[("requirements.txt", "Flask==3.1\ngunicorn>=23\n"), flask]),
            "gunicorn --bind unix:{socket} app:app"
        );
        assert_eq!(
            run(&[("requirements.txt", "flask\n"), flask]),
            "flask --app app:app run --port {port}"
        );
        let fast = ("api/main.py", "from fastapi import FastAPI\nservice: FastAPI = FastAPI()\n");
        let project =
            ("pyproject.toml", "dependencies = [\"fastapi\", \"uvicorn[standard]>=0.3\"]");
        assert_eq!(run(&[project, fast]), "uvicorn --uds {socket} api.main:service");
        let only = run(&[("pyproject.toml", "dependencies = [\"fastapi\"]"), fast]);
        assert!(only.starts_with("error: pyproject.toml names no server"), "{only}");
        let django = ("site/wsgi.py", "application = get_wsgi_application()\n");
        assert_eq!(
            run(&[("requirements.txt", "django\nwaitress\n"), django]),
            "waitress-serve --unix-socket={socket} site.wsgi:application"
        );
        assert!(run(&[("requirements.txt", "numpy\n")]).contains("no application was found"));
        let main = "package main\n\nfunc main() {}\n";
        let module = ("go.mod", "module shop\n");
        assert!(run(&[module, ("main.go", main)]).starts_with("./"));
        assert_eq!(run(&[module, ("cmd/shop/main.go", main)]), "./shop.bin");
        assert!(run(&[module, ("a.go", "package shop\n")]).starts_with("error: go.mod is there"));
        assert_eq!(run(&[("index.php", "<?php")]), "php -S 127.0.0.1:{port}");
        assert_eq!(run(&[("public/index.php", "")]), "php -S 127.0.0.1:{port} -t public");
        assert_eq!(run(&[("readme", "")]), "nothing");
    }
}
