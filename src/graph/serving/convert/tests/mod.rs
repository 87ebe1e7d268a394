mod answers;
mod inputs;
mod parameters;

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    graph::{
        calculators::{node::Ports, packet::PacketType},
        check::plan::{GraphPlan, GraphPort},
        file::PoolSize,
    },
    request::{Data, Declared, InferRequest, InputTensor},
};

/// Returns a plan of inputs and outputs only.
fn plan(ports: &[(&str, PacketType)]) -> GraphPlan {
    let ports: Vec<_> = ports
        .iter()
        .enumerate()
        .map(|(stream, (text, form))| GraphPort {
            port: Ports::of(&[text])[0].clone(),
            stream,
            form: form.clone(),
        })
        .collect();
    GraphPlan {
        nodes: Vec::new(),
        streams: Vec::new(),
        sides: Vec::new(),
        inputs: ports.clone(),
        outputs: ports,
        max_queue: None,
        report_deadlock: false,
        pool: PoolSize::Off,
    }
}

fn input(name: &str, datatype: &str, shape: &[i64], data: Data) -> InputTensor {
    InputTensor {
        name: name.to_owned(),
        datatype: Declared::from_kserve(datatype.to_owned()),
        shape: shape.to_vec(),
        data,
    }
}

fn raw(data: &'static [u8]) -> Data {
    Data::Raw(Bytes::from_static(data))
}

fn values(count: usize, data: &'static [u8]) -> Data {
    let bytes = Bytes::from_static(data);
    Data::Values { count, bytes }
}

fn request(inputs: Vec<InputTensor>) -> Arc<InferRequest> {
    Arc::new(InferRequest {
        inputs,
        ..InferRequest::default()
    })
}
