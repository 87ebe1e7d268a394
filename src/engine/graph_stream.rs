//! A stream to a graph: one instance of it for all requests.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt, StreamExt,
    future::ready,
    stream::{once, poll_fn},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    course::{Course, shutting_down},
    engine::Engine,
    stream_messages::{StreamHead, StreamRequest, StreamResponse, StreamResponses, other_name},
};
use crate::{
    error::{Error, ErrorKind, Result},
    graph::{self, Ending, Env, Graph},
    metrics::{GraphCall, Method},
    request::{InferRequest, priority_of},
    task::{self, Task},
};

/// Number of answers that are made ahead of the one being sent.
const ANSWERS_AHEAD: usize = 32;

/// Opens a stream with its first request, which is to be sent as well. Dropping it drops the graph.
pub(super) async fn open(
    engine: &Arc<Engine>,
    graph: &Arc<Graph>,
    head: StreamHead<'_>,
    mut requests: mpsc::Receiver<StreamRequest>,
) -> Result<StreamResponses> {
    let counts = GraphCall::new(graph.reporter(), head.origin, Method::Stream);
    let refused = |error: Error| {
        counts.ended(false);
        error
    };
    let definition = engine.definition(graph).await.map_err(refused)?;
    let parameters = head.parameters;
    let asked = head.priority.or_else(|| priority_of(parameters));
    let env = Env::new(engine.sessions())
        .of(head.origin)
        .traced(head.trace.cloned())
        .owned(Some(head.sender.of_runs(asked)));
    let ending = Arc::clone(&env.ending);
    let session = definition
        .open(head.parameters, env, None)
        .map_err(refused)?;
    let (sender, mut answers) = mpsc::channel(ANSWERS_AHEAD);
    let name = head.name.to_owned();
    let mut is_first = true;
    let max_strings = engine.max_strings();
    let read = move |came: &mut StreamRequest| {
        let first = std::mem::take(&mut is_first);
        let request = read(came, &name, first)?;
        if request.regions.is_some() {
            return Err(unplaced());
        }
        request.bound_strings(max_strings)?;
        Ok(request)
    };
    let (course, grace) = (engine.course(), engine.stream_grace());
    let over = stopped(course, grace, Arc::clone(&ending));
    let counted = CountedStream {
        counts,
        is_well: false,
    };
    let task = Task::spawn(async move {
        // As a whole: the task would take a field of it alone.
        let mut counted = counted;
        let running = counted.counts.running();
        let served = session.serve(&mut requests, read, &sender, &counted.counts);
        let served = task::in_poll_scope(Box::pin(served));
        let served = tokio::select! {
            served = served => served,
            // A client that reads nothing keeps its end of the stream, but not the graph.
            () = over => Err(shutting_down()),
        };
        // It has come to its end, and some of it is missing.
        let served = match served {
            Ok(()) if ending.is_heeded() => Err(shutting_down()),
            served => served,
        };
        match served {
            Ok(()) => running.succeeded(),
            Err(_) => drop(running),
        }
        counted.is_well = served.is_ok();
        served
    });
    let answers = poll_fn(move |context| answers.poll_recv(context)).map(|answer| {
        Ok(match answer {
            graph::GraphResponse::Response(response, _) => StreamResponse::Response(response),
            graph::GraphResponse::Error(text) => StreamResponse::Error(Error::invalid(text)),
        })
    });
    let end = task.map(|ended| match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Err(error)),
        Err(_) => Some(Err(Error::internal("Internal error"))),
    });
    Ok(answers.chain(once(end).filter_map(ready)).boxed())
}

/// Counts the end of a stream, also of one that is dropped since its client has left.
struct CountedStream {
    counts: GraphCall,
    is_well: bool,
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.counts.ended(self.is_well);
    }
}

/// Waits until the server gives its streams up. Some time before, a run that would go on by itself is notified
/// to end.
async fn stopped(mut course: watch::Receiver<Course>, grace: Duration, ending: Arc<Ending>) {
    // An error is the end of the engine.
    let _ = course.wait_for(|it| *it >= Course::Draining).await;
    let over = timeout(grace, course.wait_for(|it| *it == Course::Over));
    if over.await.is_ok() {
        return;
    }
    ending.end();
    let _ = course.wait_for(|it| *it == Course::Over).await;
}

/// Refuses shared memory: responses of a graph belong to no request that could say where they go.
fn unplaced() -> Error {
    Error::new(
        ErrorKind::Unimplemented,
        "Functionality not implemented - shared memory in a stream to a graph; send tensors with the request, or \
         use ModelInfer",
    )
}

/// Takes a request that is for the graph that the first was for. Of the first, the version does not
/// matter.
fn read(came: &mut StreamRequest, name: &str, is_first: bool) -> Result<InferRequest> {
    if came.name != name {
        return Err(other_name());
    }
    let is_known = matches!(came.version, Ok(None | Some(graph::VERSION)));
    if !is_first && !is_known {
        return Err(Error::invalid(
            "Subsequent request with incorrect servable version; validate subsequent requests",
        ));
    }
    std::mem::replace(&mut came.request, Ok(InferRequest::default()))
}
