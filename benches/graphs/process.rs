//! Graphs in this process, without engine and frontends: large tensors on their way to Python and from there, and
//! the cost of nodes that do nothing.

use std::{cell::RefCell, path::Path, sync::Arc, time::Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use ovms::{
    error::Result,
    graph::{Env, GraphDefinition, GraphSource, ServableSession, Servables},
    metrics::{GraphCall, Metrics},
    openvino::runtime,
    python,
    request::{Data, Declared, InferRequest, InputTensor, RequestOrigin},
    servable::ServableInfo,
    tensor::{DataType, Tensor, TensorMap},
};
use tokio::runtime::{Builder, Runtime};

use super::files::{self, INPUT, Node};
use crate::{
    meter::watched,
    report::{
        row::{Row, Side, Unit},
        stats::median,
    },
    run::places,
};

/// Number of nodes of the chain beyond the first.
const NODES: usize = 20;

/// Requests of one turn of a chain.
const CHAINS: usize = 500;

/// Requests of one turn with the large input.
const LARGE: usize = 20;

/// Size of the large input in bytes.
const BYTES: usize = 10_000_000;

/// Measures large tensors, and nodes that do nothing.
pub(super) fn run(pairs: usize) -> Vec<Row> {
    // The packages that a server that finds this runtime would see.
    let library = runtime::find(&places()).map(|found| found.library);
    let environment = library.ok().and_then(|library| {
        let mut above = library.ancestors();
        above
            .find(|folder| folder.join("pyvenv.cfg").is_file())
            .map(Path::to_path_buf)
    });
    python::configure(None, environment);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut rows = watched(|| {
        let looks = Graph::of_node(Node::Look);
        let empty = Graph::around(Node::Empty);
        vec![
            large("python-large", &looks, &runtime, pairs),
            large("python-chain-empty", &empty, &runtime, pairs),
            own(&empty, &runtime, pairs),
        ]
    });
    rows.extend(watched(|| vec![nodes(&runtime, pairs)]));
    rows
}

/// Measures a graph with a large input, against a copy of it in this process.
fn large(id: &str, graph: &Graph, runtime: &Runtime, pairs: usize) -> Row {
    let bytes = vec![7; BYTES];
    let large = request(vec![1, BYTES as i64], DataType::U8, bytes.clone());
    let tiny = request(vec![1, 10], DataType::U8, vec![7; 10]);
    let target = RefCell::new(vec![0; BYTES]);
    let copy = || {
        let took = (0..LARGE).map(|_| {
            let begun = Instant::now();
            target
                .borrow_mut()
                .copy_from_slice(std::hint::black_box(&bytes));
            begun.elapsed().as_secs_f64() * 1e6
        });
        median(&took.collect::<Vec<_>>())
    };
    let [large, tiny, copied] = in_turn(
        pairs,
        [
            &|| graph.median_us(runtime, &large, LARGE),
            &|| graph.median_us(runtime, &tiny, LARGE),
            &copy,
        ],
    );
    // Next to the time of a copy all else is small, so that its own noise is not in the row.
    let one = median(&copied);
    let sides = [("10 MB", large), ("10 bytes", tiny)];
    let sides = sides.map(|(name, values)| Side::new(name, Unit::Micros, values));
    let mut row = Row::compared(id, sides, |large, tiny| (large - tiny) / one);
    row.sides.push(Side::new("a copy", Unit::Micros, copied));
    row
}

/// Measures what a tensor in memory of the handler costs beyond one of `pyovms.empty`, in copies that a handler makes.
fn own(empty: &Graph, runtime: &Runtime, pairs: usize) -> Row {
    let large = request(vec![1, BYTES as i64], DataType::U8, vec![7; BYTES]);
    let [own, copied] = [Node::Own, Node::Copied].map(Graph::around);
    let took = in_turn(
        pairs,
        [
            &|| own.median_us(runtime, &large, LARGE),
            &|| copied.median_us(runtime, &large, LARGE),
            &|| empty.median_us(runtime, &large, LARGE),
        ],
    );
    let none = median(&took[2]);
    let [own, copied, empty] = took;
    // As above: a pair has too much noise to be divided by.
    let one = median(&copied) - none;
    let own = Side::new("its own bytes", Unit::Micros, own);
    let empty = Side::new("pyovms.empty", Unit::Micros, empty);
    let mut row = Row::compared("python-chain-own", [own, empty], |own, empty| {
        (own - empty) / one
    });
    let copied = Side::new("copied by hand", Unit::Micros, copied);
    row.sides.push(copied);
    row
}

/// Measures a chain of nodes that pass on their input against one such node.
fn nodes(runtime: &Runtime, pairs: usize) -> Row {
    let [one, many] = [1, 1 + NODES].map(Graph::of_chain);
    let request = InferRequest {
        inputs: vec![input("stream0", vec![1, 10], DataType::F32, vec![0; 40])],
        ..InferRequest::default()
    };
    let took = in_turn(
        pairs,
        [&|| many.median_us(runtime, &request, CHAINS), &|| {
            one.median_us(runtime, &request, CHAINS)
        }],
    );
    let [many, one] = took;
    let sides = [
        Side::new("21 nodes", Unit::Micros, many),
        Side::new("1 node", Unit::Micros, one),
    ];
    Row::compared("pass-through", sides, |many, one| {
        (many - one) / NODES as f64
    })
}

/// A loaded graph.
struct Graph(Arc<GraphDefinition>);

impl Graph {
    fn of_node(node: Node) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the files");
        files::write(folder.path(), node);
        Self::load(folder.path(), &folder.path().join("graph.pbtxt"))
    }

    fn around(first: Node) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the files");
        let path = files::write_around(folder.path(), first);
        Self::load(folder.path(), &path)
    }

    fn of_chain(nodes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the files");
        let path = files::write_chain(folder.path(), nodes);
        Self::load(folder.path(), &path)
    }

    fn load(folder: &Path, path: &Path) -> Self {
        let source = GraphSource {
            name: "graph".to_owned(),
            base_path: folder.to_owned(),
            graph_path: path.to_owned(),
            workers: python::WorkerOptions::default(),
        };
        let reporter = Metrics::off().reporter("graph", 1);
        let servables: Arc<dyn Servables> = Arc::new(StandIn::default());
        let loaded = GraphDefinition::load(
            &source,
            false,
            &servables,
            &reporter,
            &python::HandlerLoad::default(),
        );
        Self(Arc::new(loaded.expect("the graph is right")))
    }

    /// Sends a request repeatedly, and returns the median time of one, in microseconds.
    fn median_us(&self, runtime: &Runtime, request: &InferRequest, count: usize) -> f64 {
        let took: Vec<f64> = runtime.block_on(async {
            let mut took = Vec::with_capacity(count);
            let counts = GraphCall::uncounted();
            for _ in 0..count {
                let request = request.clone();
                let env = Env::new(Arc::new(StandIn::default()));
                let begun = Instant::now();
                let answer = self.0.infer(env, request, &counts).await;
                took.push(begun.elapsed().as_secs_f64() * 1e6);
                answer.expect("it answers");
            }
            took
        });
        median(&took)
    }
}

