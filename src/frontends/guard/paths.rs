//! The paths of a port, each with the rule of who may use it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{FromRequestParts, Request, State},
    handler::Handler,
    http::{Uri, header, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::Response,
    routing::MethodRouter,
};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;

use super::{
    access::Access,
    audit::Outcome,
    gate::{Admitted, Caller, Gate},
    rules::Rule,
};
use crate::{
    error::Error,
    frontends::{access::Protocol, body::BodyLimits},
    metrics::Metrics,
};

/// State of all paths, of which a handler has what [`RestContext`] gives it.
#[derive(Clone)]
pub(in crate::frontends) struct RestShared {
    pub(in crate::frontends) gate: Arc<Gate>,
    pub(in crate::frontends) body_limits: BodyLimits,
    pub(in crate::frontends) metrics: Arc<Metrics>,
}

/// Context of a handler: the engine as the sender of the request sees it, bounds, and figures.
pub(crate) struct RestContext {
    pub(in crate::frontends) engine: Access,
    pub(in crate::frontends) body_limits: BodyLimits,
    pub(in crate::frontends) metrics: Arc<Metrics>,
}

impl FromRequestParts<RestShared> for RestContext {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, shared: &RestShared) -> Result<Self, Error> {
        let admitted = || parts.extensions.get::<Access>().cloned();
        let engine = shared.gate.unguarded().or_else(admitted);
        // A path whose rule was not asked has no access.
        let engine = engine.ok_or_else(|| Error::internal("Internal error"))?;
        Ok(shared.context(engine))
    }
}

impl RestShared {
    /// Returns the context of a handler for a sender.
    pub(in crate::frontends) fn context(&self, engine: Access) -> RestContext {
        RestContext {
            body_limits: engine.body_limits(&self.body_limits),
            engine,
            metrics: Arc::clone(&self.metrics),
        }
    }
}

/// Rule of a path.
#[derive(Debug, Clone, Copy)]
pub(in crate::frontends) enum PathRule {
    /// The same for all that the path stands for.
    Of(Rule),
    /// Rule that depends on the rest of the path.
    Read(fn(&Uri) -> Rule),
}

impl From<Rule> for PathRule {
    fn from(rule: Rule) -> Self {
        Self::Of(rule)
    }
}

/// Paths with their handlers. None is added without its rule, and there is no other way to add one.
pub(in crate::frontends) struct Paths {
    router: Router<RestShared>,
    gate: Arc<Gate>,
    /// The paths that were added, for tests.
    rules: Vec<(String, PathRule)>,
}

impl Paths {
    pub(in crate::frontends) fn new(gate: &Arc<Gate>) -> Self {
        Self {
            router: Router::new(),
            gate: Arc::clone(gate),
            rules: Vec::new(),
        }
    }

    /// Adds a path. Its rule is asked whatever the method.
    pub(in crate::frontends) fn route(
        mut self,
        path: &str,
        rule: impl Into<PathRule>,
        handlers: MethodRouter<RestShared>,
    ) -> Self {
        let rule = rule.into();
        let handlers = match self.gate.is_guarded() {
            true => handlers.layer(from_fn_with_state((Arc::clone(&self.gate), rule), guard)),
            false => handlers,
        };
        self.router = self.router.route(path, handlers);
        self.rules.push((path.to_owned(), rule));
        self
    }

    /// Sets what answers for all other paths, which any identity may ask for.
    pub(in crate::frontends) fn fallback<T: 'static>(
        mut self,
        handler: impl Handler<T, RestShared>,
    ) -> Self {
        let rule = PathRule::Of(Rule::Known);
        self.router = match self.gate.is_guarded() {
            true => {
                let guard = from_fn_with_state((Arc::clone(&self.gate), rule), guard);
                self.router.fallback(handler.layer(guard))
            }
            false => self.router.fallback(handler),
        };
        self
    }

    /// Gives the handlers of all paths so far a value of their own.
    pub(in crate::frontends) fn with<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.router = self.router.layer(Extension(value));
        self
    }

    pub(in crate::frontends) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.rules.extend(other.rules);
        self
    }

    pub(in crate::frontends) fn into_router(self, shared: RestShared) -> Router {
        self.router.with_state(shared)
    }

    /// Returns the paths with their rules, in text.
    #[cfg(test)]
    pub(in crate::frontends) fn listed(&self) -> Vec<String> {
        let lines = self.rules.iter().map(|(path, rule)| match rule {
            PathRule::Of(rule) => format!("{path} {rule:?}"),
            PathRule::Read(_) => format!("{path} by what it says"),
        });
        lines.collect()
    }
}

/// Bodies of refused requests that are read to their end, in bytes, so that the next request can come over their connection.
const SMALL: u64 = 64 << 10;

/// Time that such a body may take.
const SOON: Duration = Duration::from_secs(1);

/// Reads what there is of a refused request if it is little; a client that asks first whether to send it gets its answer.
async fn drain(request: Request) {
    let is_small = request
        .body()
        .size_hint()
        .upper()
        .is_some_and(|size| size <= SMALL);
    if is_small && !request.headers().contains_key(header::EXPECT) {
        let mut body = request.into_body();
        let drained = async { while let Some(Ok(_)) = body.frame().await {} };
        // A connection whose client goes on sending ends.
        let _ = tokio::time::timeout(SOON, drained).await;
    }
}

/// Asks the rule of a path before its handler, and writes down what comes of a request that manages the server.
async fn guard(
    State((gate, rule)): State<(Arc<Gate>, PathRule)>,
    mut request: Request,
    next: Next,
) -> Response {
    let rule = match rule {
        PathRule::Of(rule) => rule,
        PathRule::Read(read) => read(request.uri()),
    };
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    match gate.admit(rule, Protocol::Http, caller.as_ref(), &mut request) {
        Ok(Admitted { access, recording }) => {
            request.extensions_mut().insert(access);
            let response = next.run(request).await;
            if let Some(recording) = recording {
                recording.end(Outcome::of_response(response.status())).await;
            }
            response
        }
        Err(mut refusal) => {
            drain(request).await;
            if let Some(due) = refusal.before_answer() {
                due.await;
            }
            refusal.into_response()
        }
    }
}
