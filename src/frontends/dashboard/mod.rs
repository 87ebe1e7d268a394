//! The page that the HTTP port has for people: what is served, and how it does.
//!
//! The server writes it whole, so that it tells everything at the first look and without scripts
//! (`page.rs`, `templates/`). Its script (`page.js`) then asks for the state every two seconds
//! (`state.rs`, which reads queries as well), for cards that have changed, and for drawings that come into
//! view (`image.rs`). `view.rs` is what is known of a servable. Nothing of this writes
//! anything, keeps figures of its own, or grows with the number of those who look.

mod attempt;
mod image;
mod page;
mod state;
mod view;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use axum::{
    Extension,
    extract::RawQuery,
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    response::{IntoResponse, Response},
    routing::any,
};
use tokio::{sync::SetOnce, time::timeout};

pub(super) use self::page::still_policy;
use self::{
    attempt::Address,
    image::Images,
    page::{DashboardPage, ServableCard},
    state::{Ask, Device, State},
    view::View,
};
use super::{
    guard::{Paths, Rule},
    reply,
    rest::{self, HttpPort, RestContext},
};
use crate::{
    auth::Right,
    config::ServerSettings,
    engine::Servable,
    error::Result,
    metrics::Family,
    openvino::runtime,
    task::{self, Task},
};

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
    /// Unix sockets of gRPC and REST, as `unix:PATH`.
    sockets: [Option<String>; 2],
    /// Whether the ports of gRPC and REST have TLS.
    tls: [bool; 2],
    /// The one that it is looked at through.
    looked_through: HttpPort,
    /// Content security policy of the page.
    policy: HeaderValue,
    /// Content security policy of its parts.
    policy_of_parts: HeaderValue,
}

impl Dashboard {
    /// Makes the page of a server that has just begun.
    pub(super) fn new(settings: &ServerSettings, looked_through: HttpPort) -> Arc<Self> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let flags = &settings.flags;
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
            sockets: [&flags.grpc_unix_socket, &flags.rest_unix_socket].map(|path| {
                let path = path.as_ref()?;
                Some(format!("unix:{}", path.display()))
            }),
            tls: settings
                .tls
                .as_ref()
                .map_or([false; 2], |tls| [tls.grpc, tls.rest]),
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

/// Estimated bytes of a servable's entry, for the decision where to make it. Not measured.
const BYTES_EACH: usize = 4096;

/// Estimated bytes of counting a servable.
const BYTES_COUNTED: usize = 128;

/// Adds the paths.
pub(in crate::frontends) fn routes(paths: Paths, dashboard: Arc<Dashboard>) -> Paths {
    let of_pages = Rule::With(Right::Dashboard);
    paths
        .route("/", of_pages, any(root))
        .route("/dashboard/state", of_pages, rest::get_only(state))
        .route("/dashboard/servable", of_pages, rest::get_only(servable))
        .route("/dashboard/drawing", of_pages, rest::get_only(drawing))
        .with(dashboard)
}

/// The page, for who reads pages.
async fn root(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Response {
    if !wants_page(&headers) {
        return varying(rest::unknown_path().into_response());
    }
    if method != Method::GET && method != Method::HEAD {
        return varying(rest::not_allowed("GET, HEAD, OPTIONS"));
    }
    dashboard.look_for_devices().await;
    let ask = Ask::read(query.as_deref());
    let address = Address::new(&headers, &uri, &dashboard);
    let policy = dashboard.policy.clone();
    let text = sized(context, &ask.clone(), move |context| {
        let state = State::of(&dashboard, &context.engine, &ask);
        let (state, ask, address) = (&state, &ask, &address);
        DashboardPage {
            state,
            ask,
            address,
        }
        .to_string()
    })
    .await;
    varying(of_browser(PAGE, &policy, text))
}

async fn state(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    dashboard.look_for_devices().await;
    let ask = Ask::read(query.as_deref());
    let mut response = sized(context, &ask.clone(), move |context| {
        reply::serialized(&State::of(&dashboard, &context.engine, &ask))
    })
    .await?;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    Ok(response)
}

/// The card of one servable.
async fn servable(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    headers: HeaderMap,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let card = ServableCard {
        view: &View::of(&named(&context, query.as_deref())?),
        address: &Address::new(&headers, &uri, &dashboard),
        open: false,
    };
    let policy = &dashboard.policy_of_parts;
    Ok(of_browser(PAGE, policy, card.to_string()))
}

async fn drawing(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let servable = named(&context, query.as_deref())?;
    let svg = dashboard.images.of(servable).await?;
    let policy = &dashboard.policy_of_parts;
    Ok(of_browser("image/svg+xml", policy, svg.to_string()))
}

fn named(context: &RestContext, query: Option<&str>) -> Result<Servable> {
    context
        .engine
        .servable(&state::name(query).unwrap_or_default())
}

/// Does what takes longer the more servables there are.
async fn sized<T: Send + 'static>(
    context: RestContext,
    ask: &Ask,
    work: impl FnOnce(&RestContext) -> T + Send + 'static,
) -> T {
    let servables = context.engine.count();
    let bytes = servables.min(ask.limit) * BYTES_EACH + servables * BYTES_COUNTED;
    task::sized("dashboard", bytes, move || work(&context)).await
}

const PAGE: &str = "text/html; charset=utf-8";
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");

/// Makes a good answer of something for browsers.
pub(in crate::frontends) fn of_browser(
    kind: &'static str,
    policy: &HeaderValue,
    text: String,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, NO_STORE),
        (header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        (header::REFERRER_POLICY, NO_REFERRER),
        (header::CONTENT_SECURITY_POLICY, policy.clone()),
    ];
    (headers, text).into_response()
}

/// Says that there is another answer for those who accept something else.
fn varying(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

/// Returns whether a client asks for pages, as browsers do; one that accepts anything does not.
fn wants_page(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT).into_iter();
    let texts = texts.filter_map(|text| text.to_str().ok());
    let mut ranges = texts.flat_map(|text| text.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_page = parts
            .next()
            .is_some_and(|it| it.eq_ignore_ascii_case("text/html"));
        let is_refused = parts.any(|part| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0))
        });
        is_page && !is_refused
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::wants_page;

    #[test]
    fn only_who_asks_for_a_page_gets_one() {
        let asks = |accept: &[&str]| {
            let mut headers = HeaderMap::new();
            for accept in accept {
                headers.append(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            }
            wants_page(&headers)
        };
        for accept in [
            &["text/html"][..],
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            &["*/*", "TEXT/HTML ; q=0.1"],
        ] {
            assert!(asks(accept), "{accept:?}");
        }
        for accept in [
            &[][..],
            &["*/*"],
            &["text/*"],
            &["application/json"],
            &["text/html;q=0, */*"],
            &["text/htmlx"],
        ] {
            assert!(!asks(accept), "{accept:?}");
        }
    }
}
