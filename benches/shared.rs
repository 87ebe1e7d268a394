//! A load whose tensors are in system shared memory, by Triton's extension.

use std::{
    cell::Cell,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

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
    Model, cells,
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
        let places: Vec<u64> = (0..clients as u64)
            .map(|client| client * (input + OUTPUT))
            .collect();
        write(&file, size, &places, model).expect("shared memory has room");
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
        let requests = places
            .iter()
            .map(|&place| request(model, (input, OUTPUT), place))
            .collect();
        let load = Self {
            peer,
            runtime,
            client,
            requests,
            file,
        };
        load.run(clients);
        load.check(model, input);
        load
    }

    /// Panics if the region has another output than the same request over the wire, as where its input is another one.
    fn check(&self, model: &Model, output: u64) {
        let client = jobs::connect(&self.runtime, &self.peer);
        let request = cells::request(model);
        let call = client.call(&request).expect("it has a form");
        let answer = self.runtime.block_on(call.send(0));
        let answer = answer.expect("it is answered").read();
        let answer = answer.expect("as the protocol has it");
        let (_, wanted) = answer.outputs.first().expect("it has an output");
        let mut found = vec![0; wanted.data().len()];
        let file = File::open(&self.file).expect("it is there");
        file.read_exact_at(&mut found, output)
            .expect("it has its size");
        let numbers = |data: &[u8]| -> Vec<f32> {
            let (numbers, _) = data.as_chunks::<4>();
            numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()
        };
        let (found, wanted) = (numbers(&found), numbers(wanted.data()));
        let near = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
        assert!(found.iter().zip(&wanted).all(near), "{found:?} {wanted:?}");
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

/// Makes the region, with the numbers of a request at each place of an input.
fn write(file: &Path, size: u64, places: &[u64], model: &Model) -> io::Result<()> {
    let file = File::create(file)?;
    file.set_len(size)?;
    let numbers = cells::numbers(model.shape.iter().product());
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    for &place in places {
        file.write_all_at(&bytes, place)?;
    }
    Ok(())
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
