//! Lines that try a servable, to be copied into a terminal.

use axum::http::{HeaderMap, Uri, header};
use serde_json::{Value, json};

use super::{
    Dashboard,
    ask::encoded,
    view::{Kind, Loaded, Tensor, View},
};
use crate::{
    frontends::routes::HttpPort,
    tensor::{DataType, Dim},
};

/// Maximum number of elements that a line writes out.
const MAX_WRITTEN: usize = 64;

/// Placeholder for a text.
const SOME_TEXT: &str = "some text";

/// Address at which the browser has reached the server, which is how its user does.
pub(super) struct Address {
    host: String,
    port: Option<u16>,
    rest_port: Option<u16>,
    /// Address of REST; `None` if there is none.
    rest: Option<String>,
    /// Unix sockets of gRPC and REST, which count where there is no port.
    sockets: [Option<String>; 2],
    /// Use of TLS on the ports of gRPC and REST.
    tls: [bool; 2],
    /// Indicates that it is the port that takes requests.
    is_rest: bool,
}

impl Address {
    /// Reads where a request went to.
    pub(super) fn new(headers: &HeaderMap, uri: &Uri, dashboard: &Dashboard) -> Self {
        let named = headers.get(header::HOST).and_then(|it| it.to_str().ok());
        let named = named.or_else(|| uri.authority().map(|it| it.as_str()));
        let rest_port = dashboard.rest_port;
        let usual = || {
            let port = rest_port.map_or(String::new(), |port| format!(":{port}"));
            format!("localhost{port}")
        };
        let reached = named
            .filter(|it| is_address(it))
            .map_or_else(usual, str::to_owned);
        let host = host(&reached).to_owned();
        let rest = match (dashboard.looked_through, rest_port) {
            (HttpPort::Rest, _) => Some(reached),
            (HttpPort::Management, port) => port.map(|port| format!("{host}:{port}")),
        };
        Self {
            host,
            port: dashboard.port,
            rest_port,
            rest,
            sockets: dashboard.sockets.clone(),
            tls: dashboard.tls,
            is_rest: dashboard.looked_through == HttpPort::Rest,
        }
    }

    /// Returns the flags of `ovms infer` that lead to the server.
    fn flags(&self) -> String {
        let rest = |url: &str| format!(" --api kserve-rest --url {}", quoted(url));
        let [grpc_tls, rest_tls] = self.tls;
        let with = |has_tls: bool, scheme| if has_tls { scheme } else { "" };
        let (grpcs, https) = (with(grpc_tls, "grpcs://"), with(rest_tls, "https://"));
        match (self.port, &self.rest, &self.sockets) {
            (Some(port), _, _) => {
                format!(" --url {}", quoted(&format!("{grpcs}{}:{port}", self.host)))
            }
            (None, _, [Some(path), _]) => format!(" --url {}", quoted(path)),
            (None, Some(address), _) => rest(&format!("{https}{address}")),
            (None, None, [None, Some(path)]) => rest(path),
            (None, None, [None, None]) => rest(&self.host),
        }
    }

    /// Returns whether requests can be sent to where the page comes from.
    pub(super) fn takes_requests(&self) -> bool {
        self.is_rest
    }

    /// Returns where REST is, as the beginning of a URL; empty if there is none.
    pub(super) fn rest_url(&self) -> String {
        let scheme = if self.tls[1] { "https" } else { "http" };
        let rest = self.rest.as_ref();
        rest.map_or(String::new(), |rest| format!("{scheme}://{rest}"))
    }

    /// Returns where gRPC is, as host and port; empty if there is no port.
    pub(super) fn grpc(&self) -> String {
        let host = &self.host;
        self.port
            .map_or(String::new(), |port| format!("{host}:{port}"))
    }

    /// Returns whether the port of gRPC has TLS.
    pub(super) fn has_grpc_tls(&self) -> bool {
        self.tls[0]
    }

    /// Returns where the ports are, in words.
    pub(super) fn ports(&self) -> String {
        let grpc = self.port.map(|port| format!("gRPC {port}"));
        let rest = self.rest_port.map(|port| format!("REST {port}"));
        let sockets = self.sockets.iter().flatten().cloned();
        let both: Vec<String> = grpc.into_iter().chain(rest).chain(sockets).collect();
        both.join(", ")
    }
}

