//! The page, as `npm run build` in `web/` made it.

use std::path::{Component, Path};

use tidewire::http::Method;
use tidewire::http::header::CONTENT_TYPE;
use tidewire::{Body, Builder, Call, Error, Reply, Result};

/// Adds the files of `web/dist`.
pub(crate) fn add_to(builder: Builder) -> Builder {
    builder.route(Method::GET, "/", async |_: Call| file("index.html")).route(
        Method::GET,
        "/assets/{*path}",
        async |call: Call| file(&format!("assets/{}", call.param::<String>("path")?)),
    )
}

fn file(path: &str) -> Result<Reply> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("web/dist");
    let is_inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let content = std::fs::read(folder.join(path)).ok().filter(|_| is_inside);
    let content = content.ok_or_else(|| {
        Error::not_found(format!("no {path}; build the page: npm ci && npm run build in web/"))
    })?;
    let kind = match path.rsplit('.').next() {
        Some("js") => "text/javascript",
        Some("css") => "text/css",
        _ => "text/html; charset=utf-8",
    };
    Reply::new(Body::from(content)).with_header(CONTENT_TYPE, kind)
}