/// Stands in for every model: takes all and gives one byte, without a copy.
#[derive(Default)]
struct StandIn(ServableInfo);

impl Servables for StandIn {
    fn session(&self, _name: &str, _version: Option<i64>) -> Result<Arc<dyn ServableSession>> {
        Ok(Arc::new(Self::default()))
    }
}

impl ServableSession for StandIn {
    fn info(&self) -> &ServableInfo {
        &self.0
    }

    fn renewed(&self, _: &ServableInfo) -> Option<ServableInfo> {
        None
    }

    fn infer(
        &self,
        request: InferRequest,
        _: RequestOrigin,
    ) -> BoxFuture<'static, Result<TensorMap>> {
        drop(request);
        let mut outputs = TensorMap::default();
        let one = Tensor::new(DataType::U8, vec![1], Bytes::from_static(&[1]));
        outputs.push(("out".to_owned(), one.expect("it is a byte")));
        Box::pin(std::future::ready(Ok(outputs)))
    }
}

fn request(shape: Vec<i64>, dtype: DataType, data: Vec<u8>) -> InferRequest {
    InferRequest {
        inputs: vec![input(INPUT, shape, dtype, data)],
        ..InferRequest::default()
    }
}

fn input(name: &str, shape: Vec<i64>, dtype: DataType, data: Vec<u8>) -> InputTensor {
    InputTensor {
        name: name.to_owned(),
        datatype: Declared::Known(dtype),
        shape,
        data: Data::Raw(Bytes::from(data)),
    }
}

/// Runs all in turn, in rotating order, and returns the times of each.
fn in_turn<const N: usize>(rounds: usize, measure: [&dyn Fn() -> f64; N]) -> [Vec<f64>; N] {
    for measure in measure {
        // To warm up.
        measure();
        measure();
    }
    let mut took = [const { Vec::new() }; N];
    for round in 0..rounds {
        for turn in 0..N {
            let which = (round + turn) % N;
            took[which].push(measure[which]());
        }
    }
    took
}