/// Returns whether a text has nothing in it that a host and a port have not.
fn is_address(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    !text.is_empty() && text.len() <= 255 && text.chars().all(fits)
}

/// Takes the port off, if there is one.
fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        // Colons within brackets are those of an address without a port.
        Some((host, port)) if !port.contains(']') => host,
        _ => address,
    }
}

/// A line and what it is for.
pub(super) struct Attempt {
    pub(super) with: &'static str,
    pub(super) line: String,
}

/// Returns lines that try a servable; none if it does not serve.
pub(super) fn attempts(view: &View, address: &Address) -> Vec<Attempt> {
    let Some(loaded) = &view.loaded else {
        return Vec::new();
    };
    let curl = address.rest.is_some().then(|| {
        let url = address.rest_url();
        let path = format!("{url}/v2/models/{}", encoded(&view.name));
        match body(view.kind, loaded) {
            Some(body) => format!(
                "curl {} -d {}",
                quoted(&format!("{path}/infer")),
                quoted(&body.to_string())
            ),
            None => format!("curl {}", quoted(&path)),
        }
    });
    let ovms = infer(view, loaded, address);
    let lines = [Some(("ovms", ovms)), curl.map(|line| ("curl", line))];
    let lines = lines.into_iter().flatten();
    lines.map(|(with, line)| Attempt { with, line }).collect()
}

fn infer(view: &View, loaded: &Loaded, address: &Address) -> String {
    let name = quoted(&view.name);
    if loaded.is_split {
        return format!("ovms infer --metadata{} -- {name}", address.flags());
    }
    let is_text = |it: &&Tensor| it.datatype.is_none_or(|datatype| datatype == "BYTES");
    let mut flags = String::new();
    for text in loaded.inputs.iter().filter(is_text) {
        flags.extend([" -i ", &quoted(&format!("{}={SOME_TEXT}", text.name))]);
    }
    if !loaded.inputs.iter().all(|it| is_text(&it)) {
        flags += " --zeros";
    }
    if loaded.is_stateful {
        flags += " --start --end";
    }
    flags += &address.flags();
    // A name that begins like a flag is none.
    match view.name.starts_with('-') {
        true => format!("ovms infer{flags} -- {name}"),
        false => format!("ovms infer {name}{flags}"),
    }
}

/// Makes the body of a small request; `None` if it would not be small, or nobody knows what to send.
fn body(kind: Kind, loaded: &Loaded) -> Option<Value> {
    if kind == Kind::Graph || loaded.more_inputs > 0 || loaded.is_split {
        return None;
    }
    let mut elements = 0;
    let inputs = loaded.inputs.iter().map(|input| {
        let datatype = input.datatype?;
        let shape = input.shape.as_ref()?;
        let shape: Vec<usize> = shape.0.iter().map(Dim::least).collect();
        let count = shape.iter().try_fold(1, |a: usize, b| a.checked_mul(*b))?;
        elements += count;
        let zero = match datatype {
            "BOOL" => json!(false),
            "BYTES" => json!(SOME_TEXT),
            // There is no way to write them as JSON that all servers take.
            "FP16" | "BF16" => return None,
            _ => json!(0),
        };
        (elements <= MAX_WRITTEN).then(|| {
            let data = vec![zero; count];
            json!({"name": input.name, "datatype": datatype, "shape": shape, "data": data})
        })
    });
    let inputs: Option<Vec<Value>> = inputs.collect();
    let mut body = json!({"inputs": inputs?});
    if loaded.is_stateful {
        body["parameters"] = json!({"sequence_start": true, "sequence_end": true});
    }
    Some(body)
}

/// A request to a servable, as lines for a terminal and for Python: those that the script of its page begins with.
pub(super) struct Lines {
    pub(super) curl: String,
    pub(super) python: String,
}

/// The sequence of the lines for Python; nobody else chooses it.
const SEQUENCE: u32 = 1_870_028_147;

