//! The files of the console and of the docs page, for whoever serves them.
//!
//! They are part of the program, as they are committed: there is no step that makes them, and
//! nothing is loaded from elsewhere.

#![doc = include_str!("../README.md")]

/// A file that a browser loads.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// Its name: `index.html` is the page, all others are beside each other.
    pub name: &'static str,
    /// What it is, `text/javascript; charset=utf-8`.
    pub content_type: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal $kind:ident)*) => {
        &[$(File {
            name: $name,
            content_type: $kind,
            bytes: include_bytes!(concat!("../web/", $name)),
        }),*]
    };
}

const PAGE: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// The files of the console: `index.html` is the page.
pub const CONSOLE: &[File] = files! {
    "index.html" PAGE
    "style.css" STYLE
    "icon.svg" IMAGE
    "app.js" SCRIPT
    "session.js" SCRIPT
    "api.js" SCRIPT
    "connect.js" SCRIPT
    "ui.js" SCRIPT
    "parts.js" SCRIPT
    "keys.js" SCRIPT
    "text.js" SCRIPT
    "mocks.js" SCRIPT
    "calls.js" SCRIPT
    "cache.js" SCRIPT
    "services.js" SCRIPT
    "processes.js" SCRIPT
    "health.js" SCRIPT
    "load.js" SCRIPT
    "chart.js" SCRIPT
    "rest.js" SCRIPT
    "settings.js" SCRIPT
    "request.js" SCRIPT
    "form.js" SCRIPT
    "commands.js" SCRIPT
    "preact.js" SCRIPT
};

/// The files of the docs page of a service: `docs.html` is the page.
pub const DOCS: &[File] = files! {
    "docs.html" PAGE
    "style.css" STYLE
    "icon.svg" IMAGE
    "docs.js" SCRIPT
    "rest.js" SCRIPT
    "connect.js" SCRIPT
    "parts.js" SCRIPT
    "keys.js" SCRIPT
    "text.js" SCRIPT
    "request.js" SCRIPT
    "form.js" SCRIPT
    "commands.js" SCRIPT
    "preact.js" SCRIPT
};

/// Headers of the response with each file: only files of the same listener run, no text becomes
/// markup, and nothing is loaded from elsewhere.
pub const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";
