//! The HTTP side: every path in one table.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use tower::Service as _;

use super::{
    access::Peer,
    body::BodyLimits,
    cross_origin::{self, AllowedHosts},
    dashboard::{self, Dashboard, History},
    guard::{Caller, Gate, PathRule, Paths, RestContext, RestShared, Rule},
    kserve::{
        generate::{generate, generate_stream},
        rest::{self as kserve, about},
        shared_memory,
    },
    openapi,
    received::NotedBody,
    routes::{HttpPort, get_only, not_allowed, post_only, unknown_path},
    tfs::rest as tfs,
    v3,
};
use crate::{
    auth::Right,
    budget::Budget,
    config::{Flags, ServerSettings},
    error::{Error, Result},
    metrics::{Metrics, PageFormat, ServerLevels},
};

/// A model's path, without and with a version.
const MODEL: [&str; 2] = [
    "/v2/models/{model}",
    "/v2/models/{model}/versions/{version}",
];

/// The paths of the HTTP port, and what holds for all of them.
#[derive(Clone)]
pub struct Rest {
    paths: Router,
    terms: Arc<Terms>,
    gate: Arc<Gate>,
    budget: Budget,
    /// Sender of the requests of the connection, if anyone asks.
    caller: Option<Arc<Caller>>,
}

/// Terms of all paths.
struct Terms {
    /// Headers of every answer that pages of other origins may read.
    headers: Vec<(HeaderName, HeaderValue)>,
    hosts: AllowedHosts,
    port: HttpPort,
    shared: RestShared,
}

impl Rest {
    /// Makes what a port serves of the engine of a gate: the management port the same as the REST port, without
    /// inference. Without a history there is no dashboard.
    pub fn new(
        port: HttpPort,
        gate: Arc<Gate>,
        body_limits: BodyLimits,
        settings: &ServerSettings,
        metrics: Arc<Metrics>,
        history: Option<Arc<History>>,
    ) -> Self {
        let budget = body_limits.budget.clone();
        let shared = RestShared {
            gate: Arc::clone(&gate),
            body_limits,
            metrics,
        };
        Self {
            paths: paths(&gate, settings, port, history).into_router(shared.clone()),
            terms: Arc::new(Terms {
                headers: cors(&settings.flags).collect(),
                hosts: AllowedHosts::new(settings),
                port,
                shared,
            }),
            gate,
            budget,
            caller: None,
        }
    }

    /// Returns the paths for another connection, whose client may have a certificate with these names.
    pub(crate) fn connected(&self, peer: Peer, names: Vec<String>) -> Self {
        Self {
            caller: self.gate.caller(peer, names),
            ..self.clone()
        }
    }

    /// Returns what asks for rights.
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns what the bytes of all connections are charged to.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Answers a request.
    pub async fn answer(&self, mut request: Request<NotedBody>) -> Response {
        let terms = &self.terms;
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(Arc::clone(caller));
        }
        let is_open =
            terms.port == HttpPort::Rest && !cross_origin::is_management(request.uri().path());
        let checked = cross_origin::check_host(&request)
            .and_then(|()| cross_origin::check_transfer_coding(request.headers()))
            .and_then(|()| match is_open {
                true => Ok(()),
                false => (terms.hosts).check(request.method(), request.uri(), request.headers()),
            });
        let mut response = if let Err(error) = checked {
            error.into_response()
        } else if request.method() == Method::OPTIONS {
            Response::default()
        } else if leaves_the_tree(request.uri().path()) {
            Error::invalid("The provided base path is invalid or doesn't exists").into_response()
        } else if let Some((context, names)) = self.open_inference(&request) {
            let answer = Box::pin(kserve::infer(context, names, request));
            answer.await.into_response()
        } else {
            let Ok(response) = self.paths.clone().call(request).await as Result<_, Infallible>;
            response
        };
        if is_open {
            for (name, value) in &terms.headers {
                response.headers_mut().insert(name.clone(), value.clone());
            }
        }
        response
    }
}

impl Rest {
    /// Returns the context and the names of an inference that needs no authorization: routing takes a tenth of the time
    /// of a small one.
    fn open_inference(
        &self,
        request: &Request<NotedBody>,
    ) -> Option<(RestContext, kserve::PathNames)> {
        let terms = &self.terms;
        if terms.port != HttpPort::Rest || request.method() != Method::POST {
            return None;
        }
        let access = self.gate.unguarded()?;
        let names = kserve::names_of_inference(request.uri().path())?;
        Some((terms.shared.context(access), names))
    }
}

