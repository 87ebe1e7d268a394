//! Requests of sequences in every protocol, and their responses in one form.

mod bodies;
mod messages;

use std::{collections::BTreeMap, path::Path};

use serde_json::{Value, json};
use tonic::Code;

pub(crate) use self::{
    bodies::rest_body,
    messages::{infer, of_infer, of_predict, predict},
};
use super::{Server, eventually, grpc::error, http, model, tfs::Tfs};

/// The header, and the metadata, with the idempotency key.
const KEY: &str = "ovms-idempotency-key";

/// One value of a special input, in the type of either.
type Number = u64;

/// A form of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// TensorFlow Serving over gRPC.
    TfsGrpc,
    /// TensorFlow Serving over REST, in columns.
    TfsRest,
    /// KServe over gRPC, typed contents.
    Typed,
    /// KServe over gRPC, raw contents.
    Raw,
    /// KServe over REST, JSON.
    Json,
    /// KServe over REST, binary data behind the JSON.
    Binary,
}

impl Wire {
    pub(crate) const ALL: [Self; 6] = [
        Self::TfsGrpc,
        Self::TfsRest,
        Self::Typed,
        Self::Raw,
        Self::Json,
        Self::Binary,
    ];

    /// Forms with request parameters.
    pub(crate) const KSERVE: [Self; 4] = [Self::Typed, Self::Raw, Self::Json, Self::Binary];

    pub(crate) fn is_grpc(self) -> bool {
        matches!(self, Self::TfsGrpc | Self::Typed | Self::Raw)
    }

    /// Returns the text of a refusal with these codes.
    pub(crate) fn error(self, code: Code, status: u16, text: &str) -> String {
        if self.is_grpc() {
            format!("{code:?}: {text}")
        } else {
            format!("{status}: {text}")
        }
    }

    /// Returns the text of the refusal of an invalid request.
    pub(crate) fn invalid(self, text: &str) -> String {
        self.error(Code::InvalidArgument, 400, text)
    }

    /// Returns the text of the refusal of a request for an unknown sequence.
    pub(crate) fn unknown(self) -> String {
        self.error(
            Code::NotFound,
            404,
            "Sequence with provided ID does not exist",
        )
    }
}

/// A special input, which may be invalid.
#[derive(Debug, Clone)]
pub(crate) struct Special {
    /// Lengths of the dimensions, or no shape at all.
    pub(crate) shape: Option<Vec<i64>>,
    pub(crate) values: Vec<Number>,
}

impl Special {
    pub(crate) fn of(value: Number) -> Self {
        Self {
            shape: Some(vec![1]),
            values: vec![value],
        }
    }

    pub(crate) fn shapeless(value: Number) -> Self {
        Self {
            shape: None,
            ..Self::of(value)
        }
    }

    fn lengths(&self) -> &[i64] {
        self.shape.as_deref().unwrap_or_default()
    }

    /// Packs the values as bytes of a width.
    fn bytes(&self, width: usize) -> Vec<u8> {
        let pack = |value: &Number| value.to_le_bytes()[..width].to_vec();
        self.values.iter().flat_map(pack).collect()
    }
}

