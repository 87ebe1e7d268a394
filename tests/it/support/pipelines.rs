//! Configuration files with pipelines in a short notation, and requests to their servables.
//!
//! Nodes name their inputs as `input=source.item` and their outputs as `output=alias`, parted by
//! spaces; a pipeline its inputs by their names and its outputs as `label=source.item`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Server, eventually,
    grpc::{self, Grpc},
    http::{get, post},
    model, nodes, repository,
};
use ovms::proto::kserve::{ModelInferRequest, ModelInferResponse, ModelReadyRequest};

/// Flag for the poll interval of the configuration file.
const WATCHER: &str = "--file_system_poll_wait_seconds";

/// A configuration file of a test's own.
pub(crate) struct Config {
    folder: TempDir,
    pub(crate) json: Value,
}

impl Config {
    /// Makes a file with fixture models under their own names.
    pub(crate) fn of(models: &[&str]) -> Self {
        let mut config = Self {
            folder: repository::folder(),
            json: json!({
                "model_config_list": [],
                "custom_node_library_config_list": [],
                "pipeline_config_list": [],
            }),
        };
        for name in models {
            config.model(name, &model(name));
        }
        config
    }

    /// Adds a model.
    pub(crate) fn model(&mut self, name: &str, base_path: &Path) -> &mut Value {
        let entry = json!({"config": {
            "name": name,
            "base_path": base_path,
            "plugin_config": {"INFERENCE_PRECISION_HINT": "f32"},
        }});
        let entry = self.add("model_config_list", entry);
        &mut entry["config"]
    }

    /// Adds a library that is compiled from a source of the fixtures.
    pub(crate) fn library(&mut self, name: &str, source: &str) {
        self.library_at(name, &nodes::compiled(source));
    }

    /// Adds a library.
    pub(crate) fn library_at(&mut self, name: &str, path: &Path) {
        let entry = json!({"name": name, "base_path": path});
        self.add("custom_node_library_config_list", entry);
    }

    /// Adds a pipeline.
    pub(crate) fn pipeline(
        &mut self,
        name: &str,
        inputs: &str,
        nodes: &[Value],
        outputs: &str,
    ) -> &mut Value {
        let inputs: Vec<&str> = inputs.split_whitespace().collect();
        let entry = json!({
            "name": name,
            "inputs": inputs,
            "nodes": nodes,
            "outputs": connections(outputs),
        });
        self.add("pipeline_config_list", entry)
    }

    fn add(&mut self, list: &str, entry: Value) -> &mut Value {
        let list = self.json[list].as_array_mut().unwrap();
        list.push(entry);
        list.last_mut().unwrap()
    }

    /// Removes an entry from a list, and returns it.
    pub(crate) fn remove(&mut self, list: &str, name: &str) -> Value {
        let list = self.json[list].as_array_mut().unwrap();
        let named = |entry: &Value| entry["name"] == name || entry["config"]["name"] == name;
        let place = list.iter().position(named).unwrap();
        list.remove(place)
    }

    /// Appends an entry to a list.
    pub(crate) fn put(&mut self, list: &str, entry: Value) {
        self.add(list, entry);
    }

    /// Returns a path beside the file.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the file, in one step.
    pub(crate) fn write(&self) -> PathBuf {
        let (path, next) = (self.beside("config.json"), self.beside("next.json"));
        fs::write(&next, self.json.to_string()).unwrap();
        fs::rename(next, &path).unwrap();
        path
    }

    /// Serves the file without a watcher, and waits until the server is ready.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    /// Serves the file with more flags, and without a watcher unless they say so.
    pub(crate) fn serve_with(&self, flags: &[&str]) -> Server {
        let server = self.begin(flags);
        server.wait_ready();
        server
    }

    /// Serves the file until this process ends: for a `static` of a module whose tests share the server.
    pub(crate) fn serve_kept(self, flags: &[&str]) -> Server {
        let server = self.serve_with(flags);
        server.kept(Some(self.folder))
    }

    /// Keeps a server of the file, and its folder, until this process ends.
    pub(crate) fn keep(self, server: Server) -> Server {
        server.kept(Some(self.folder))
    }

    /// Starts a server in the same way, and does not wait.
    pub(crate) fn begin(&self, flags: &[&str]) -> Server {
        let mut flags = flags.to_vec();
        if !flags.contains(&WATCHER) {
            flags.extend([WATCHER, "0"]);
        }
        Server::of_file(&self.write(), &flags)
    }

    /// Writes the file and requests a reload; returns the status, and the text of an error.
    pub(crate) fn reload(&self, server: &Server) -> String {
        self.write();
        let answer = post(server, "/v1/config/reload", b"");
        if answer.status < 300 {
            answer.status.to_string()
        } else {
            answer.error()
        }
    }
}

/// Writes connections: `input=source.item`.
pub(crate) fn connections(text: &str) -> Value {
    let one = |part: &str| {
        let (name, source) = part.split_once('=').unwrap();
        let (node, item) = source.split_once('.').unwrap();
        json!({name: {"node_name": node, "data_item": item}})
    };
    text.split_whitespace().map(one).collect()
}

