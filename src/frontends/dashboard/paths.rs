//! The paths of the dashboard: everything below `/dashboard`, and `/` for browsers.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{Path, RawQuery, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    response::{IntoResponse, Response},
    routing::any,
};

use super::{
    Dashboard,
    ask::{self, Ask},
    attempt::Address,
    page::{DashboardPage, DashboardText, ServableCard, ServablePage},
    state::{self, State},
    view::View,
};
use crate::{
    auth::Right,
    engine::Servable,
    error::Result,
    frontends::{
        guard::{Paths, RestContext, Rule},
        reply, routes,
    },
    task,
};

/// Estimated bytes of a servable's entry, for the decision where to make it. Not measured.
const BYTES_EACH: usize = 4096;

/// Estimated bytes of counting a servable.
const BYTES_COUNTED: usize = 128;

/// Adds the paths.
pub(in crate::frontends) fn routes(paths: Paths, dashboard: Arc<Dashboard>) -> Paths {
    let of_pages = Rule::With(Right::Dashboard);
    let get = [
        ("", routes::get_only(page)),
        ("/servables/{name}", routes::get_only(of_servable)),
        ("/state", routes::get_only(state)),
        ("/history", routes::get_only(recent)),
        ("/servable", routes::get_only(servable)),
        ("/drawing", routes::get_only(drawing)),
    ];
    let root = paths.route("/", of_pages, any(root));
    let all = get.into_iter().fold(root, |paths, (path, handlers)| {
        paths.route(&format!("/dashboard{path}"), of_pages, handlers)
    });
    all.with(dashboard)
}

/// A request for a page: who asks for what, and where.
struct Visit {
    dashboard: Arc<Dashboard>,
    address: Address,
    ask: Ask,
}

impl Visit {
    fn new(dashboard: &Arc<Dashboard>, headers: &HeaderMap, uri: &Uri) -> Self {
        Self {
            address: Address::new(headers, uri, dashboard),
            ask: Ask::read(uri.query()),
            dashboard: Arc::clone(dashboard),
        }
    }

    /// Writes the page of everything.
    async fn page(self, context: RestContext) -> Response {
        self.dashboard.look_for_devices().await;
        let policy = self.dashboard.policies.page.clone();
        let text = sized(context, &self.ask.clone(), move |context| {
            let state = State::of(&self.dashboard, &context.engine, &self.ask);
            let (state, ask, address) = (&state, &self.ask, &self.address);
            DashboardPage {
                state,
                ask,
                address,
            }
            .to_string()
        })
        .await;
        of_browser(PAGE, &policy, text)
    }

    /// Writes the same in a few lines, for terminals.
    async fn text(self, context: RestContext) -> Response {
        let text = sized(context, &self.ask.clone(), move |context| {
            let state = &State::of(&self.dashboard, &context.engine, &self.ask);
            DashboardText { state }.to_string()
        })
        .await;
        let headers = [
            (header::CONTENT_TYPE, TEXT),
            (header::CACHE_CONTROL, NO_STORE),
            (header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        ];
        (headers, text).into_response()
    }
}

/// The page, for clients that accept pages; there is nothing else here, as there never was.
async fn root(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if !wants_page(&headers) {
        return varying(routes::unknown_path().into_response());
    }
    if method != Method::GET && method != Method::HEAD {
        return varying(routes::not_allowed("GET, HEAD, OPTIONS"));
    }
    let visit = Visit::new(&dashboard, &headers, &uri);
    varying(visit.page(context).await)
}

/// The page, and a few lines for clients that accept no pages.
async fn page(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let visit = Visit::new(&dashboard, &headers, &uri);
    varying(match wants_page(&headers) {
        true => visit.page(context).await,
        false => visit.text(context).await,
    })
}

/// The page of one servable.
async fn of_servable(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response> {
    let Ok(Path(name)) = name else {
        return Err(routes::unknown_path());
    };
    let servable = context.engine.servable(&name)?;
    dashboard.look_for_devices().await;
    let address = Address::new(&headers, &uri, &dashboard);
    let policy = dashboard.policies.servable.clone();
    let only = Ask {
        name: Some(name),
        limit: 1,
        ..Ask::default()
    };
    let text = sized(context, &only.clone(), move |context| {
        ServablePage {
            state: &State::of(&dashboard, &context.engine, &only),
            view: &View::of(&servable, &dashboard.history),
            address: &address,
        }
        .to_string()
    })
    .await;
    Ok(of_browser(PAGE, &policy, text))
}

async fn state(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    dashboard.look_for_devices().await;
    let ask = Ask::read(query.as_deref());
    let response = sized(context, &ask.clone(), move |context| {
        reply::serialized(&State::of(&dashboard, &context.engine, &ask))
    })
    .await?;
    Ok(unkept(response))
}

/// The last fifteen minutes, or what is new of them.
async fn recent(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let (ask, since) = (Ask::read(query.as_deref()), ask::since(query.as_deref()));
    let response = sized(context, &ask.clone(), move |context| {
        let found = ask.find(&state::by_condition(&context.engine));
        let names = found.shown.iter().map(|it| it.name().to_owned());
        reply::serialized(&dashboard.history.since(since, names))
    })
    .await?;
    Ok(unkept(response))
}

/// Marks an answer as one of this moment alone.
fn unkept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
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
        view: &View::of(&named(&context, query.as_deref())?, &dashboard.history),
        address: &Address::new(&headers, &uri, &dashboard),
        open: false,
    };
    let policy = &dashboard.policies.parts;
    Ok(of_browser(PAGE, policy, card.to_string()))
}

async fn drawing(
    context: RestContext,
    Extension(dashboard): Extension<Arc<Dashboard>>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let servable = named(&context, query.as_deref())?;
    let svg = dashboard.images.of(servable).await?;
    let policy = &dashboard.policies.parts;
    Ok(of_browser("image/svg+xml", policy, svg.to_string()))
}

fn named(context: &RestContext, query: Option<&str>) -> Result<Servable> {
    context
        .engine
        .servable(&ask::name(query).unwrap_or_default())
}

/// Runs work that takes longer the more servables there are.
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
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
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

/// Adds the header `vary`: clients that accept something else get another answer.
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
