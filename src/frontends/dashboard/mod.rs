//! The page that the HTTP port has for people: what is served, and how it does.
//!
//! The server writes it whole, so that it shows everything at the first look and without scripts
//! (`paths.rs`, `page.rs`, `templates/`). Its scripts (`scripts/`) then ask for the state every two seconds
//! (`state.rs`; `ask.rs` reads queries), for the last fifteen minutes (`history/`), for cards that have changed,
//! and for drawings that come into view (`image.rs`). `view.rs` and `nodes.rs` are what is known of a servable, and
//! `attempt.rs` has the lines that try it. Nothing of this writes anything, or grows with the number of those who look.
//!
//! Each servable has a page of its own, from which a browser sends it requests; they are requests as any, over the
//! paths that are there for all.

mod ask;
mod attempt;
#[cfg(test)]
mod contrast;
mod history;
mod image;
mod nodes;
mod page;
mod paths;
mod state;
mod view;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::{sync::SetOnce, time::timeout};

pub use self::history::History;
use self::{image::Images, page::Policies, state::Device};
pub(super) use self::{
    page::still_policy,
    paths::{of_browser, routes},
};
use super::routes::HttpPort;
use crate::{
    config::ServerSettings,
    metrics::Family,
    openvino::runtime,
    task::{self, Task},
};

/// The families that it shows, which are to be counted whether there is a page of figures or not.
pub const COUNTED: [Family; 2] = [Family::RequestTime, Family::NodeTime];

/// Time that a page waits for the list of devices; one that comes later is on the next page.
const DEVICES: Duration = Duration::from_secs(5);

/// State of the page: the engine, and data kept between calls.
pub(super) struct Dashboard {
    /// Name of the machine.
    host: Option<String>,
    history: Arc<History>,
    runtime: Option<String>,
    started: Instant,
    started_ms: u64,
    /// Asked for when somebody first looks, since it opens what belongs to each of them.
    devices: SetOnce<Vec<Device>>,
    /// Indicates that the devices have been asked for.
    is_asked: AtomicBool,
    images: Arc<Images>,
    port: Option<u16>,
    rest_port: Option<u16>,
    /// Unix sockets of gRPC and REST, as `unix:PATH`.
    sockets: [Option<String>; 2],
    /// Use of TLS on the ports of gRPC and REST.
    tls: [bool; 2],
    /// The one that it is looked at through.
    looked_through: HttpPort,
    policies: Policies,
}

impl Dashboard {
    /// Makes the page of a server that has just begun.
    pub(super) fn new(
        settings: &ServerSettings,
        looked_through: HttpPort,
        history: Arc<History>,
    ) -> Arc<Self> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let flags = &settings.flags;
        let started_ms = since_1970.unwrap_or_default().as_millis();
        Arc::new(Self {
            host: host(),
            history,
            runtime: runtime::version(),
            started: Instant::now(),
            started_ms: u64::try_from(started_ms).unwrap_or_default(),
            devices: SetOnce::new(),
            is_asked: AtomicBool::new(false),
            images: Arc::default(),
            port: settings.port,
            rest_port: settings.rest_port,
            sockets: [&flags.grpc_unix_socket, &flags.rest_unix_socket].map(|path| {
                let path = path.as_ref()?;
                Some(format!("unix:{}", path.display()))
            }),
            tls: settings
                .tls
                .as_ref()
                .map_or([false; 2], |tls| [tls.grpc, tls.rest]),
            looked_through,
            policies: Policies::new(),
        })
    }

    /// Finds out which devices there are, once: a driver that hangs takes one thread, however many
    /// look and leave.
    async fn look_for_devices(self: &Arc<Self>) {
        if !self.is_asked.swap(true, Ordering::Relaxed) {
            let this = Arc::clone(self);
            Task::spawn(async move {
                let devices = task::blocking("list devices", runtime::devices_of_opened).await;
                let devices = devices.into_iter();
                let devices = devices.map(|device| Device {
                    name: device.name,
                    full_name: Some(device.full_name).filter(|name| !name.is_empty()),
                });
                // It is set here alone.
                let _ = this.devices.set(devices.collect());
            })
            .detach();
        }
        // Without the list the page is good as well.
        let _ = timeout(DEVICES, self.devices.wait()).await;
    }
}

/// Returns the name of the machine, if the system has one.
fn host() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty() && name != "(none)")
}
