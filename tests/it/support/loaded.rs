//! Models loaded in the test's own process, without a server.

use bytes::Bytes;
use ovms::{
    budget::Budget,
    metrics::RequestRecord,
    model::{check::check, ir::IrFacts, mapping, repository},
    openvino::{self, Compiled, Load, LoadOptions, ModelLoadError, SlotQueue, runtime},
    request::{Data, Declared, InferRequest, InputTensor},
    tensor::images::PixelLimit,
};

use super::grpc::{floats, to_floats};

/// Returns options for the CPU that compute in f32 on every processor.
pub(crate) fn options() -> LoadOptions {
    LoadOptions {
        device: "CPU".to_owned(),
        properties: vec![("INFERENCE_PRECISION_HINT".to_owned(), "f32".to_owned())],
        nireq: 1,
        max_waiting: 1,
        ..LoadOptions::default()
    }
}

/// Loads version 1 of a repository.
pub(crate) fn load(
    root: &std::path::Path,
    options: &LoadOptions,
    asked: &[(&str, &[usize])],
) -> Result<Compiled, ModelLoadError> {
    load_found(&repository::files(&root.join("1")).unwrap(), options, asked)
}

/// Loads a model whose files have been found.
pub(crate) fn load_found(
    files: &repository::ModelFiles,
    options: &LoadOptions,
    asked: &[(&str, &[usize])],
) -> Result<Compiled, ModelLoadError> {
    open();
    let (model, weights) = files.paths();
    let asked: Vec<(String, Vec<usize>)> = asked
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), shape.to_vec()))
        .collect();
    openvino::load(Load {
        name: "test",
        model,
        weights,
        options,
        names: &mapping::read(files.folder()).unwrap(),
        layouts: &IrFacts::read(files).layouts,
        asked: &asked,
        guarded: false,
        batches: None,
    })
}

/// Opens the runtime of this machine for the test's process.
fn open() {
    static OPEN: std::sync::Once = std::sync::Once::new();
    OPEN.call_once(find);
}

fn find() {
    let places = runtime::RuntimeSearchPath {
        install_dir: std::env::var_os("OPENVINO_INSTALL_DIR").map(Into::into),
        venv: std::env::var_os("VIRTUAL_ENV").map(Into::into),
        library_path: std::env::var_os("LD_LIBRARY_PATH"),
        system: true,
        ..runtime::RuntimeSearchPath::default()
    };
    runtime::open(&places).unwrap();
}

/// Loads a model that must be refused; returns the error with its causes.
pub(crate) fn error(root: &std::path::Path, options: &LoadOptions) -> String {
    match load(root, options, &[]) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error.to_string(),
    }
}

/// Returns a model's inputs and outputs: name, shape and layout.
pub(crate) fn describe(compiled: &Compiled) -> String {
    let tensors = compiled.info.inputs.iter().chain(&compiled.info.outputs);
    let tensors: Vec<String> = tensors
        .map(|tensor| format!("{} {} {}", tensor.name, tensor.shape, tensor.layout))
        .collect();
    tensors.join(", ")
}

/// Shape and elements of an output.
pub(crate) type Output = (Vec<usize>, Vec<f32>);

/// Runs one inference with f32 inputs; returns all outputs, sorted by name.
pub(crate) fn infer(
    compiled: &Compiled,
    inputs: &[(&str, &[usize], &[f32])],
) -> Result<Vec<Output>, String> {
    infer_of(compiled, inputs, |values| floats(values).into())
}

/// Runs one with inputs that begin where no f32 does, so that they are copied.
pub(crate) fn infer_copied(
    compiled: &Compiled,
    inputs: &[(&str, &[usize], &[f32])],
) -> Result<Vec<Output>, String> {
    infer_of(compiled, inputs, |values| {
        Bytes::from([&[0; 1][..], &floats(values)].concat()).slice(1..)
    })
}

fn infer_of(
    compiled: &Compiled,
    inputs: &[(&str, &[usize], &[f32])],
    bytes: impl Fn(&[f32]) -> Bytes,
) -> Result<Vec<Output>, String> {
    let inputs = inputs
        .iter()
        .map(|(name, shape, values)| InputTensor {
            name: (*name).to_owned(),
            datatype: Declared::from_kserve("FP32".to_owned()),
            shape: shape
                .iter()
                .map(|&length| i64::try_from(length).unwrap())
                .collect(),
            data: Data::Raw(bytes(values)),
        })
        .collect();
    let request = InferRequest {
        inputs,
        ..InferRequest::default()
    };
    let work = check(
        &compiled.info,
        request,
        PixelLimit::default(),
        &Budget::default(),
    )
    .map_err(|error| error.message().to_owned())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let call = RequestRecord::uncounted();
    let run = compiled.runner.infer(work, (), &call, SlotQueue::Bounded);
    let (outputs, _) = runtime
        .block_on(run)
        .map_err(|error| ovms::error::chain(&error))?;
    Ok(outputs
        .into_iter()
        .map(|output| (output.shape().to_vec(), to_floats(output.data())))
        .collect())
}
