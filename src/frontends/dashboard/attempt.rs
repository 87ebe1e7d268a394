//! Lines that try a servable, to be copied into a terminal.

use axum::http::{HeaderMap, Uri, header};
use serde_json::{Value, json};

use super::{
    Dashboard,
    ask::encoded,
    view::{Kind, Loaded, Tensor, View},
};
use crate::{frontends::rest::HttpPort, tensor::Dim};

/// The most elements that a line writes out.
const MAX_WRITTEN: usize = 64;

/// Placeholder for a text.
const SOME_TEXT: &str = "some text";

/// How the browser has reached the server, which is how its user does.
pub(super) struct Address {
    host: String,
    port: Option<u16>,
    rest_port: Option<u16>,
    /// Where REST is; `None` if there is none.
    rest: Option<String>,
    /// Unix sockets of gRPC and REST, which count where there is no port.
    sockets: [Option<String>; 2],
    /// Whether the ports of gRPC and REST have TLS.
    tls: [bool; 2],
    /// Whether it is the port that takes requests.
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
