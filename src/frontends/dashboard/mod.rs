//! The page that the HTTP port has for people: what is served, and how it does.
//!
//! The server writes it whole, so that it tells everything at the first look and without scripts
//! (`page.rs`, `templates/`). Its script (`page.js`) then asks for the state every two seconds
//! (`state.rs`), for cards that have changed, and for drawings that come into view (`image.rs`).
//! `view.rs` is what is known of a servable, `ask.rs` which of them are meant. Nothing of this writes
//! anything, keeps figures of its own, or grows with the number of those who look.

mod ask;
mod attempt;
mod image;
mod markup;
mod page;
mod routes;
mod state;
mod view;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use axum::http::HeaderValue;
use tokio::{sync::SetOnce, time::timeout};

use self::{image::Images, state::Device};
use super::rest::Port;
use crate::{
    config::ServerSettings,
    metrics::Family,
    openvino::runtime,
    task::{self, Task},
};

pub(super) use routes::routes;

/// The families that it shows, which are to be counted whether there is a page of figures or not.
pub const COUNTED: [Family; 1] = [Family::RequestTime];

/// How long a page waits for the list of devices; one that comes later is on the next page.
const DEVICES: Duration = Duration::from_secs(5);

/// State of the page: the engine, and data kept between calls.
pub(super) struct Dashboard {
    runtime: Option<String>,
    started: Instant,
    started_ms: u64,
    /// Asked for when somebody first looks, since it opens what belongs to each of them.
    devices: SetOnce<Vec<Device>>,
    /// Whether that was asked.
    is_asked: AtomicBool,
    images: Arc<Images>,
    port: Option<u16>,
    rest_port: Option<u16>,
    /// The one that it is looked at through.
    looked_through: Port,
    /// Content security policy of the page.
    policy: HeaderValue,
    /// Content security policy of its parts.
    policy_of_parts: HeaderValue,
}

impl Dashboard {
    /// Makes the page of a server that has just begun.
    pub(super) fn new(settings: &ServerSettings, looked_through: Port) -> Arc<Self> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let started_ms = since_1970.unwrap_or_default().as_millis();
        Arc::new(Self {
            runtime: runtime::version(),
            started: Instant::now(),
            started_ms: u64::try_from(started_ms).unwrap_or_default(),
            devices: SetOnce::new(),
            is_asked: AtomicBool::new(false),
            images: Arc::default(),
            port: settings.port,
            rest_port: settings.rest_port,
            looked_through,
            policy: page::policy(),
            policy_of_parts: page::policy_of_parts(),
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
