//! Services without code of their own, put into a server: what `serve` starts and `check` tries.

use anyhow::bail;
use tidewire::config::{Backend, ServiceConfig};
use tidewire::{Builder, Echo, Schema};

/// The services of `schema` that are asked for, added to `builder`; `names` gets their names.
///
/// # Errors
/// A service that is not there, an upstream that cannot be used, options that make no sense.
pub(crate) fn add(
    mut builder: Builder,
    service: &ServiceConfig,
    schema: &Schema,
    names: &mut Vec<String>,
) -> anyhow::Result<Builder> {
    let wanted: Vec<String> = if service.names.is_empty() {
        schema.services().map(str::to_owned).collect()
    } else {
        service.names.clone()
    };
    let upstream = match service.backend {
        Backend::Upstream => Some(service.upstream(schema)?),
        _ => None,
    };
    for name in wanted {
        builder = match (service.backend, &upstream) {
            (Backend::Upstream, Some(upstream)) => {
                builder.service(schema.serve(&name, upstream.clone())?)
            }
            // What a program answers is known to its host, which `check` has not.
            (Backend::Echo | Backend::Program, _) => {
                builder.service(schema.implement(&name, Echo::new(schema))?)
            }
            _ => bail!("backend of {name} is not known to this program"),
        };
        names.push(name);
    }
    Ok(builder)
}