/// The paths of a port.
fn paths(
    gate: &Arc<Gate>,
    settings: &ServerSettings,
    port: HttpPort,
    history: Option<Arc<History>>,
) -> Paths {
    let own = probes(Paths::new(gate), settings, port, history);
    let own = own.fallback(move |uri: Uri| async move {
        match port == HttpPort::Management && has_inference(uri.path()) {
            true => no_inference(),
            false => unknown_path(),
        }
    });
    match port {
        HttpPort::Rest => {
            let v3 = v3::routes(Paths::new(gate), settings.api_key.as_deref());
            own.merge(apis(Paths::new(gate))).merge(v3)
        }
        HttpPort::Management => own.merge(management_paths(Paths::new(gate))),
    }
}

/// The answer for an inference at the management port.
fn no_inference() -> Error {
    let why = "this is the management port, and the one of --rest-port answers inferences";
    let path = unknown_path();
    Error::new(path.kind(), format!("{} - {why}", path.message()))
}

/// Returns whether the REST port has such a path for inferences.
fn has_inference(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    let of_kserve = matches!(last, "infer" | "generate" | "generate_stream");
    path.starts_with("/v3/")
        || (of_kserve && path.starts_with("/v2/models/"))
        || (last.ends_with(":predict") && path.starts_with("/v1/models/"))
}

/// Rule of the paths of TensorFlow Serving's protocol.
const TFS: PathRule = PathRule::Read(tfs::rule);

/// Rule of those who manage the server.
const ADMIN: Rule = Rule::With(Right::Admin);

/// The paths of both protocols, and those that clients of Triton know besides.
fn apis(mut paths: Paths) -> Paths {
    // The protocol's paths are more than patterns can say; it reads them itself.
    // So it does methods, of which a path of its has others than another: a router that has some of them would name
    // those as `allow` in whatever answer the fallback gives.
    let tfs = || any(tfs::call).get(tfs::call);
    paths = paths
        .route("/v1/{*rest}", TFS, tfs())
        .route("//v1/{*rest}", TFS, tfs());
    for model in MODEL {
        let path = |action: &str| format!("{model}/{action}");
        let events = post_only(generate_stream);
        paths = paths
            .route(model, Rule::Known, about(kserve::metadata))
            .route(&path(""), Rule::Known, about(kserve::metadata))
            .route(
                &path("infer"),
                Rule::Known,
                post_only(kserve::infer::<Body>),
            )
            .route(&path("generate"), Rule::Known, post_only(generate))
            .route(&path("generate_stream"), Rule::Known, events)
            .route(&path("config"), Rule::Known, about(kserve::config));
    }
    for change in ["load", "unload"] {
        let path = format!("/v2/repository/models/{{model}}/{change}");
        paths = paths.route(&path, ADMIN, post_only(kserve::no_repository));
    }
    for region in ["", "/region/{name}"] {
        let system = format!("/v2/systemsharedmemory{region}");
        let cuda = format!("/v2/cudasharedmemory{region}");
        let (status, forget) = (shared_memory::get_status, shared_memory::post_unregister);
        let cuda_status = get_only(shared_memory::get_cuda_status);
        let cuda_forget = post_only(|| async {});
        paths = paths
            .route(&format!("{system}/status"), ADMIN, get_only(status))
            .route(&format!("{system}/unregister"), ADMIN, post_only(forget))
            .route(&format!("{cuda}/status"), ADMIN, cuda_status)
            .route(&format!("{cuda}/unregister"), ADMIN, cuda_forget);
    }
    let (system, cuda) = ("/v2/systemsharedmemory", "/v2/cudasharedmemory");
    let register = |memory: &str| format!("{memory}/region/{{name}}/register");
    let of_system = post_only(shared_memory::post_register);
    let of_cuda = post_only(shared_memory::post_cuda_register);
    let of_model = "/v2/models/{model}/trace/setting";
    paths
        .route(&register(system), ADMIN, of_system)
        .route(&register(cuda), ADMIN, of_cuda)
        .route("/v2/logging", ADMIN, any(kserve::no_setting))
        .route("/v2/trace/setting", ADMIN, any(kserve::no_setting))
        .route(of_model, ADMIN, any(kserve::no_setting))
}

