//! The table of absolute figures: each side with each number of clients.

use std::{future::pending, path::Path, time::Duration};

use ovms::{
    client::{
        Api, Client, ModelId, Request, TensorForm,
        load::{LoadPlan, LoadRun, LoadTarget, Traffic, TrafficKind, Until, WeightedRequest},
    },
    tensor::{DataType, Tensor},
};

use crate::{
    CLASSIFIER, CONVOLUTIONAL, INPUT_600K, Model, TINY,
    meter::watched,
    peer::{Peer, Raw},
    process,
    raw::Span,
    report::{
        catalog::{CELL_MODELS, CELL_SIDES},
        row::{Row, Side, Unit},
    },
    run::Lengths,
};

/// Cost of a cell.
#[derive(Debug, Clone, Copy)]
struct Cell {
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Processor time of the serving process per request.
    cpu_us: f64,
    peak_mb: f64,
}

/// Measures all cells.
pub(crate) fn run(lengths: &Lengths) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((name, clients, with_echo), model) in
        CELL_MODELS
            .into_iter()
            .zip([TINY, INPUT_600K, CLASSIFIER, CONVOLUTIONAL])
    {
        assert_eq!(name, model.name);
        // Few requests fit into the time otherwise.
        let seconds = if name == CONVOLUTIONAL.name { 2.0 } else { 1.0 } * lengths.cell;
        for (side, _) in CELL_SIDES {
            if side == "echo" && !with_echo {
                continue;
            }
            for &clients in clients {
                let id = format!("{name}-{side}-{clients}");
                rows.extend(watched(|| {
                    vec![row(
                        &id,
                        measure(&lengths.library, side, &model, clients, seconds),
                    )]
                }));
            }
        }
    }
    rows
}

/// Measures a cell in a process of its own, so that peak memory is attributed correctly.
fn measure(library: &Path, side: &str, model: &Model, clients: usize, seconds: f64) -> Cell {
    match side {
        "raw" => raw(library, model, clients, seconds),
        "echo" => served(&Peer::echo(), Api::KserveGrpc, model, clients, seconds),
        "grpc" => served(&Peer::ovms(model), Api::KserveGrpc, model, clients, seconds),
        _ => served(&Peer::ovms(model), Api::KserveRest, model, clients, seconds),
    }
}

fn row(id: &str, cell: Cell) -> Row {
    let side = |name, unit, value| Side::new(name, unit, vec![value]);
    Row {
        sides: vec![
            side("p50", Unit::Micros, cell.p50_us),
            side("p99", Unit::Micros, cell.p99_us),
            side("CPU a request", Unit::Micros, cell.cpu_us),
            side("peak memory", Unit::Megabytes, cell.peak_mb),
        ],
        ..Row::new(id, vec![cell.per_second])
    }
}

/// Measures raw OpenVINO with one infer request per thread.
fn raw(library: &Path, model: &Model, threads: usize, seconds: f64) -> Cell {
    let outcome = Raw::load(library, model, threads).infer(Span::Seconds(seconds));
    Cell {
        per_second: outcome.requests as f64 / outcome.seconds,
        p50_us: outcome.p50_us,
        p99_us: outcome.p99_us,
        cpu_us: outcome.cpu_us,
        peak_mb: outcome.peak_mb,
    }
}

/// Measures a process over the wire, with tensors as bytes.
fn served(peer: &Peer, api: Api, model: &Model, concurrency: usize, seconds: f64) -> Cell {
    let request = request(model);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let options = peer.options(api, concurrency);
        let client = Client::connect(&options).await.expect("the server listens");
        let requests = vec![WeightedRequest {
            request,
            weight: 1.0,
        }];
        let traffic = Traffic::new(&client, requests, TrafficKind::Unary, concurrency, 0)
            .expect("the request has a form in the protocol");
        let warm = LoadRun::new(plan(concurrency, seconds / 4.0));
        let warmed = warm.run(&traffic, pending()).await;
        warmed.expect("requests are answered");
        let cpu = process::cpu(peer.id());
        let measured = LoadRun::new(plan(concurrency, seconds));
        let run = measured.run(&traffic, pending()).await;
        run.expect("requests are answered");
        let cpu = process::cpu(peer.id()) - cpu;
        let report = measured.report().expect("requests were sent");
        assert_eq!(report.failed, 0, "{:?}", report.errors);
        let latency = report.latency_us.expect("there were answers");
        Cell {
            per_second: report.rate,
            p50_us: latency.p50,
            p99_us: latency.p99,
            cpu_us: cpu.as_secs_f64() * 1e6 / report.ok as f64,
            peak_mb: process::peak_mb(peer.id()),
        }
    })
}

fn plan(concurrency: usize, seconds: f64) -> LoadPlan {
    LoadPlan {
        target: LoadTarget::Concurrency(concurrency),
        warmup: 0,
        until: Until::Limits {
            requests: None,
            duration: Some(Duration::from_secs_f64(seconds)),
        },
    }
}

/// Creates a request with distinct numbers.
pub(crate) fn request(model: &Model) -> Request {
    let elements: usize = model.shape.iter().product();
    let data = numbers(elements).flat_map(f32::to_le_bytes).collect();
    request_of(model, data, TensorForm::Bytes)
}

/// Returns the numbers of a request.
pub(crate) fn numbers(elements: usize) -> impl Iterator<Item = f32> {
    (0..elements).map(|index| (index % 251) as f32)
}

/// Creates a request from a tensor's bytes.
pub(crate) fn request_of(model: &Model, data: Vec<u8>, form: TensorForm) -> Request {
    request_with(model, model.shape, data, form)
}

/// Creates a request from a tensor's shape and bytes.
pub(crate) fn request_with(
    model: &Model,
    shape: &[usize],
    data: Vec<u8>,
    form: TensorForm,
) -> Request {
    let tensor = Tensor::new(DataType::F32, shape.to_vec(), data.into())
        .expect("as many bytes as the shape needs");
    let inputs = vec![(model.input.to_owned(), tensor)];
    Request {
        model: ModelId {
            name: model.name.to_owned(),
            version: None,
        },
        id: String::new(),
        parameters: Vec::new(),
        inputs,
        outputs: Vec::new(),
        form,
        model_outputs: Vec::new(),
    }
}
