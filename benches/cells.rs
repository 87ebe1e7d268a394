//! One cell of the table: a load on one process, and what it cost.

use std::{path::Path, time::Duration};

use ovms::{
    client::{Api, Client, Form, ModelId, Request, bench},
    tensor::{DataType, Tensor, TensorMap},
};

use crate::{
    Model,
    peer::{Peer, Raw},
    process,
};

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the serving process for each request.
    pub(crate) cpu_us: f64,
    pub(crate) peak_mb: f64,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    Seconds(f64),
    Requests(u64),
}

/// Measures raw OpenVINO with one infer request for each thread.
pub(crate) fn raw(library: &Path, model: &Model, threads: usize, seconds: f64) -> Cell {
    let outcome = Raw::load(library, model, threads, seconds).run();
    Cell {
        per_second: outcome.requests as f64 / outcome.seconds,
        p50_us: outcome.p50_us,
        p99_us: outcome.p99_us,
        cpu_us: outcome.cpu_us,
        peak_mb: outcome.peak_mb,
    }
}

/// Measures a process over the wire, with tensors as bytes.
pub(crate) fn served(
    peer: &Peer,
    api: Api,
    model: &Model,
    concurrency: usize,
    length: Length,
) -> Cell {
    load(peer, api, &request(model), concurrency, length)
}

/// Measures a process over the wire with a request.
pub(crate) fn load(
    peer: &Peer,
    api: Api,
    request: &Request,
    concurrency: usize,
    length: Length,
) -> Cell {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let options = peer.options(api, concurrency);
        let client = Client::connect(&options).await.expect("the server listens");
        let call = client
            .call(request)
            .expect("the request has a form in the protocol");
        let warm = bench::Bench::new(plan(concurrency, Length::Seconds(0.5)));
        warm.run(&call).await.expect("requests are answered");
        let cpu = process::cpu(peer.id());
        let measured = bench::Bench::new(plan(concurrency, length));
        measured.run(&call).await.expect("requests are answered");
        let cpu = process::cpu(peer.id()) - cpu;
        let report = measured.report();
        assert_eq!(report.progress.failed, 0, "{:?}", report.errors);
        let latency = report.latency.expect("there were answers");
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        Cell {
            per_second: report.throughput,
            p50_us: us(latency.p50),
            p99_us: us(latency.p99),
            cpu_us: us(cpu) / report.progress.done as f64,
            peak_mb: process::peak_mb(peer.id()),
        }
    })
}

fn plan(concurrency: usize, length: Length) -> bench::Plan {
    let (requests, duration) = match length {
        Length::Seconds(seconds) => (None, Some(Duration::from_secs_f64(seconds))),
        Length::Requests(requests) => (Some(requests), None),
    };
    bench::Plan {
        requests,
        duration,
        concurrency,
        warmup: 0,
    }
}

/// Makes a request of numbers that differ.
pub(crate) fn request(model: &Model) -> Request {
    let elements: usize = model.shape.iter().product();
    let data: Vec<u8> = (0..elements)
        .flat_map(|index| ((index % 251) as f32).to_le_bytes())
        .collect();
    request_of(model, data, Form::Bytes)
}

/// Makes a request of a tensor's bytes.
pub(crate) fn request_of(model: &Model, data: Vec<u8>, form: Form) -> Request {
    let tensor = Tensor::new(DataType::F32, model.shape.to_vec(), data.into())
        .expect("as many bytes as the shape needs");
    let mut inputs = TensorMap::default();
    inputs.push(model.input, tensor);
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