/// The paths of the management port alone.
fn management_paths(paths: Paths) -> Paths {
    let refuse = |uri: Uri| async move {
        if has_inference(uri.path()) {
            return no_inference().into_response();
        }
        not_allowed(match tfs::is_sequence(uri.path()) {
            true => tfs::OF_A_SEQUENCE,
            false => "GET, HEAD, OPTIONS",
        })
    };
    let call = |context: RestContext, request: Request| async move {
        match has_inference(request.uri().path()) {
            true => Err(no_inference()),
            false => tfs::call(context, request).await,
        }
    };
    let of_models = get(call).put(call).delete(call).fallback(refuse);
    paths
        .route("/v1/config", TFS, get_only(tfs::call))
        .route("/v1/config/reload", TFS, post_only(tfs::call))
        .route("/v1/models/{*rest}", TFS, of_models)
}

/// The paths of both ports: how the server does, and what it serves.
fn probes(
    mut paths: Paths,
    settings: &ServerSettings,
    port: HttpPort,
    history: Option<Arc<History>>,
) -> Paths {
    // First, since what it adds to its paths is for them alone.
    if let Some(history) = history {
        paths = dashboard::routes(paths, Dashboard::new(settings, port, history));
        paths = openapi::routes(paths);
    }
    let index = post_only(kserve::repository_index);
    let statistics = get_only(kserve::all_statistics);
    let figures = Rule::With(Right::Metrics);
    paths = paths
        .route("/metrics", figures, get_only(metrics_page))
        .route("/v2", Rule::Known, get_only(kserve::server_metadata))
        .route("/v2/health/live", Rule::Health, get_only(|| async {}))
        .route("/v2/health/ready", Rule::Health, get_only(kserve::ready))
        .route("/v2/repository/index", Rule::Known, index)
        .route("/v2/models/stats", Rule::Known, statistics);
    for model in MODEL {
        let (ready, stats) = (format!("{model}/ready"), format!("{model}/stats"));
        paths = paths
            .route(&ready, Rule::Known, about(kserve::model_ready))
            .route(&stats, Rule::Known, about(kserve::statistics));
    }
    paths
}

/// The page of figures, in the Prometheus text format, or in OpenMetrics for those who ask for that.
async fn metrics_page(context: RestContext, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(header::ACCEPT);
    let format = PageFormat::asked(accept.and_then(|accept| accept.to_str().ok()));
    let levels = ServerLevels {
        pending: context.engine.requests_pending(),
        bytes: context.body_limits.budget.charged(),
    };
    let (status, format, text) = match context.metrics.page_as(format, levels) {
        Some(page) => (StatusCode::OK, format, page),
        None => {
            let path = unknown_path();
            let why = "metrics are off; --metrics-enable turns them on";
            let text = format!("{} - {why}", path.message());
            (StatusCode::NOT_FOUND, PageFormat::Text, text)
        }
    };
    (
        status,
        [(header::CONTENT_TYPE, format.content_type())],
        text,
    )
}

/// The headers that let pages of other origins call. They are checked with the flags.
fn cors(flags: &Flags) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let credentials = if flags.allow_credentials { "true" } else { "" };
    [
        (
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            flags.allowed_origins.as_str(),
        ),
        (header::ACCESS_CONTROL_ALLOW_METHODS, &flags.allowed_methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, &flags.allowed_headers),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials),
    ]
    .into_iter()
    .filter(|(_, text)| !text.is_empty())
    .filter_map(|(name, text)| Some((name, HeaderValue::from_str(text).ok()?)))
}

