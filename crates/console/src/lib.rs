//! The files of the console, for whoever serves it.
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

/// Every file.
pub const FILES: &[File] = files! {
    "index.html" PAGE
    "style.css" STYLE
    "icon.svg" IMAGE
    "app.js" SCRIPT
    "session.js" SCRIPT
    "api.js" SCRIPT
    "ui.js" SCRIPT
    "text.js" SCRIPT
    "mocks.js" SCRIPT
    "calls.js" SCRIPT
    "cache.js" SCRIPT
    "services.js" SCRIPT
    "processes.js" SCRIPT
    "health.js" SCRIPT
    "settings.js" SCRIPT
    "form.js" SCRIPT
    "commands.js" SCRIPT
    "preact.js" SCRIPT
};
