//! Triton's generate extension over REST: the members of a request are inputs by their names, and those of
//! an answer outputs. `generate` answers once, `generate_stream` with an event for each response of a graph.

mod events;
mod input;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use self::input::decode as read;

use std::time::Instant;

use axum::{extract::Request, http::HeaderMap, response::Response};
use bytes::Bytes;

use self::events::Events;
use super::{
    json::Wishes,
    json_reply,
    rest::{ORIGIN, PathNames},
};
use crate::{
    budget::Budget,
    engine::{
        Servable, Target,
        stream::{StreamHead, StreamRequest},
    },
    error::{Error, Result},
    frontends::{
        access::{self, Seen},
        body, deadline,
        guard::{Access, RestContext},
        idempotency::IdempotencyKey,
        priority,
        reply::{self, Whole},
        weight,
    },
    graph,
    quota::RequestOwner,
    request::{InferRequest, InferResponse},
    servable::ServableInfo,
    task,
};

/// Answers once.
pub(crate) async fn generate(
    context: RestContext,
    names: PathNames,
    request: Request,
) -> Result<Response> {
    let call = GenerateCall::read(&context, names, request).await?;
    let (target, response, id) = call.infer(&context).await?;
    let (bytes, memory) = size(&response);
    let write = move || {
        Ok(Whole {
            body: json_reply::flat(&response, id.as_deref())?,
            headers: Vec::new(),
        })
    };
    let (headers, budget) = (&call.headers, &context.body_limits.budget);
    let answer = reply::written(headers, budget, bytes, memory, write).await?;
    target.written();
    Ok(answer)
}

/// Answers with events: those of a graph as they come, and one of anything else.
pub(crate) async fn generate_stream(
    context: RestContext,
    names: PathNames,
    request: Request,
) -> Result<Response> {
    let mut call = GenerateCall::read(&context, names, request).await?;
    let (engine, budget) = (&context.engine, &context.body_limits.budget);
    let Servable::Graph(graph) = engine.runnable(&call.name)? else {
        let (target, response, id) = call.infer(&context).await?;
        let event = events::of_response(budget, response, id).await?;
        let event = budget.keep(event.into())?;
        target.written();
        return Ok(events::response(event));
    };
    let info = engine.graph_info(&graph).await;
    let info = info.inspect_err(|_| call.refused(engine))?;
    let decoded = call.decode(&info, budget).await;
    let started = decoded.and_then(|request| has_packets(&request, &info).map(|()| request));
    let request = started.inspect_err(|_| call.refused(engine))?;
    let head = StreamHead {
        name: &call.name,
        parameters: &request.parameters,
        origin: ORIGIN,
        trace: request.trace.as_ref(),
        priority: request.priority,
        sender: RequestOwner::default(),
    };
    let place = engine.stream_place()?;
    let stream = engine.open_stream(head, place).await?;
    let limit = deadline::of_parameters(&request.parameters);
    let id = (!request.id.is_empty()).then(|| request.id.clone());
    let texts = request.texts.clone();
    let only = StreamRequest {
        name: std::mem::take(&mut call.name),
        version: Ok(call.version),
        request: Ok(request),
        limit: None,
        room: None,
        charge: None,
    };
    // A graph that has ended meanwhile says why.
    let _ = stream.requests.send(only).await;
    drop(stream.requests);
    Events::new(
        stream.answers,
        budget.clone(),
        call.seen,
        limit,
        (id, texts),
    )
    .response()
    .await
}

/// Checks that a graph gets anything from a request that is all that it gets.
fn has_packets(request: &InferRequest, info: &ServableInfo) -> Result<()> {
    if !request.inputs.is_empty() || info.inputs.is_empty() {
        return Ok(());
    }
    let inputs: Vec<&str> = info.inputs.iter().map(|it| it.name.as_str()).collect();
    let others = parameters(request);
    let got = match others.is_empty() {
        true => "nothing".to_owned(),
        false => format!("parameters: {others}"),
    };
    Err(Error::invalid(format!(
        "Missing input - expected a member for one of the inputs {}; got {got}",
        inputs.join(", ")
    )))
}

/// Returns the names of the members that are no inputs, and so became parameters.
fn parameters(request: &InferRequest) -> String {
    let names = request.parameters.iter().map(|(name, _)| name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Adds the members that became parameters to the error of a request to a graph without one of its inputs: their names
/// may be misspelt.
fn with_parameters(error: Error, names: &str) -> Error {
    if names.is_empty() || !graph::lacks_inputs(&error) {
        return error;
    }
    error.with_more(&format!("; taken as parameters: {names}"))
}

/// A request as it came, and what it is for.
struct GenerateCall {
    name: String,
    version: Option<i64>,
    body: Bytes,
    headers: HeaderMap,
    seen: Seen,
    received: Instant,
}

impl GenerateCall {
    async fn read(context: &RestContext, names: PathNames, request: Request) -> Result<Self> {
        let (parts, incoming) = request.into_parts();
        let seen = access::seen(&parts.extensions, Some(&names.model));
        context.engine.runs(&names.model)?;
        let version = names.version(&context.engine)?;
        let body = body::read(&parts, incoming, &context.body_limits)
            .await
            .inspect_err(|_| context.engine.refused(&names.model, version, ORIGIN))?;
        Ok(Self {
            name: names.model,
            version,
            body,
            headers: parts.headers,
            seen,
            received: Instant::now(),
        })
    }

    /// Counts a request that fails before a servable has it.
    fn refused(&self, engine: &Access) {
        engine.refused(&self.name, self.version, ORIGIN);
    }

    /// Runs the request; returns also its target, which counts the answer once that is written, and its id, if it
    /// has one.
    async fn infer(
        &self,
        context: &RestContext,
    ) -> Result<(Target, InferResponse, Option<String>)> {
        let key = IdempotencyKey::of(&self.headers);
        let target = context.engine.find(&self.name, self.version, ORIGIN);
        let target = target.await?.since(self.received);
        let target = target.keyed(key.text())?.unwritten();
        let request = self
            .decode(target.info(), &context.body_limits.budget)
            .await?;
        let id = (!request.id.is_empty()).then(|| request.id.clone());
        let limit = deadline::of_parameters(&request.parameters);
        let others = parameters(&request);
        let response = deadline::within(limit, target.infer(request)).await;
        let response = response.map_err(|error| with_parameters(error, &others))?;
        self.seen.version(|| Some(response.model_version));
        Ok((target, response, id))
    }

    /// Reads the body as a request to what has these inputs.
    async fn decode(&self, info: &ServableInfo, budget: &Budget) -> Result<InferRequest> {
        let decoded = budget.charge(weight::of_json(&self.body))?;
        let (body, inputs, budget) = (self.body.clone(), info.inputs.clone(), budget.clone());
        let trace = self.seen.trace();
        let priority = priority::of_headers(&self.headers);
        let decode = move || {
            let mut request = input::decode(&body, &inputs)?;
            (request.trace, request.priority) = (trace, priority);
            drop(decoded);
            request.charged(&budget)
        };
        task::sized("decode JSON", self.body.len(), decode).await
    }
}

/// Returns the bytes of all outputs, and the memory that they may take while they are written.
fn size(response: &InferResponse) -> (usize, usize) {
    json_reply::size(response, &Wishes::default())
}