/// Returns a request of zeros and some text to a servable as lines; they are empty if nobody knows what to send, or
/// where.
pub(super) fn lines(view: &View, address: &Address) -> Lines {
    let none = Lines {
        curl: String::new(),
        python: String::new(),
    };
    let loaded = view.loaded.as_ref();
    let loaded = loaded.filter(|it| it.more_inputs == 0 && !it.is_split);
    let (Some(loaded), true) = (loaded, address.rest.is_some()) else {
        return none;
    };
    if view.kind == Kind::Graph {
        return Lines {
            curl: stream_line(view, loaded, address),
            ..none
        };
    }
    match loaded.inputs.iter().map(Zeros::of).collect() {
        Some(inputs) => {
            let inputs: Vec<Zeros<'_>> = inputs;
            Lines {
                curl: infer_line(view, loaded, &inputs, address),
                python: python_lines(view, loaded, &inputs, address),
            }
        }
        None => none,
    }
}

/// An input of zeros, or some text.
struct Zeros<'a> {
    name: &'a str,
    datatype: DataType,
    shape: Vec<usize>,
    count: usize,
}

impl<'a> Zeros<'a> {
    fn of(input: &'a Tensor) -> Option<Self> {
        let datatype = DataType::from_kserve(input.datatype?)?;
        let shape: Vec<usize> = input.shape.as_ref()?.0.iter().map(Dim::least).collect();
        let count = shape.iter().try_fold(1, |a: usize, b| a.checked_mul(*b))?;
        // Texts cannot be made of zeros.
        let is_small = datatype != DataType::String || count <= MAX_WRITTEN;
        is_small.then_some(Self {
            name: &input.name,
            datatype,
            shape,
            count,
        })
    }

    /// Returns the elements as JSON, if they are few and have a form in it.
    fn data(&self) -> Option<Vec<Value>> {
        let zero = match self.datatype {
            DataType::Bool => json!(false),
            DataType::String => json!(SOME_TEXT),
            DataType::F16 | DataType::Bf16 => return None,
            _ => json!(0),
        };
        (self.count <= MAX_WRITTEN).then(|| vec![zero; self.count])
    }
}

/// Returns the line that sends a graph a text for each input; a graph does not say what it takes.
fn stream_line(view: &View, loaded: &Loaded, address: &Address) -> String {
    let texts = loaded
        .inputs
        .iter()
        .map(|input| (input.name.clone(), json!(SOME_TEXT)));
    let body = Value::Object(texts.collect());
    let url = url_of(view, address, "generate_stream");
    format!("curl -sN {url} -d {}", quoted(&body.to_string()))
}

fn url_of(view: &View, address: &Address, verb: &str) -> String {
    let (url, name) = (address.rest_url(), encoded(&view.name));
    quoted(&format!("{url}/v2/models/{name}/{verb}"))
}

