//! `/mcp`: the services of this listener as tools for assistants, over streamable HTTP.
//!
//! The guard has let the request come; tools are called in this program. Tools that change
//! something are there at `/mcp?allow=act`, for whoever may change something.

use std::sync::Arc;

use http::StatusCode;
use tidewire_mcp::{Allow, Tools};
use tidewire_server::{Builder, tower};
use tidewire_service::{Answer, Call, Error, Principal, Service, Target};

use crate::service_table::ServiceTable;
use crate::{ACT, Inventory, guard};

/// Serves `/mcp`.
pub(crate) fn serve(builder: Builder, served: ServiceTable, inventory: Inventory) -> Builder {
    let tools = Tools::new(crate::descriptors(), Arc::new(served), Allow::Read, false);
    match tools {
        Ok(tools) => builder.mount("/mcp", Assistants { tools, inventory }),
        Err(why) => {
            tracing::error!("there is no /mcp: {why}");
            builder
        }
    }
}

struct Assistants {
    tools: Tools,
    inventory: Inventory,
}

impl Service for Assistants {
    fn call(&self, call: Call) -> Answer {
        let Target::Http(target) = &call.target else {
            return Answer::ready(Err(Error::unimplemented("only plain HTTP requests go here")));
        };
        if target.method == http::Method::POST && !guard::is_said_to_be_data(call.context.headers())
        {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let error = Error::invalid_argument("send JSON").with_http_status(status);
            return Answer::ready(Err(error));
        }
        let query = target.uri.query().unwrap_or_default();
        let asks = query.split('&').any(|pair| pair == "allow=act");
        let may = call.context.principal().is_some_and(|caller: &Principal| caller.has_scope(ACT));
        let allow = if asks && may { Allow::Act } else { Allow::Read };
        let tools = self.tools.for_caller(allow, self.inventory.has_mock());
        tower(tools.over_http()).call(call)
    }
}
