//! Malicious clients: requests that well-behaved libraries never send, in raw HTTP/2.

use std::{io::Write as _, net::Ipv4Addr, time::Duration};

use axum::http::{HeaderMap, HeaderValue, Request};
use bytes::Bytes;
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use futures::future::join_all;
use h2::client::{Builder, SendRequest};
use ovms::proto::kserve::{ModelInferRequest, model_infer_request::InferInputTensor};
use prost::Message as _;
use tokio::net::{TcpSocket, TcpStream};

/// Calls that a connection sends at once; the server takes 128.
const TOGETHER: usize = 100;

/// Attacks a port of loopback until killed.
pub(crate) fn run(kind: &str, port: u16) {
    let attack = Attack::of(kind);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(join_all((0..attack.connections).map(async |_| {
        loop {
            // A connection that the server has closed is followed by the next.
            let _ = attack.connect(port).await;
            tokio::task::yield_now().await;
        }
    })));
}

const INFER: &str = "http://bench/inference.GRPCInferenceService/ModelInfer";
const STREAM: &str = "http://bench/inference.GRPCInferenceService/ModelStreamInfer";

/// Another client than that under observation.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Behaviour of the attackers.
struct Attack {
    connections: usize,
    address: &'static str,
    /// Calls of a connection at once.
    calls: usize,
    /// The window for each answer.
    window: u32,
    /// Messages, or the beginning of one, with their frames.
    body: Bytes,
    is_packed: bool,
    end: End,
    /// Time from the answers of a connection to its next calls.
    pause: Duration,
    /// Address that connections come from.
    source: Ipv4Addr,
}

/// End of a request.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Whole,
    Trailers,
    Never,
}

impl Attack {
    fn of(kind: &str) -> Self {
        let usual = Self {
            connections: 8,
            address: INFER,
            calls: 1,
            window: 1 << 20,
            body: Bytes::new(),
            is_packed: false,
            end: End::Whole,
            pause: Duration::ZERO,
            source: Ipv4Addr::LOCALHOST,
        };
        match kind {
            "packed" => Self {
                body: framed(&packed(&vec![0; 200 << 20]), true),
                is_packed: true,
                ..usual
            },
            "images" => Self {
                body: message("image_any", &[("image", "BYTES", &[1], &image())]),
                ..usual
            },
            "profiles" => Self {
                body: message("image_any", &[("image", "BYTES", &[1], &profiled())]),
                ..usual
            },
            "strings" => Self {
                body: strings(),
                ..usual
            },
            "queues" => {
                let half = message("two", &[("a", "UINT8", &[1 << 20], &vec![0; 1 << 20])]);
                Self {
                    connections: 20,
                    address: STREAM,
                    body: half.repeat(20).into(),
                    end: End::Never,
                    ..usual
                }
            }
            "declared" => Self {
                connections: 10,
                calls: TOGETHER,
                body: framed(&vec![0; 16 << 20], false).slice(..6),
                end: End::Never,
                ..usual
            },
            "windows" => {
                let plain = message(
                    "passthrough_u8",
                    &[("in", "UINT8", &[1, 3 << 19], &vec![0; 3 << 19])],
                );
                Self {
                    connections: 20,
                    calls: TOGETHER,
                    window: 0,
                    body: framed(&packed(&plain[5..]), true),
                    is_packed: true,
                    ..usual
                }
            }
            "bodies" => Self {
                connections: 40,
                calls: TOGETHER,
                body: framed(&vec![0; 1 << 16], false).slice(..60_000),
                end: End::Never,
                ..usual
            },
            "trailers" => Self {
                calls: TOGETHER,
                body: message("dummy", &[("b", "FP32", &[1, 10], &[0; 40])]),
                end: End::Trailers,
                ..usual
            },
            "shapes" => Self {
                connections: 1,
                body: message(
                    "pair",
                    &[
                        ("a", "INT64", &[1, 3], &[0; 24]),
                        ("b", "INT64", &[1, 2], &[0; 16]),
                    ],
                ),
                pause: Duration::from_millis(100),
                ..usual
            },
            "greedy" => Self {
                connections: 1000,
                body: message("dummy", &[("b", "FP32", &[1, 10], &[0; 40])]),
                source: ELSEWHERE,
                ..usual
            },
            // 400 requests a second, once all are connected.
            "modest" => Self {
                pause: Duration::from_millis(2500),
                ..Self::of("greedy")
            },
            other => panic!("there are no attackers of the kind `{other}`"),
        }
    }

