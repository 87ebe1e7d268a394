//! A load whose tensors are in system shared memory, by Triton's extension.

use std::{cell::Cell, fs, path::PathBuf, time::Instant};

use futures::future::join_all;
use ovms::proto::kserve::{
    InferParameter, ModelInferRequest, SystemSharedMemoryRegisterRequest,
    grpc_inference_service_client::GrpcInferenceServiceClient,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use crate::{
    Model,
    jobs::{self, Cost, cost},
    peer::Peer,
    process,
};

/// Bytes of the region for outputs of each client.
const OUTPUT: u64 = 4096;

/// Clients that each have a part of a region for inputs, and one for outputs.
pub(crate) struct SharedLoad {
    peer: Peer,
    runtime: Runtime,
    client: GrpcInferenceServiceClient<Channel>,
    requests: Vec<ModelInferRequest>,
    file: PathBuf,
}

impl SharedLoad {
    /// Starts a server, and registers the regions.
    pub(crate) fn new(model: &Model, clients: usize) -> Self {
        let key = format!("ovms_bench_{}", std::process::id());
        let peer = Peer::ovms_with(model, &["--shared_memory", &format!("/{key}")]);
        let runtime = jobs::runtime();
        let input: u64 = model.shape.iter().product::<usize>() as u64 * 4;
        let size = (input + OUTPUT) * clients as u64;
        let file = PathBuf::from("/dev/shm").join(&key);
        let made = fs::File::create(&file).and_then(|file| file.set_len(size));
        made.expect("shared memory has room");
        let url = format!("http://127.0.0.1:{}", peer.port());
        let client = runtime.block_on(async {
            let client = GrpcInferenceServiceClient::connect(url).await;
            let mut client = client.expect("the server listens");
            let region = SystemSharedMemoryRegisterRequest {
                name: "bench".to_owned(),
                key: format!("/{key}"),
                offset: 0,
                byte_size: size,
            };
            let registered = client.system_shared_memory_register(region).await;
            registered.expect("the key has the prefix");
            client
        });
        let requests = (0..clients as u64)
            .map(|client| request(model, (input, OUTPUT), client * (input + OUTPUT)))
            .collect();
        Self {
            peer,
            runtime,
            client,
            requests,
            file,
        }
    }

    /// Sends so many requests.
    pub(crate) fn run(&self, count: usize) -> Cost {
        let sent = Cell::new(0);
        let cpu = process::cpu(self.peer.id());
        let begun = Instant::now();
        let took = self.runtime.block_on(async {
            let clients = self.requests.iter().map(async |request| {
                let mut client = self.client.clone();
                let mut took = Vec::new();
                while sent.get() < count {
                    sent.set(sent.get() + 1);
                    let begun = Instant::now();
                    let answer = client.model_infer(request.clone()).await;
                    let answer = answer.expect("it is answered").into_inner();
                    assert!(
                        answer
                            .raw_output_contents
                            .iter()
                            .all(|data| data.is_empty())
                    );
                    took.push(begun.elapsed());
                }
                took
            });
            join_all(clients).await.concat()
        });
        cost(took, begun.elapsed(), process::cpu(self.peer.id()) - cpu)
    }
}

impl Drop for SharedLoad {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// Makes a request whose input of so many bytes begins at an offset, with room for the output behind it.
fn request(model: &Model, (input, output): (u64, u64), offset: u64) -> ModelInferRequest {
    let place = |offset: u64, size: u64| {
        let number =
            |value: u64| ParameterChoice::Int64Param(i64::try_from(value).expect("it is small"));
        [
            (
                "shared_memory_region",
                ParameterChoice::StringParam("bench".to_owned()),
            ),
            ("shared_memory_offset", number(offset)),
            ("shared_memory_byte_size", number(size)),
        ]
        .map(|(name, choice)| {
            let parameter_choice = Some(choice);
            (name.to_owned(), InferParameter { parameter_choice })
        })
        .into()
    };
    ModelInferRequest {
        model_name: model.name.to_owned(),
        inputs: vec![InferInputTensor {
            name: model.input.to_owned(),
            datatype: "FP32".to_owned(),
            shape: model.shape.iter().map(|length| *length as i64).collect(),
            parameters: place(offset, input),
            ..InferInputTensor::default()
        }],
        outputs: vec![InferRequestedOutputTensor {
            name: "scores".to_owned(),
            parameters: place(offset + input, output),
        }],
        ..ModelInferRequest::default()
    }
}
