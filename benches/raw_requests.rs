//! Cost of infer requests of raw OpenVINO: the lower bound of a sequence that has one of its own.

use std::time::Instant;

use openvino::{CompiledModel, InferRequest, Tensor};
use serde::{Deserialize, Serialize};

use crate::{process, raw};

/// Cost of many infer requests of one model. All but the memory is per request, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Resident memory, in bytes.
    pub(crate) bytes: f64,
    /// Creation and first run of one.
    pub(crate) first_us: f64,
    /// An inference, always of the same infer request.
    pub(crate) same_us: f64,
    /// An inference, of one infer request after the other.
    pub(crate) round_us: f64,
    /// The same, with other tensors set each time.
    pub(crate) bound_us: f64,
    pub(crate) free_us: f64,
}

/// Tensors shared by infer requests.
struct Set {
    input: Tensor,
    outputs: Vec<Tensor>,
}

impl Set {
    fn like(request: &InferRequest, outputs: usize) -> Self {
        let new = |like: &Tensor| {
            let shape = like.get_shape().expect("a tensor has a shape");
            let element = like.get_element_type().expect("a tensor has a type");
            Tensor::new(element, &shape).expect("there is memory")
        };
        let output = |port| request.get_output_tensor_by_index(port);
        Self {
            input: new(&request.get_input_tensor().expect("there is one input")),
            outputs: (0..outputs)
                .map(|port| new(&output(port).expect("there are as many")))
                .collect(),
        }
    }

    fn lend(&self, request: &mut InferRequest) {
        request.set_input_tensor(&self.input).expect("it fits");
        for (port, tensor) in self.outputs.iter().enumerate() {
            let set = request.set_output_tensor_by_index(port, tensor);
            set.expect("it fits");
        }
    }
}

/// Creates infer requests that each run once, with tensors of their own or with `lent` ones.
pub(crate) fn run(library: &str, model: &str, count: usize, lent: bool) {
    let mut compiled = raw::compile(library, model);
    let mut first = new(&mut compiled);
    infer(&mut first);
    let outputs = compiled.get_output_size().expect("it has outputs");
    let sets = [Set::like(&first, outputs), Set::like(&first, outputs)];
    let before = process::resident_mb(std::process::id());

    // One after the other, so that memory that lending sets free is used again.
    let (mut requests, first_us) = timed(count, || -> Vec<InferRequest> {
        (0..count)
            .map(|_| {
                let mut request = new(&mut compiled);
                if lent {
                    sets[0].lend(&mut request);
                }
                infer(&mut request);
                request
            })
            .collect()
    });
    let bytes = (process::resident_mb(std::process::id()) - before) * 1024.0 * 1024.0;
    let ((), same_us) = timed(count, || {
        for _ in 0..count {
            infer(&mut first);
        }
    });
    let ((), round_us) = timed(count, || {
        for request in &mut requests {
            infer(request);
        }
    });
    let ((), bound_us) = timed(count, || {
        for request in &mut requests {
            sets[1].lend(request);
            infer(request);
        }
    });
    let ((), free_us) = timed(count, || drop(requests));
    let outcome = Outcome {
        bytes: bytes / count as f64,
        first_us,
        same_us,
        round_us,
        bound_us,
        free_us,
    };
    println!(
        "{}",
        serde_json::to_string(&outcome).expect("plain numbers")
    );
}

fn infer(request: &mut InferRequest) {
    request.infer().expect("an inference");
}

fn new(compiled: &mut CompiledModel) -> InferRequest {
    compiled.create_infer_request().expect("a request")
}

/// Returns the time of one of `count`, in microseconds.
fn timed<T>(count: usize, work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed().as_secs_f64() * 1e6 / count as f64)
}
