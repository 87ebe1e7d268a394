//! `ovms graph run`: a graph in this process, packet by packet.

mod hints;
mod load;
mod show;
mod watch;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ovms::{
    client::Request,
    custom_node,
    graph::{GENERATOR_NODE, GraphObserver, GraphPlan, GraphResponse, GraphSource},
    metrics::GraphCall,
    python,
    request::{InferRequest, Parameter},
};
use tokio::{sync::mpsc, time::timeout};

use self::{load::LocalGraph, show::Times, watch::Stops};
use super::environment;
use crate::{
    completions::names,
    error::{Failure, FailureKind, unless_unread},
    infer::{self, ImageArgs, InputArgs, RequestFeed, RequestPlan, parameter},
    local,
    stdout_guard::StdoutGuard,
    ui::{self, OutputFormat},
};

const AFTER_HELP: &str = "\
The graph runs as for a stream: each packet that it sends is shown as it arrives, with its \
timestamp. A client that does not stream gets the first packet of each output.

Inputs are given as for `ovms infer --stream`; some may be omitted. A graph does not declare its \
datatypes: by default, numbers are FP32, booleans BOOL, and strings BYTES. With --requests, each \
line of a file is a request: an object of inputs by name, optionally with the `timestamp` and \
`parameters` of the request. A value \"@cat.png\" is read from that file; relative paths start at \
the folder of FILE.

Times are totals over all steps of a node, including its waits; nodes run in parallel. JSON is one \
object per line; the last has the nodes, with times in microseconds. Ctrl-C ends the run as if the \
client had disconnected, and shows the times until then.

With --watch the graph runs again whenever its file, a handler, or a Python file next to one is \
saved, until Ctrl-C; after an error it waits for the next save. Models are reloaded for each run.

Examples:
  ovms graph run my_graph -i input:FP32='[1,2,3]'
  ovms graph run my_graph -i input=hello --watch
  ovms graph run config.json faces -i image:UINT8:480,640,3= --random
  ovms graph run tracker --requests frames.ndjson
  ovms graph run my_graph -i input=hello --output json | jq -c .outputs

Exit codes: 0 done; 1 the graph is invalid or failed; 64 usage, or a NAME that no graph of the file \
has; 72 no OpenVINO runtime for its models; 130 Ctrl-C.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct GraphRunArgs {
    /// Graph file, configuration file (.json), or a folder with one
    ///
    /// In a folder, that is graph.pbtxt or config.json.
    path: PathBuf,

    /// Name of the graph, if the configuration file has several
    #[arg(add = names::graphs())]
    name: Option<String>,

    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    images: ImageArgs,

    /// File with one request per line; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["inputs", "zeros", "random"],
        help_heading = "Request"
    )]
    requests: Option<PathBuf>,

    /// Timestamp of the first request; then N + 1, N + 2, …
    ///
    /// By default they count from 0.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Request"
    )]
    timestamp: Option<i64>,

    /// Send a request parameter
    ///
    /// It becomes a side packet. `true` and `false` are booleans, and whole numbers are integers;
    /// anything else, and anything in double quotes, is a string. Can be repeated.
    #[arg(
        long,
        visible_alias = "parameter",
        value_name = "KEY=VALUE",
        value_parser = parameter,
        help_heading = "Request"
    )]
    param: Vec<(String, Parameter)>,

    /// Run again whenever the graph or a handler is saved
    #[arg(long, help_heading = "Run")]
    watch: bool,

    /// Virtual environment with the packages of Python nodes [default: the active one]
    #[arg(long = "python-environment", value_name = "DIR", help_heading = "Run")]
    python_environment: Option<PathBuf>,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Maximum number of responses waiting to be shown.
const MAX_WAITING: usize = 64;

/// Time limit for the end of an interrupted run.
const LEFT: Duration = Duration::from_secs(2);

/// Time limit for a Ctrl-C to arrive after a failed load: the end of an interpreter that got the same one may be noticed
/// first.
const HEARD: Duration = Duration::from_millis(50);

