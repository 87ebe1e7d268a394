//! Cost of the other APIs: JSON in bytes per second, REST with binary data and TensorFlow Serving's
//! API against KServe's gRPC.

use ovms::{
    client::{Api, TensorForm},
    tensor::{DataType, Tensor, values::write_json},
};

use crate::{
    INPUT_600K, Model, TINY, cells,
    jobs::{self, Figure, Load, Pairs},
    meter::watched,
    peer::Peer,
    report::row::Row,
    run::Lengths,
};

/// Requests of 600 KB in a turn: half a second or less.
const LARGE: usize = 400;

/// Measures JSON, and REST against gRPC.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = watched(|| vec![Row::new("rest-json", json_rates(lengths))]);
    for (id, model) in [("rest-fullsize", &INPUT_600K), ("rest-dummy", &TINY)] {
        rows.extend(watched(|| {
            let pairs = over_grpc(Api::KserveRest, model, lengths);
            vec![pairs.ratio(id, Figure::Rate, ["REST", "gRPC"])]
        }));
    }
    rows
}

/// Measures TensorFlow Serving's API over gRPC.
pub(crate) fn tfs(lengths: &Lengths) -> Vec<Row> {
    let mut rows = Vec::new();
    for (id, model) in [("tfs-dummy", &TINY), ("tfs-fullsize", &INPUT_600K)] {
        rows.extend(watched(|| {
            let pairs = over_grpc(Api::TfsGrpc, model, lengths);
            vec![pairs.ratio(id, Figure::Rate, ["TensorFlow Serving", "KServe"])]
        }));
    }
    rows
}

/// Measures one server over another API and over KServe's gRPC in turn.
fn over_grpc(api: Api, model: &Model, lengths: &Lengths) -> Pairs {
    let runtime = jobs::runtime();
    let peer = Peer::ovms(model);
    let clients = [api, Api::KserveGrpc].map(|api| jobs::connect_by(&runtime, &peer, api));
    let jobs = [vec![cells::request(model)]];
    let load = |index: usize| Load::new(&peer, &runtime, &clients[index], &jobs);
    let count = if model.name == TINY.name {
        lengths.requests * 2
    } else {
        LARGE.min(lengths.requests)
    };
    jobs::in_turn([&load(0), &load(1)], [count; 2], lengths.pairs)
}

/// Returns megabytes of JSON per second of processor time, which includes all work of the server for
/// a request: receiving the body, parsing it, and running the model.
fn json_rates(lengths: &Lengths) -> Vec<f64> {
    let model = &INPUT_600K;
    let elements: usize = model.shape.iter().product();
    // As many digits as a float of an image has. A fixed sequence, so that runs compare.
    let data: Vec<u8> = (0..elements as u32)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .flat_map(|hash| (hash as f32 / u32::MAX as f32).to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F32, model.shape.to_vec(), data.clone().into())
        .expect("as many bytes as the shape needs");
    let mut json = Vec::new();
    write_json(&tensor, &mut json);
    let request = cells::request_of(model, data, TensorForm::Values);
    let runtime = jobs::runtime();
    let peer = Peer::ovms(model);
    let client = jobs::connect_by(&runtime, &peer, Api::KserveRest);
    let load = Load::new(&peer, &runtime, &client, &[vec![request]]).by(2);
    let count = (lengths.requests / 50).max(5);
    load.run(count);
    (0..lengths.pairs)
        .map(|_| json.len() as f64 / load.run(count).cpu_us)
        .collect()
}