/// Returns the line for a model or a pipeline. Large inputs follow the JSON as zero bytes.
fn infer_line(view: &View, loaded: &Loaded, inputs: &[Zeros<'_>], address: &Address) -> String {
    let mut zeros = 0;
    let tensors = inputs.iter().map(|input| {
        let mut tensor =
            json!({"name": input.name, "datatype": input.datatype.kserve(), "shape": input.shape});
        match input.data() {
            Some(data) => tensor["data"] = json!(data),
            None => {
                let bytes = input
                    .count
                    .saturating_mul(input.datatype.size().unwrap_or(1));
                tensor["parameters"] = json!({"binary_data_size": bytes});
                zeros += bytes;
            }
        }
        tensor
    });
    let mut body = json!({"inputs": tensors.collect::<Vec<Value>>()});
    let mut parameters = serde_json::Map::new();
    if loaded.is_stateful {
        parameters.insert("sequence_start".to_owned(), json!(true));
        parameters.insert("sequence_end".to_owned(), json!(true));
    }
    let is_binary = |output: &Tensor| matches!(output.datatype, Some("FP16" | "BF16"));
    let mut save = "";
    if loaded.outputs.iter().any(is_binary) {
        parameters.insert("binary_data_output".to_owned(), json!(true));
        save = " -o answer.bin";
    }
    if !parameters.is_empty() {
        body["parameters"] = Value::Object(parameters);
    }
    let (url, body) = (url_of(view, address, "infer"), body.to_string());
    match zeros {
        0 => format!("curl -s {url}{save} -d {}", quoted(&body)),
        _ => format!(
            "(printf %s {}; head -c {zeros} /dev/zero) | curl -s {url} -H 'Inference-Header-Content-Length: \
             {}'{save} --data-binary @-",
            quoted(&body),
            body.len()
        ),
    }
}

/// Returns the lines for Triton's client; none where that has no type for an input.
fn python_lines(view: &View, loaded: &Loaded, inputs: &[Zeros<'_>], address: &Address) -> String {
    let text = |text: &str| json!(text).to_string().replace('\u{7f}', "\\u007f");
    let (rest, tls) = match address.rest_url().split_once("://") {
        Some(("https", rest)) => (text(rest), ", ssl=True"),
        Some((_, rest)) => (text(rest), ""),
        None => return String::new(),
    };
    let mut lines = vec![
        "import numpy as np".to_owned(),
        "import tritonclient.http as http  # pip install tritonclient[http]".to_owned(),
        String::new(),
        format!("client = http.InferenceServerClient({rest}{tls})"),
        "inputs = []".to_owned(),
    ];
    for input in inputs {
        let (name, datatype) = (text(input.name), input.datatype.kserve());
        let lengths: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
        let comma = if lengths.len() == 1 { "," } else { "" };
        let shape = format!("({}{comma})", lengths.join(", "));
        lines.push(match (input.datatype, input.datatype.numpy()) {
            (DataType::String, _) => {
                format!(
                    "array = np.full({shape}, b{}, dtype=np.object_)",
                    text(SOME_TEXT)
                )
            }
            (_, Some(dtype)) => format!("array = np.zeros({shape}, dtype={})", text(dtype)),
            (_, None) => return String::new(),
        });
        lines.push(format!(
            "inputs.append(http.InferInput({name}, array.shape, {}))",
            text(datatype)
        ));
        lines.push("inputs[-1].set_data_from_numpy(array)".to_owned());
    }
    let sequence = match loaded.is_stateful {
        true => format!(", sequence_id={SEQUENCE}, sequence_start=True, sequence_end=True"),
        false => String::new(),
    };
    lines.push(format!(
        "result = client.infer({}, inputs{sequence})",
        text(&view.name)
    ));
    for output in &loaded.outputs {
        let name = text(&output.name);
        lines.push(format!("print({name}, result.as_numpy({name}))"));
    }
    lines.join("\n")
}

/// Describes a servable for the script that sends it requests; `None` if it does not serve, or has too many inputs.
pub(super) fn signature(view: &View) -> Option<String> {
    let loaded = view.loaded.as_ref().filter(|it| it.more_inputs == 0)?;
    let side = |tensors: &[Tensor]| {
        let tensors = tensors.iter().map(|tensor| {
            let shape = tensor
                .shape
                .as_ref()
                .map(|it| &it.0[..])
                .unwrap_or_default();
            json!({
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": shape.iter().map(|dim| dim.wire()).collect::<Vec<i64>>(),
                "least": shape.iter().map(Dim::least).collect::<Vec<usize>>(),
                "layout": tensor.layout,
            })
        });
        tensors.collect::<Vec<Value>>()
    };
    let signature = json!({
        "name": view.name,
        "kind": view.kind,
        "stateful": loaded.is_stateful,
        "inputs": side(&loaded.inputs),
        "outputs": side(&loaded.outputs),
    });
    Some(signature.to_string())
}

/// Quotes a word for a shell if it needs quotes.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{host, is_address, quoted};

    #[test]
    fn only_hosts_and_ports_are_repeated() {
        for good in ["localhost:8000", "[::1]:8000", "10.0.0.1", "a-b.example"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "x'y", "<b>", "$(id)", "ü:1"] {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(!is_address(&"a".repeat(256)));
    }

    #[test]
    fn the_port_is_taken_off() {
        assert_eq!(host("localhost:8000"), "localhost");
        assert_eq!(host("localhost"), "localhost");
        assert_eq!(host("[::1]:8000"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
    }

    #[test]
    fn no_word_leaves_its_quotes() {
        assert_eq!(quoted("a/b-c.d"), "a/b-c.d");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("x';rm -rf ~;'"), r"'x'\'';rm -rf ~;'\'''");
        assert_eq!(quoted("$(id)`id`"), "'$(id)`id`'");
    }
}
