//! `grpc.health.v1`: whether the server takes calls.
//!
//! Every service is SERVING from the start and NOT_SERVING once a drain began, so that load
//! balancers turn away before connections close.

mod proto {
    include!(concat!(env!("OUT_DIR"), "/tidewire.rs"));
}

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::unfold;
use tidewire_service::{Context, Error, Reply, RpcService, Stream};
use tokio::sync::watch;

use self::proto::grpc::health::v1::health_check_response::ServingStatus;
use self::proto::grpc::health::v1::{HealthCheckRequest, HealthCheckResponse, HealthServer};

/// The health of a server and of its services; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    services: Arc<HashSet<String>>,
    serving: Arc<watch::Sender<bool>>,
}

impl Health {
    /// The health of a server with these services.
    pub(crate) fn new(services: impl IntoIterator<Item = String>) -> Self {
        Self {
            services: Arc::new(services.into_iter().collect()),
            serving: Arc::new(watch::Sender::new(true)),
        }
    }

    /// The service that tells it.
    pub(crate) fn service(&self) -> impl RpcService + use<> {
        HealthServer::new(self.clone())
    }

    /// Reports every service as not serving from now on.
    pub(crate) fn shut_down(&self) {
        self.serving.send_replace(false);
    }

    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.contains(service)
    }
}

const fn status(serving: bool) -> ServingStatus {
    if serving { ServingStatus::SERVING } else { ServingStatus::NOT_SERVING }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into(), ..Default::default() }
}

impl proto::grpc::health::v1::Health for Health {
    async fn check(
        &self,
        _: Context,
        request: HealthCheckRequest,
    ) -> Result<Reply<HealthCheckResponse>, Error> {
        if !self.knows(&request.service) {
            return Err(Error::not_found(format!("this server has no {}", request.service)));
        }
        Ok(response(status(*self.serving.borrow())).into())
    }

    async fn watch(
        &self,
        _: Context,
        request: HealthCheckRequest,
    ) -> Result<Reply<Stream<HealthCheckResponse>>, Error> {
        let known = self.knows(&request.service);
        let mut changes = self.serving.subscribe();
        changes.mark_changed();
        let statuses = unfold(changes, move |mut changes| async move {
            changes.changed().await.ok()?;
            let serving = *changes.borrow_and_update();
            let status = if known { status(serving) } else { ServingStatus::SERVICE_UNKNOWN };
            Some((Ok(response(status)), changes))
        });
        Ok(Stream::new(statuses).into())
    }
}
