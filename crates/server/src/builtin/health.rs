//! `grpc.health.v1`: whether the server takes calls.
//!
//! Every service is SERVING from the start and NOT_SERVING once a drain began, so that load
//! balancers turn away before connections close. That is the last thing a watcher hears: a drain
//! does not wait for those who watch.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::unfold;
use tidewire_service::{Context, Error, Reply, RpcService, Service, Stream};
use tokio::sync::watch;

use crate::builtin::proto::grpc::health::v1::health_check_response::ServingStatus;
use crate::builtin::proto::grpc::health::v1::{
    HealthCheckRequest, HealthCheckResponse, HealthServer,
};
use crate::services::methods::Methods;
use crate::services::reloadable::ReloadableServices;

/// The health of a server and of its services; clones share it.
#[derive(Clone)]
pub(crate) struct Health {
    services: Arc<HashSet<String>>,
    offered: Option<Arc<ReloadableServices>>,
    serving: Arc<watch::Sender<bool>>,
}

impl Health {
    /// The health of a server with these services.
    pub(crate) fn new(
        services: impl IntoIterator<Item = String>,
        offered: Option<Arc<ReloadableServices>>,
    ) -> Self {
        Self {
            offered,
            services: Arc::new(services.into_iter().collect()),
            serving: Arc::new(watch::Sender::new(true)),
        }
    }

    /// The service that tells it.
    pub(crate) fn service(&self) -> impl RpcService + use<> {
        HealthServer::new(self.clone())
    }

    /// Adds it without layers: whoever probes has no credentials.
    pub(crate) fn add_to(&self, methods: &mut Methods) {
        let service = self.service();
        let interface = service.interface();
        let service: Arc<dyn Service> = Arc::new(service);
        let _ = methods.add(&interface, &service);
    }

    /// Reports every service as not serving from now on.
    pub(crate) fn shut_down(&self) {
        self.serving.send_replace(false);
    }

    /// Whether services are reported as serving.
    pub(crate) fn is_serving(&self) -> bool {
        *self.serving.borrow()
    }

    fn knows(&self, service: &str) -> bool {
        let offers = |offered: &Arc<ReloadableServices>| {
            offered.now().services.iter().any(|(interface, _)| interface.name() == service)
        };
        service.is_empty()
            || self.services.contains(service)
            || self.offered.as_ref().is_some_and(offers)
    }
}

const fn status(serving: bool) -> ServingStatus {
    if serving { ServingStatus::SERVING } else { ServingStatus::NOT_SERVING }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into(), ..Default::default() }
}

impl crate::builtin::proto::grpc::health::v1::Health for Health {
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
        let statuses = unfold(Some(changes), move |changes| async move {
            let mut changes = changes?;
            changes.changed().await.ok()?;
            let serving = *changes.borrow_and_update();
            let status = if known { status(serving) } else { ServingStatus::SERVICE_UNKNOWN };
            Some((Ok(response(status)), serving.then_some(changes)))
        });
        Ok(Stream::new(statuses).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::proto::grpc::health::v1::HealthClient;
    use tidewire_service::Code;

    fn health() -> (Health, HealthClient) {
        let health = Health::new(["a.B".to_owned()], None);
        let client = HealthClient::new(HealthServer::new(health.clone()));
        (health, client)
    }

    fn of(service: &str) -> HealthCheckRequest {
        HealthCheckRequest { service: service.to_owned(), ..Default::default() }
    }

    #[tokio::test]
    async fn every_service_serves_until_the_server_drains() {
        let (health, client) = health();
        for expected in [ServingStatus::SERVING, ServingStatus::NOT_SERVING] {
            for service in ["", "a.B"] {
                assert_eq!(client.check(of(service)).await.unwrap().body.status, expected);
            }
            let unknown = client.check(of("a.C")).await.unwrap_err();
            assert_eq!(unknown.code(), Code::NotFound);
            health.shut_down();
        }
    }

    #[tokio::test]
    async fn a_watcher_hears_of_the_drain_and_then_no_more() {
        for (service, before, after) in [
            ("", ServingStatus::SERVING, ServingStatus::NOT_SERVING),
            ("a.B", ServingStatus::SERVING, ServingStatus::NOT_SERVING),
            ("a.C", ServingStatus::SERVICE_UNKNOWN, ServingStatus::SERVICE_UNKNOWN),
        ] {
            let (health, client) = health();
            let mut statuses = client.watch(of(service)).await.unwrap().body;
            assert_eq!(statuses.next().await.unwrap().unwrap().status, before);
            health.shut_down();
            assert_eq!(statuses.next().await.unwrap().unwrap().status, after);
            assert!(statuses.next().await.unwrap().is_none(), "a drain does not wait for watchers");
            let mut late = client.watch(of(service)).await.unwrap().body;
            assert_eq!(late.next().await.unwrap().unwrap().status, after);
            assert!(late.next().await.unwrap().is_none());
        }
    }
}