/// Writes a node of a model.
pub(crate) fn dl(name: &str, model: &str, inputs: &str, outputs: &str) -> Value {
    node(
        json!({"name": name, "type": "DL model", "model_name": model}),
        inputs,
        outputs,
    )
}

/// Writes a node of a library.
pub(crate) fn custom(
    name: &str,
    library: &str,
    params: &Value,
    inputs: &str,
    outputs: &str,
) -> Value {
    node(
        json!({"name": name, "type": "custom", "library_name": library, "params": params}),
        inputs,
        outputs,
    )
}

fn node(mut node: Value, inputs: &str, outputs: &str) -> Value {
    let output = |part: &str| {
        let (item, alias) = part.split_once('=').unwrap();
        json!({"data_item": item, "alias": alias})
    };
    node["inputs"] = connections(inputs);
    node["outputs"] = outputs.split_whitespace().map(output).collect();
    node
}

/// Sets a key.
pub(crate) fn with(mut value: Value, key: &str, set: impl Into<Value>) -> Value {
    value[key] = set.into();
    value
}

/// Makes a request with inputs of FP32.
pub(crate) fn request(name: &str, inputs: &[(&str, &[i64], &[f32])]) -> ModelInferRequest {
    let tensors = inputs.iter();
    ModelInferRequest {
        model_name: name.to_owned(),
        inputs: tensors
            .clone()
            .map(|(name, shape, _)| grpc::input(name, "FP32", shape))
            .collect(),
        raw_input_contents: tensors
            .map(|(_, _, values)| grpc::floats(values).into())
            .collect(),
        ..ModelInferRequest::default()
    }
}

/// Makes a request with the input `x` of ten equal numbers.
pub(crate) fn ten(name: &str, number: f32) -> ModelInferRequest {
    request(name, &[("x", &[1, 10], &[number; 10])])
}

/// Writes the first element of each row of ten as they are, behind the shape:
/// `out [2,1,10] 1 2`. Fails if the other elements of a row differ from its first.
pub(crate) fn reported(answer: &ModelInferResponse) -> String {
    let outputs = answer.outputs.iter().zip(&answer.raw_output_contents);
    let lines = outputs.map(|(output, data)| {
        let rows = grpc::to_floats(data);
        let rows = rows.chunks(10).map(|row| {
            assert!(row.iter().all(|element| *element == row[0]), "{row:?}");
            row[0].to_string()
        });
        let rows: Vec<String> = rows.collect();
        let shape: Vec<String> = output.shape.iter().map(ToString::to_string).collect();
        format!("{} [{}] {}", output.name, shape.join(","), rows.join(" "))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Sends a request; returns the response as text, or code and text of the error.
pub(crate) fn infer(client: &Grpc, request: ModelInferRequest) -> String {
    match client.infer(request) {
        Ok(answer) => reported(&answer),
        Err(status) => grpc::error(&status),
    }
}

/// Returns `state code` of a pipeline.
pub(crate) fn status(server: &Server, name: &str) -> String {
    let answer = get(server, &format!("/v1/models/{name}"));
    if answer.status != 200 {
        return answer.error();
    }
    let json = answer.json();
    let status = &json["model_version_status"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!(
        "{} {}",
        text(&status["state"]),
        text(&status["status"]["error_code"])
    )
}

/// Returns whether a servable is ready, to both interfaces.
pub(crate) fn is_ready(server: &Server, client: &Grpc, name: &str) -> bool {
    let request = ModelReadyRequest {
        name: name.to_owned(),
        version: String::new(),
    };
    let mut kserve = client.client.clone();
    let ready = client.wait(async move { kserve.model_ready(request).await });
    let rest = get(server, &format!("/v2/models/{name}/ready")).status == 200;
    ready.unwrap().ready && rest
}

/// Waits until a file has a number of lines that begin with a text.
pub(crate) fn wait_lines(path: &Path, begin: &str, count: usize) {
    eventually(
        &format!("{count} of `{begin}` in {}", path.display()),
        || (lines(path, begin).len() >= count).then_some(()),
    );
}

/// Returns the lines of a file that begin with a text.
pub(crate) fn lines(path: &Path, begin: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with(begin));
    lines.map(ToOwned::to_owned).collect()
}

/// Checks the responses of all interfaces for a pipeline that failed validation.
pub(crate) fn is_refused(server: &Server, client: &Grpc, name: &str) {
    assert_eq!(status(server, name), "LOADING FAILED_PRECONDITION");
    assert_eq!(
        client.refused(ten(name, 1.0)),
        "Unavailable: Pipeline is not loaded yet"
    );
    let not_loaded = "404: Pipeline is not loaded yet";
    let path = format!("/v2/models/{name}");
    assert_eq!(get(server, &path).error(), not_loaded);
    let body = br#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[0]}]}"#;
    let infer = post(server, &format!("{path}/infer"), body);
    assert_eq!(infer.error(), not_loaded);
    let body = br#"{"instances":[{"x":[0]}]}"#;
    let predict = post(server, &format!("/v1/models/{name}:predict"), body);
    assert_eq!(predict.error(), not_loaded);
    assert!(!is_ready(server, client, name));
}