    async fn open(&self, port: u16) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.source, 0).into())?;
        socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
    }

    /// Opens a connection and sends over it until it fails.
    async fn connect(&self, port: u16) -> Result<(), h2::Error> {
        let Ok(stream) = self.open(port).await else {
            return Ok(());
        };
        let (client, connection) = Builder::new()
            .initial_window_size(self.window)
            .handshake(stream)
            .await?;
        let calls = async {
            loop {
                let calls = (0..self.calls).map(|_| self.call(client.clone()));
                for outcome in join_all(calls).await {
                    if outcome
                        .as_ref()
                        .is_err_and(|error| error.is_io() || error.is_go_away())
                    {
                        return outcome;
                    }
                }
                tokio::time::sleep(self.pause).await;
            }
        };
        tokio::select! {
            ended = connection => ended,
            ended = calls => ended,
        }
    }

    /// Makes a call and waits for its end, successful or not.
    async fn call(&self, client: SendRequest<Bytes>) -> Result<(), h2::Error> {
        let mut request = Request::post(self.address)
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if self.is_packed {
            request = request.header("grpc-encoding", "gzip");
        }
        let request = request.body(()).expect("it is well-formed");
        let (answer, mut body) = client.ready().await?.send_request(request, false)?;
        body.send_data(self.body.clone(), self.end == End::Whole)?;
        if self.end == End::Trailers {
            body.send_trailers(trailers())?;
        }
        let mut answer = answer.await?.into_body();
        while let Some(data) = answer.data().await {
            answer.flow_control().release_capacity(data?.len())?;
        }
        Ok(())
    }
}

/// Returns 10 KB of trailers.
fn trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    for _ in 0..400 {
        trailers.append("x-attack", HeaderValue::from_static("0123456789abcdef"));
    }
    trailers
}

/// Encodes a request of strings, none of which has a byte.
fn strings() -> Bytes {
    const COUNT: usize = 57 << 18;
    let shape = [i64::try_from(COUNT).expect("it is small")];
    let request = ModelInferRequest {
        model_name: "passthrough_string".to_owned(),
        inputs: vec![InferInputTensor {
            name: "in".to_owned(),
            datatype: "BYTES".to_owned(),
            shape: shape.to_vec(),
            ..InferInputTensor::default()
        }],
        raw_input_contents: vec![vec![0; 4 * COUNT].into()],
        ..ModelInferRequest::default()
    };
    framed(&request.encode_to_vec(), false)
}

/// Encodes a request as a gRPC frame.
fn message(model: &str, inputs: &[(&str, &str, &[i64], &[u8])]) -> Bytes {
    let mut request = ModelInferRequest {
        model_name: model.to_owned(),
        ..ModelInferRequest::default()
    };
    for (name, datatype, shape, bytes) in inputs {
        request.inputs.push(InferInputTensor {
            name: (*name).to_owned(),
            datatype: (*datatype).to_owned(),
            shape: shape.to_vec(),
            ..InferInputTensor::default()
        });
        let raw = match *datatype {
            "BYTES" => {
                let length = u32::try_from(bytes.len()).expect("it is small");
                [&length.to_le_bytes(), *bytes].concat()
            }
            _ => bytes.to_vec(),
        };
        request.raw_input_contents.push(raw.into());
    }
    framed(&request.encode_to_vec(), false)
}

fn framed(message: &[u8], is_packed: bool) -> Bytes {
    let length = u32::try_from(message.len()).expect("it is small");
    let mut framed = vec![u8::from(is_packed)];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("a Vec takes it");
    encoder.finish().expect("a Vec takes it")
}

/// Returns a PNG image of a few pixels with a compressed profile of 400 MB.
fn profiled() -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(8, 8)
        .write_to(&mut file, image::ImageFormat::Png)
        .expect("a Vec takes it");
    let mut file = file.into_inner();
    let mut packer = ZlibEncoder::new(b"iCCPa\0\0".to_vec(), Compression::best());
    packer
        .write_all(&vec![0; 400 << 20])
        .expect("a Vec takes it");
    let named = packer.finish().expect("a Vec takes it");
    let mut sum = flate2::Crc::new();
    sum.update(&named);
    let length = u32::try_from(named.len() - 4).expect("it is short");
    let chunk = [&length.to_be_bytes()[..], &named, &sum.sum().to_be_bytes()].concat();
    // Behind the signature and the header, which has 25 bytes.
    file.splice(33..33, chunk);
    file
}

/// Returns a JPEG image of a few pixels, whose header claims 8000 by 8000.
fn image() -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(8, 8)
        .write_to(&mut file, image::ImageFormat::Jpeg)
        .expect("a Vec takes it");
    let mut file = file.into_inner();
    let frame = file.windows(2).position(|pair| pair == [0xff, 0xc0]);
    let frame = frame.expect("it is a baseline JPEG");
    for side in [frame + 5, frame + 7] {
        file[side..side + 2].copy_from_slice(&8000_u16.to_be_bytes());
    }
    file
}
