//! Random paths, and simple programs that read them, each in a way that some real one has: what any
//! of them takes for a protected page is let pass for nobody.

use http::{Method, Uri};
use tidewire_service::{Access, Admission, Context, Gate, Head, HttpTarget, Target};

use super::access::{AccessGate, AccessRules};

/// How a program reads a path. None uses what the gate is made of.
type Program = (&'static str, fn(&str) -> String);

const PROGRAMS: [Program; 9] = [
    ("C", c_string),
    ("Python", python_handler),
    ("Python's files", python_files),
    ("a servlet", servlet),
    ("Fastify", fastify),
    ("Express", |path| unescape(path).to_lowercase()),
    ("nginx", |path| walk(&unescape(path))),
    ("nginx without merge_slashes", |path| walk_with_empty(&unescape(path))),
    ("Windows", windows),
];

/// What paths are made of: what is plain comes more often.
const PIECES: [&str; 52] = [
    "/", "/", "/", "/", "/", "/", "/", "/", "//", "///", "admin", "admin", "admin", "admin",
    "login", "login", "login", "secret", "secret", "secret", "x", "x", "ADMIN", "%61dmin",
    "log%69n", "Secret", "%2f", "%2F", "%5c", "\\", ";", ";x=1", ";a/b", "%3b", "%00", "%00", ".",
    "..", "%2e", "%2e%2e", "%20", ".", "%0a", "%3f", "%23", "%25", "@", ":", "+", "=", "%c3%a9",
    "...",
];

#[test]
fn no_path_passes_that_a_program_reads_as_protected() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(u64::from(seed));
    let (whole, mounted) = (gate(""), gate("/app"));
    for _ in 0..3000 {
        let count = random.usize(1..10);
        let path = (0..count).map(|_| PIECES[random.usize(..PIECES.len())]).collect::<String>();
        let path = format!("/{path}");
        let Some(who) = who_is_protected(&path) else { continue };
        assert!(!passes(&whole, &path), "seed {seed}: {path} as {who} reads it");
        // The prefix of its route is taken off before the program sees it.
        let below = format!("/app{path}");
        assert!(!passes(&mounted, &below), "seed {seed}: {below} as {who} reads it");
    }
}

/// The program, or a program behind another, that takes a path for a protected one.
fn who_is_protected(path: &str) -> Option<String> {
    PROGRAMS.iter().find_map(|(name, read)| {
        let seen = read(path);
        if is_protected(&seen) {
            return Some((*name).to_owned());
        }
        let behind = PROGRAMS.iter().find(|(_, read)| is_protected(&read(&seen)));
        behind.map(|(behind, _)| format!("{behind} behind {name}"))
    })
}

fn gate(prefix: &str) -> AccessGate {
    let at = |path| format!("{prefix}{path}");
    let rules = AccessRules::default()
        .path(&at("/secret"), Access::Authenticated)
        .path(&at("/admin/*"), Access::Authenticated)
        .path(&at("/admin/login/*"), Access::Anonymous);
    rules.gate(std::iter::empty()).unwrap().unwrap()
}

/// The same rules, as a program has them that knows one path only.
fn is_protected(path: &str) -> bool {
    let is_below = |folder: &str| path == folder || path.starts_with(&format!("{folder}/"));
    path == "/secret" || is_below("/admin") && !is_below("/admin/login")
}

fn passes(gate: &AccessGate, path: &str) -> bool {
    // What is no URI is refused before.
    let Ok(uri) = Uri::try_from(path) else { return false };
    let target = Target::Http(HttpTarget::new(Method::GET, uri));
    match gate.admit(&mut Head::new(target, Context::default())) {
        Admission::Ready(decision) => decision.is_ok(),
        _ => panic!("it decides at once"),
    }
}

fn c_string(path: &str) -> String {
    let decoded = unescape(path);
    decoded.chars().take_while(|c| *c != '\0').collect()
}

/// `http.server`: extra slashes are dropped where the path begins, and nowhere else.
fn python_handler(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// `SimpleHTTPRequestHandler.translate_path`.
fn python_files(path: &str) -> String {
    let path = python_handler(path);
    let end = path.find(['?', '#']).unwrap_or(path.len());
    walk(&unescape(&path[..end]))
}

fn servlet(path: &str) -> String {
    let mut bare = String::new();
    let mut is_parameter = false;
    for c in path.chars() {
        is_parameter = c != '/' && (is_parameter || c == ';');
        if !is_parameter {
            bare.push(c);
        }
    }
    walk(&unescape(&bare))
}

/// find-my-way: what is reserved in a URI stays encoded until a route is found.
fn fastify(path: &str) -> String {
    let mut kept = path.to_owned();
    for reserved in ["2f", "3b", "3f", "23", "40", "3a", "2b", "3d"] {
        kept = kept.replace(&format!("%{reserved}"), &format!("%25{reserved}"));
        let upper = reserved.to_uppercase();
        kept = kept.replace(&format!("%{upper}"), &format!("%25{upper}"));
    }
    unescape(&kept)
}

/// Win32: both slashes, no case, no dots and spaces at the end of a name.
fn windows(path: &str) -> String {
    let turned = c_string(path).replace('\\', "/").to_lowercase();
    let names = turned.split('/').map(|name| match name {
        "." | ".." => name,
        name => name.trim_end_matches([' ', '.']),
    });
    walk(&names.collect::<Vec<_>>().join("/"))
}

fn unescape(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Goes through a path name by name, as a file system does.
fn walk(path: &str) -> String {
    walked(path.split('/').filter(|name| !name.is_empty()))
}

/// The same where nothing between two slashes is a name.
fn walk_with_empty(path: &str) -> String {
    walked(path.split('/').skip(1))
}

fn walked<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut at = Vec::new();
    for name in names {
        match name {
            "." => {}
            ".." => _ = at.pop(),
            name => at.push(name),
        }
    }
    format!("/{}", at.join("/"))
}