/// Returns whether a path has a part `..`, in letters or percent-encoded.
fn leaves_the_tree(path: &str) -> bool {
    // Nearly no path has one of these.
    if !path.bytes().any(|byte| matches!(byte, b'.' | b'%')) {
        return false;
    }
    path.split('/').any(|part| match part.len() {
        2 => part == "..",
        4 | 6 => part.to_ascii_lowercase().replace("%2e", ".") == "..",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{Gate, HttpPort, cors, leaves_the_tree, paths};
    use crate::{
        config::{Config, Flags},
        engine::Engine,
    };

    /// A path that is new, or has another rule, is seen here.
    #[test]
    fn every_path_has_its_rule() {
        let gate = Gate::open(Engine::new(Duration::ZERO, 1));
        let flags = Flags {
            model_name: Some("m".to_owned()),
            model_path: Some("m".into()),
            rest_port: 8000,
            ..Flags::default()
        };
        let settings = Config::from_flags(flags, &Default::default())
            .unwrap()
            .settings;
        let listed = |port| paths(&gate, &settings, port, Some(Arc::default())).listed();
        let all = listed(HttpPort::Rest);
        insta::assert_snapshot!(all.join("\n"), @"
        / With(Dashboard)
        /dashboard With(Dashboard)
        /dashboard/servables/{name} With(Dashboard)
        /dashboard/state With(Dashboard)
        /dashboard/history With(Dashboard)
        /dashboard/servable With(Dashboard)
        /dashboard/drawing With(Dashboard)
        /openapi.json Known
        /docs With(Dashboard)
        /metrics With(Metrics)
        /v2 Known
        /v2/health/live Health
        /v2/health/ready Health
        /v2/repository/index Known
        /v2/models/stats Known
        /v2/models/{model}/ready Known
        /v2/models/{model}/stats Known
        /v2/models/{model}/versions/{version}/ready Known
        /v2/models/{model}/versions/{version}/stats Known
        /v1/{*rest} by what it says
        //v1/{*rest} by what it says
        /v2/models/{model} Known
        /v2/models/{model}/ Known
        /v2/models/{model}/infer Known
        /v2/models/{model}/generate Known
        /v2/models/{model}/generate_stream Known
        /v2/models/{model}/config Known
        /v2/models/{model}/versions/{version} Known
        /v2/models/{model}/versions/{version}/ Known
        /v2/models/{model}/versions/{version}/infer Known
        /v2/models/{model}/versions/{version}/generate Known
        /v2/models/{model}/versions/{version}/generate_stream Known
        /v2/models/{model}/versions/{version}/config Known
        /v2/repository/models/{model}/load With(Admin)
        /v2/repository/models/{model}/unload With(Admin)
        /v2/systemsharedmemory/status With(Admin)
        /v2/systemsharedmemory/unregister With(Admin)
        /v2/cudasharedmemory/status With(Admin)
        /v2/cudasharedmemory/unregister With(Admin)
        /v2/systemsharedmemory/region/{name}/status With(Admin)
        /v2/systemsharedmemory/region/{name}/unregister With(Admin)
        /v2/cudasharedmemory/region/{name}/status With(Admin)
        /v2/cudasharedmemory/region/{name}/unregister With(Admin)
        /v2/systemsharedmemory/region/{name}/register With(Admin)
        /v2/cudasharedmemory/region/{name}/register With(Admin)
        /v2/logging With(Admin)
        /v2/trace/setting With(Admin)
        /v2/models/{model}/trace/setting With(Admin)
        /v3/models Known
        /v3/v1/models Known
        /v3/models/{*name} Known
        /v3/v1/models/{*name} Known
        /v3 Known
        /v3/{*rest} Known
        ");
        for line in listed(HttpPort::Management) {
            let (path, rule) = line.split_once(' ').unwrap();
            let is_same = all.contains(&line) || path.starts_with("/v1/");
            assert!(is_same, "{path}: {rule}");
        }
    }

    #[test]
    fn two_dots_are_found_however_they_are_written() {
        for path in ["/..", "/a/../b", "/%2e%2E", "/.%2e/x", "/a/%2E."] {
            assert!(leaves_the_tree(path), "{path}");
        }
        for path in [
            "/",
            "/...",
            "/a..b",
            "/%2e",
            "/%2e%2e%2e",
            "/v2/abcd/abcdef",
        ] {
            assert!(!leaves_the_tree(path), "{path}");
        }
    }

    #[test]
    fn an_empty_text_leaves_its_header_out() {
        let flags = Flags {
            allow_credentials: true,
            allowed_origins: "https://a.example".to_owned(),
            allowed_methods: String::new(),
            ..Flags::default()
        };
        let headers: Vec<_> = cors(&flags).collect();
        insta::assert_debug_snapshot!(headers, @r#"
        [
            (
                "access-control-allow-origin",
                "https://a.example",
            ),
            (
                "access-control-allow-headers",
                "*",
            ),
            (
                "access-control-allow-credentials",
                "true",
            ),
        ]
        "#);
    }
}