/// Runs the subcommand.
pub(super) fn run(args: GraphRunArgs) -> Result<(), Failure> {
    let mut stdout = StdoutGuard::take()?;
    if args.watch && args.requests.as_deref() == Some(Path::new("-")) {
        let failure = Failure::usage("standard input can be read only once");
        return Err(failure.hint("with --watch, name a file in --requests"));
    }
    environment(args.python_environment.clone(), false);
    let packages = args.python_environment.as_deref();
    let plan = RequestPlan::local(args.requests.as_deref(), args.timestamp);
    let inputs = infer::inputs(args.inputs, args.images)?;
    let is_without = args.requests.is_none() && inputs.is_empty();
    let read = || load::read(&args.path, args.name.as_deref());
    let (name, config) = read()?;
    let source = args
        .watch
        .then(|| Arc::new(GraphSource::of(&config.graphs[0])));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(custom_node::STACK_BYTES)
        .enable_all()
        .build()?;
    let mut stops = Stops::new(&runtime)?;
    let mut once = |stops: &mut Stops, name, config| {
        runtime.block_on(async {
            let loaded = tokio::select! {
                loaded = LocalGraph::load(name, config, packages) => match loaded {
                    Ok(loaded) => loaded,
                    Err(_) if timeout(HEARD, stops.next()).await.is_ok() => {
                        return Err(stops.ended(None));
                    }
                    Err(failure) => return Err(failure),
                },
                () = stops.next() => {
                    let place = python::handler_places().await;
                    python::end_loads("was killed: its run has ended");
                    return Err(stops.ended(place));
                }
            };
            let model = loaded.metadata();
            let base = Request {
                parameters: args.param.clone(),
                ..Request::default()
            };
            let feed = match is_without {
                true => Err(no_inputs(&loaded)),
                false => RequestFeed::new(&plan, &inputs, base, &model),
            };
            let shown = match feed {
                Ok(feed) => {
                    let form = ReportForm {
                        format: args.output.output(),
                        is_of_one: args.requests.is_none(),
                    };
                    all(&loaded, feed, form, &mut stdout, stops).await
                }
                Err(failure) => Err(failure),
            };
            let is_interrupted =
                matches!(&shown, Err(failure) if failure.kind() == FailureKind::Interrupted);
            tokio::select! {
                () = loaded.close(is_interrupted.then_some(LEFT)) => return shown,
                () = stops.next(), if !is_interrupted => {}
            }
            // The end of a handler is not waited for any more.
            let stopped = stops.ended(python::handler_places().await);
            if let Err(failure) = shown {
                let _ = failure.print();
            }
            Err(stopped)
        })
    };
    let result = match source {
        None => once(&mut stops, name, config),
        Some(source) => watch::run(&runtime, &source, &mut stops, |stops| {
            let (name, config) = read()?;
            once(stops, name, config)
        }),
    };
    // A handler that never ends is not waited for.
    runtime.shutdown_background();
    python::stop(super::LIMIT);
    result
}

/// Form of what is shown.
#[derive(Debug, Clone, Copy)]
struct ReportForm {
    format: OutputFormat,
    /// Indicates that there is one request, whose refusal is the end.
    is_of_one: bool,
}

/// Runs the graph for all requests, and shows the results.
async fn all(
    loaded: &LocalGraph,
    mut feed: RequestFeed<'_>,
    ReportForm { format, is_of_one }: ReportForm,
    stdout: &mut StdoutGuard,
    stops: &mut Stops,
) -> Result<(), Failure> {
    let first = tokio::select! {
        first = feed.next() => first?,
        () = stops.next() => return Err(stops.ended(None)),
    };
    let Some(first) = first else {
        return Err(Failure::usage("found no request"));
    };
    let times = Arc::new(Times::new(loaded.plan()));
    let watch: Arc<dyn GraphObserver> = Arc::clone(&times) as _;
    let begun = Instant::now();
    let session = loaded.open(&first, watch);
    let session = session.map_err(|error| failed(loaded, error.message()))?;
    let inputs = loaded.plan().inputs.iter();
    let mut left_out: Vec<&str> = inputs.map(|input| input.port.name.as_str()).collect();
    let (send, mut requests) = mpsc::channel::<Option<InferRequest>>(1);
    let (answer, mut answers) = mpsc::channel(MAX_WAITING);
    let feeding = async move {
        let mut next = Some(first);
        let mut sent = 0_usize;
        while let Some(request) = next {
            left_out.retain(|name| !request.inputs.iter().any(|(given, _)| given == name));
            let request = local::converted(&request.inputs, request.parameters);
            // The graph may have ended before its requests.
            if send.send(Some(request)).await.is_err() {
                break;
            }
            sent += 1;
            next = tokio::select! {
                next = feed.next() => next?,
                () = send.closed() => break,
            };
        }
        Ok::<_, Failure>((left_out, sent))
    };
    let running = async move {
        let read = |request: &mut Option<InferRequest>| Ok(request.take().unwrap_or_default());
        let counts = GraphCall::uncounted();
        session.serve(&mut requests, read, &answer, &counts).await
    };
    let showing = async move {
        let mut refused = Refused::default();
        let mut given = HashSet::new();
        let mut misfits = HashSet::new();
        let mut stopped = None;
        loop {
            let answer = tokio::select! {
                biased;
                // Without anybody who takes answers, the graph ends.
                () = stops.next() => {
                    stopped = Some(stops.ended(python::handler_places().await));
                    break;
                }
                answer = answers.recv() => answer,
            };
            let Some(answer) = answer else { break };
            match answer {
                GraphResponse::Response(response, _) => {
                    stdout.print(&show::packet(format, &response))?;
                    // Those of Python nodes are all there.
                    for output in response.loose {
                        if let Some(misfit) = loaded.plan().misfit(&output)
                            && misfits.insert(output.name.clone())
                        {
                            ui::warn(&format!("warning: {misfit}"));
                        }
                        given.insert(output.name);
                    }
                }
                GraphResponse::Error(text) => {
                    refused.count += 1;
                    match is_of_one {
                        true => refused.only = Some(text),
                        false => warn_of_refused(&text),
                    }
                }
            }
        }
        Ok::<_, Failure>((refused, stopped, given, stdout))
    };
    let (fed, ran, shown) = tokio::join!(feeding, running, showing);
    let (mut refused, stopped, given, stdout) = shown?;
    let error = match &stopped {
        Some(stopped) => Some(stopped.message().to_owned()),
        None => ran.err().map(|error| error.message().to_owned()),
    };
    let took = begun.elapsed();
    unless_unread(stdout.print(&match format {
        OutputFormat::Json => times.json(loaded.plan(), took, error.as_deref()),
        OutputFormat::Table => times.table(loaded.plan(), took),
    }))?;
    if error.is_some()
        && let Some(text) = refused.only.take()
    {
        warn_of_refused(&text);
    }
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    let (left_out, sent) = fed?;
    // Without any request nothing has run.
    if error.is_none() && refused.count < sent {
        for name in left_out {
            ui::note(&format!(
                "note: no request gave input `{name}`: nodes that wait for it have not run"
            ));
        }
        let outputs = loaded.plan().outputs.iter();
        for output in outputs.filter(|output| !given.contains(&output.port.name)) {
            if let Some(unreturned) = loaded.plan().unreturned(output) {
                ui::warn(&format!("warning: {unreturned}"));
            }
        }
    }
    match error {
        Some(error) => Err(failed(loaded, &error)),
        None => refused.result(sent),
    }
}

