//! `System`: the program as a whole.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use tidewire_oplog::{SourceStatus, Status};
use tidewire_server::Handle;
use tidewire_service::{Context, Error, Reply, Result};

use crate::Admin;
use crate::proto::tidewire::admin::v1::{
    BoundReached, ChangeLog, DrainReply, DrainRequest, LoggedSource, OpenConsoleReply,
    OpenConsoleRequest, OverviewReply, OverviewRequest, SetLogLevelReply, SetLogLevelRequest,
    Setting, SettingsReply, SettingsRequest, System,
};
use crate::sign_in::is_of_console;

pub(crate) struct SystemApi {
    admin: Admin,
    handle: Handle,
    /// The level of the log, where it was set here.
    level: Mutex<Option<String>>,
}

impl SystemApi {
    pub(crate) fn new(admin: Admin, handle: Handle) -> Self {
        Self { admin, handle, level: Mutex::default() }
    }

    fn level(&self) -> MutexGuard<'_, Option<String>> {
        self.level.lock()
    }
}

impl System for SystemApi {
    async fn overview(&self, _: Context, _: OverviewRequest) -> Result<Reply<OverviewReply>> {
        Ok(overview(&self.admin, &self.handle).into())
    }

    async fn settings(&self, _: Context, _: SettingsRequest) -> Result<Reply<SettingsReply>> {
        let level = self.level().clone();
        let settings = self.admin.settings.iter().map(|setting| {
            let set = level.as_ref().filter(|_| setting.key == "log.level");
            Setting {
                key: setting.key.clone(),
                value: set.unwrap_or(&setting.value).clone(),
                origin: set.map_or_else(|| setting.origin.clone(), |_| SET_HERE.to_owned()),
                about: setting.about.clone(),
                ..Default::default()
            }
        });
        Ok(SettingsReply { settings: settings.collect(), ..Default::default() }.into())
    }

    async fn open_console(
        &self,
        context: Context,
        _: OpenConsoleRequest,
    ) -> Result<Reply<OpenConsoleReply>> {
        let nobody = || Error::unauthenticated("nobody calls");
        let principal = context.principal().cloned().ok_or_else(nobody)?;
        if is_of_console(&principal) {
            let text = "a console opens no other; run tidewire console";
            return Err(Error::permission_denied(text));
        }
        let code = self.admin.sign_in.code(principal, Instant::now());
        let code = code.map_err(|why| Error::internal(why.to_string()))?;
        Ok(OpenConsoleReply { code, ..Default::default() }.into())
    }

    async fn drain(&self, _: Context, _: DrainRequest) -> Result<Reply<DrainReply>> {
        tracing::warn!("a drain was asked for by the admin listener");
        self.handle.drain();
        Ok(DrainReply::default().into())
    }

    async fn set_log_level(
        &self,
        _: Context,
        request: SetLogLevelRequest,
    ) -> Result<Reply<SetLogLevelReply>> {
        let Some(set) = &self.admin.set_log_level else {
            return Err(Error::unimplemented("the log of this program cannot be changed"));
        };
        if request.level.trim().is_empty() {
            let text =
                "level is empty; write off, error, warn, info, debug, trace, or info,hyper=debug";
            return Err(Error::invalid_argument(text));
        }
        let mut level = self.level();
        set(&request.level).map_err(Error::invalid_argument)?;
        *level = Some(request.level.clone());
        drop(level);
        tracing::warn!(level = request.level, "the level of the log was set by the admin listener");
        Ok(SetLogLevelReply::default().into())
    }
}

/// Where a setting comes from that was set while the program runs.
const SET_HERE: &str = "the admin listener";

/// What it does now, in one look.
pub(crate) fn overview(admin: &Admin, handle: &Handle) -> OverviewReply {
    let usage = handle.usage();
    let bounds = usage.reached.iter().map(|(bound, times)| BoundReached {
        key: bound.key().to_owned(),
        times: *times,
        ..Default::default()
    });
    OverviewReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: handle.is_ready(),
        uptime_ms: u64::try_from(admin.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        connections_open: usage.connections_open as u64,
        connections_accepted: usage.connections_accepted,
        calls_waiting: usage.calls_waiting as u64,
        commands_running: usage.commands_running as u64,
        bounds: bounds.collect(),
        change_log: admin.inventory.oplog().map(|log| change_log(&log.status())).into(),
        addresses: handle.addresses().iter().map(ToString::to_string).collect(),
        tls: handle.is_tls(),
        mocks: admin.inventory.has_mock(),
        ..Default::default()
    }
}

fn change_log(status: &Status) -> ChangeLog {
    let micros = |time: Option<Duration>| crate::micros(time.unwrap_or_default());
    let source = |source: &SourceStatus| LoggedSource {
        name: source.name.clone(),
        tables: source.tables.clone(),
        problem: source.problem.clone().unwrap_or_default(),
        ..Default::default()
    };
    ChangeLog {
        position: status.position.clone().unwrap_or_default(),
        lag_us: micros(status.lag),
        poll_us: micros(status.poll_time),
        lease_remaining_ms: micros(Some(status.lease_remaining)) / 1000,
        suspended: status.is_suspended,
        problem: status.problem.clone().unwrap_or_default(),
        hosts: status.hosts.unwrap_or_default(),
        rows: status.rows.unwrap_or_default(),
        sources: status.sources.iter().map(source).collect(),
        ..Default::default()
    }
}
