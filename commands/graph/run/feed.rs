//! Source of requests: the command line, or lines of a file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    thread,
};

use ovms::{
    client::{
        ModelMetadata,
        input::{Argument, ElementSource, Inputs, RequestLine},
    },
    graph::convert::TIMESTAMP,
    request::{InferRequest, Parameter, Parameters},
    tensor::TensorMap,
};
use tokio::sync::mpsc;

use super::load::LocalGraph;
use crate::{
    error::{Failure, FailureKind},
    infer, local,
};

/// Maximum length of a line, in bytes.
const LONGEST: u64 = 256 << 20;

/// Request, or the error in its place.
pub(super) type Fed = Result<InferRequest, Failure>;

/// Parts of requests besides their inputs.
pub(super) struct Feed {
    pub(super) requests: Option<PathBuf>,
    pub(super) timestamp: Option<i64>,
    pub(super) parameters: Parameters,
}

impl Feed {
    /// Sends the requests, from a thread if they are read while the graph runs.
    pub(super) fn start(
        self,
        loaded: &LocalGraph,
        inputs: Inputs,
    ) -> Result<mpsc::Receiver<Fed>, Failure> {
        let (send, receive) = mpsc::channel(1);
        let metadata = loaded.metadata();
        let Some(path) = self.requests.clone() else {
            if inputs.is_empty() {
                return Err(no_inputs(loaded));
            }
            let tensors = inputs
                .given(&metadata)
                .map_err(|error| infer::input_failure(error, None))?;
            let request = request(&tensors, self.timestamp, self.parameters);
            // There is room for one.
            let _ = send.try_send(Ok(request));
            return Ok(receive);
        };
        let lines = open(&path)?;
        let read = move || {
            let mut next = self.timestamp;
            for (index, line) in Lines(lines).enumerate() {
                let fed = line
                    .map_err(Failure::from)
                    .and_then(|line| one(&line, &inputs, &metadata, &mut next, &self.parameters));
                let place = format!("{}, line {}", path.display(), index + 1);
                let fed = match fed {
                    Ok(None) => continue,
                    Ok(Some(request)) => Ok(request),
                    Err(failure) => Err(failure.at(&place)),
                };
                let is_end = fed.is_err();
                if send.blocking_send(fed).is_err() || is_end {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("requests".to_owned())
            .spawn(read)?;
        Ok(receive)
    }
}

/// Iterator over lines of limited length.
struct Lines(Box<dyn BufRead + Send>);

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = String::new();
        match self.0.by_ref().take(LONGEST).read_line(&mut line) {
            Ok(0) => None,
            Ok(length) if length as u64 == LONGEST => Some(Err(io::Error::other(format!(
                "a line has more than {LONGEST} bytes"
            )))),
            Ok(_) => Some(Ok(line)),
            Err(error) => Some(Err(error)),
        }
    }
}

fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let file = File::open(path).map_err(|error| {
        let text = format!("cannot read {}", path.display());
        Failure::new(FailureKind::Failed, text).caused_by(&error)
    })?;
    Ok(Box::new(BufReader::new(file)))
}

/// Creates the request of a line; `None` for an empty one.
fn one(
    line: &str,
    inputs: &Inputs,
    metadata: &ModelMetadata,
    next: &mut Option<i64>,
    parameters: &Parameters,
) -> Result<Option<InferRequest>, Failure> {
    if line.trim().is_empty() {
        return Ok(None);
    }
    let only = Argument {
        name: None,
        dtype: None,
        shape: None,
        source: ElementSource::Stdin { output: None },
    };
    let line = RequestLine::read(line, &only, metadata).map_err(|error| {
        Failure::new(FailureKind::Failed, "the line is no request").caused_by(&error)
    })?;
    let mut all = inputs.clone();
    for (argument, value) in line.inputs {
        all = all
            .with_json(&argument, value)
            .map_err(|error| infer::input_failure(error, None))?;
    }
    let tensors = all
        .given(metadata)
        .map_err(|error| infer::input_failure(error, None))?;
    let at = line.timestamp.or(*next);
    *next = at.map(|at| at.saturating_add(1));
    let parameters = [parameters.clone(), line.parameters].concat();
    Ok(Some(request(&tensors, at, parameters)))
}

fn request(tensors: &TensorMap, at: Option<i64>, mut parameters: Parameters) -> InferRequest {
    if let Some(at) = at {
        parameters.push((TIMESTAMP.to_owned(), Parameter::Int(at)));
    }
    local::request(tensors, parameters)
}

fn no_inputs(loaded: &LocalGraph) -> Failure {
    let inputs = loaded.plan().inputs.iter();
    let names: Vec<String> = inputs
        .map(|input| format!("`{}`", input.port.name))
        .collect();
    Failure::new(
        FailureKind::Usage,
        format!("found no inputs for graph `{}`", loaded.name),
    )
    .detail(format!("it takes {}", names.join(", ")))
    .hint("give each with `-i NAME:DTYPE=VALUE`, or requests in lines with `--requests FILE`")
}