/// A request of a sequence.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) model: String,
    /// Version of the model; 0 is the default one.
    pub(crate) version: i64,
    pub(crate) id: Option<Special>,
    pub(crate) control: Option<Special>,
    pub(crate) parameters: Vec<(&'static str, Value)>,
    /// Idempotency key beside the request: a header, or metadata.
    pub(crate) key: Option<String>,
    /// Name, shape and elements of the data input.
    pub(crate) data: (&'static str, Vec<i64>, Vec<f32>),
    /// Extra input of one INT64.
    pub(crate) extra: Option<(&'static str, i64)>,
    /// Requested outputs, and whether each is requested in binary.
    pub(crate) outputs: Vec<(&'static str, bool)>,
}

impl Ask {
    /// Creates a request without a sequence, for a model of running totals.
    pub(crate) fn new(model: &str, x: f32) -> Self {
        Self {
            model: model.to_owned(),
            version: 0,
            id: None,
            control: None,
            parameters: Vec::new(),
            key: None,
            data: ("x", vec![1, 4], vec![x; 4]),
            extra: None,
            outputs: Vec::new(),
        }
    }

    pub(crate) fn id(mut self, id: u64) -> Self {
        self.id = Some(Special::of(id));
        self
    }

    pub(crate) fn control(mut self, control: u64) -> Self {
        self.control = Some(Special::of(control));
        self
    }

    pub(crate) fn start(self) -> Self {
        self.control(1)
    }

    pub(crate) fn end(self) -> Self {
        self.control(2)
    }

    pub(crate) fn extra(mut self, name: &'static str, value: i64) -> Self {
        self.extra = Some((name, value));
        self
    }

    pub(crate) fn version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }

    pub(crate) fn parameter(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    pub(crate) fn output(mut self, name: &'static str, binary: bool) -> Self {
        self.outputs.push((name, binary));
        self
    }

    /// Makes the tensor invalid: it has one element too many.
    pub(crate) fn bad(mut self) -> Self {
        self.data.1 = vec![1, 5];
        self.data.2.push(0.0);
        self
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// Names of the outputs, in order; sorted if the protocol has no order.
    pub(crate) names: Vec<String>,
    /// Elements of the first output that is not the id.
    pub(crate) values: Vec<f32>,
    /// Sequence id; 0 if there is none.
    pub(crate) id: u64,
    /// Response parameter with the id.
    pub(crate) echo: Option<Value>,
    /// Version that answered; 0 if the protocol does not report it.
    pub(crate) version: i64,
}

impl Answer {
    /// Returns the id and the total, which is the same four times.
    pub(crate) fn total(&self) -> (u64, f32) {
        assert_eq!(self.values, [self.values[0]; 4]);
        (self.id, self.values[0])
    }
}

/// Clients of every protocol.
pub(crate) struct Client<'a> {
    pub(crate) server: &'a Server,
    pub(crate) tfs: Tfs,
}

impl<'a> Client<'a> {
    pub(crate) fn connect(server: &'a Server) -> Self {
        Self {
            server,
            tfs: Tfs::connect(server),
        }
    }

    /// Sends a request; returns the response, or code and text of the refusal.
    pub(crate) fn send(&self, wire: Wire, ask: &Ask) -> Result<Answer, String> {
        match wire {
            Wire::TfsGrpc => {
                let answer = self.tfs.predict(keyed(ask, predict(ask)));
                answer
                    .map(|answer| of_predict(&answer))
                    .map_err(|status| error(&status))
            }
            Wire::TfsRest => bodies::tfs(self.server, ask),
            Wire::Typed | Wire::Raw => {
                let answer = self
                    .tfs
                    .grpc
                    .infer(keyed(ask, infer(ask, wire == Wire::Raw)));
                answer
                    .map(|answer| of_infer(&answer))
                    .map_err(|status| error(&status))
            }
            Wire::Json => bodies::kserve(self.server, ask, false),
            Wire::Binary => bodies::kserve(self.server, ask, true),
        }
    }

    /// Sends a request to a model of running totals that must succeed; returns id and total.
    pub(crate) fn total(&self, wire: Wire, ask: &Ask) -> (u64, f32) {
        let answer = self.send(wire, ask);
        answer
            .unwrap_or_else(|error| panic!("{wire:?}: {error}: {ask:?}"))
            .total()
    }

    /// Sends a request that must be refused.
    pub(crate) fn refused(&self, wire: Wire, ask: &Ask) -> String {
        match self.send(wire, ask) {
            Ok(answer) => panic!("{wire:?}: {answer:?}: {ask:?}"),
            Err(error) => error,
        }
    }
}

/// Puts the idempotency key beside a message.
fn keyed<T>(ask: &Ask, message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(key) = &ask.key {
        let key = key.parse().expect("a test's key is ASCII");
        request.metadata_mut().insert(KEY, key);
    }
    request
}

/// Serves a fixture as a stateful model.
pub(crate) fn serve(name: &str, flags: &[&str]) -> Server {
    let flags: Vec<&str> = ["--stateful"].iter().chain(flags).copied().collect();
    Server::start_with(name, &flags)
}

/// Serves a configuration file, with more flags and no watcher.
pub(crate) fn serve_file(path: &Path, flags: &[&str]) -> Server {
    let still = ["--file_system_poll_wait_seconds", "0"];
    let flags: Vec<&str> = still.iter().chain(flags).copied().collect();
    let server = Server::of_file(path, &flags);
    server.wait_ready();
    server
}

/// Creates the entry of a stateful fixture for a configuration file.
pub(crate) fn entry(name: &str, fixture: &str) -> Value {
    json!({
        "name": name,
        "base_path": model(fixture),
        "stateful": true,
        "plugin_config": {"INFERENCE_PRECISION_HINT": "f32"},
    })
}

/// Writes a configuration file atomically.
pub(crate) fn write(path: &Path, models: &[Value]) {
    let list: Vec<Value> = models
        .iter()
        .map(|config| json!({ "config": config }))
        .collect();
    let next = path.with_extension("next");
    let text = json!({ "model_config_list": list }).to_string();
    std::fs::write(&next, text).expect("the folder is ours");
    std::fs::rename(next, path).expect("the folder is ours");
}

/// Returns the samples of sequences on the metrics page, without their common beginning.
pub(crate) fn counts(server: &Server) -> BTreeMap<String, u64> {
    let page = http::get(server, "/metrics").text();
    let samples = page
        .lines()
        .filter_map(|line| line.strip_prefix("ovms_sequences_"));
    let samples = samples.map(|sample| {
        let (name, value) = sample.rsplit_once(' ').expect("a sample has a value");
        (
            name.to_owned(),
            value.parse().expect("it is a whole number"),
        )
    });
    samples.collect()
}

/// Waits until a sample of sequences has a value.
pub(crate) fn wait_count(server: &Server, sample: &str, value: u64) {
    let mut last = BTreeMap::new();
    eventually(&format!("ovms_sequences_{sample} {value}"), || {
        last = counts(server);
        (last.get(sample) == Some(&value)).then_some(())
    });
}