fn warn_of_refused(error: &str) {
    ui::warn(&format!("error: a request was refused: {error}"));
}

/// Requests that the graph has refused.
#[derive(Debug, Default)]
struct Refused {
    count: usize,
    /// Error of the only request, which is not shown yet.
    only: Option<String>,
}

impl Refused {
    /// Returns the result of a run of so many requests.
    fn result(self, sent: usize) -> Result<(), Failure> {
        let text = match (self.count, self.only) {
            (0, _) => return Ok(()),
            (_, Some(error)) => format!("the request was refused: {error}"),
            (1, None) => format!("1 of {} was refused", ui::counted(sent, "request")),
            (count, None) => format!("{count} of {sent} requests were refused"),
        };
        Err(Failure::failed(text))
    }
}

fn failed(loaded: &LocalGraph, error: &str) -> Failure {
    Failure::failed(format!("the graph `{}` failed", loaded.name))
        .detail(error)
        .may_hint(infer::declared(error).or_else(|| returned(error, loaded.plan())))
        .may_hint(looped(error))
        .may_hint(hints::of_handler(error))
}

/// Returns what a node lacks whose handler is a generator.
fn looped(error: &str) -> Option<String> {
    let lacks = error.contains("LOOPBACK is not defined in the node");
    lacks.then(|| GENERATOR_NODE.to_owned())
}

/// Returns what a handler is to return whose result is no list of tensors.
fn returned(error: &str, plan: &GraphPlan) -> Option<String> {
    let (before, found) = error.split_once("execute must return a list of pyovms.Tensor")?;
    if found.contains("it returned coroutine") {
        return None;
    }
    let (_, name) = before.split_once("for node \"")?;
    let name = name.split('"').next()?;
    let node = plan.nodes.iter().find(|node| node.spec.name == name)?;
    let mut outputs = node.spec.outputs.iter();
    let output = &outputs.find(|output| output.at.tag != "LOOPBACK")?.name;
    Some(format!(
        "a list even of one output, each with its name: `return [Tensor(\"{output}\", data)]`"
    ))
}

fn no_inputs(loaded: &LocalGraph) -> Failure {
    let inputs = loaded.plan().inputs.iter();
    let names: Vec<String> = inputs.map(|it| format!("`{}`", it.port.name)).collect();
    loaded
        .no_inputs()
        .detail(format!("it takes {}", names.join(", ")))
        .hint("give each with `-i NAME:DTYPE=VALUE`, or requests in lines with `--requests FILE`")
}

#[cfg(test)]
mod tests {
    use super::Refused;

    #[test]
    fn requests_that_were_refused_are_reported_once() {
        let result = |count, only: Option<&str>, sent| {
            let only = only.map(str::to_owned);
            let result = Refused { count, only }.result(sent);
            result.map_or_else(|failure| failure.text(), |()| String::new())
        };
        assert_eq!(result(0, None, 3), "");
        assert_eq!(
            result(1, Some("no timestamp"), 1),
            "error: the request was refused: no timestamp\n"
        );
        assert_eq!(result(1, None, 3), "error: 1 of 3 requests was refused\n");
        assert_eq!(result(2, None, 3), "error: 2 of 3 requests were refused\n");
    }
}
