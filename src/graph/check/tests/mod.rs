//! Tests of each rule with a graph that breaks it, and of the plans of valid graphs.

mod any;
mod files;
mod handlers;
mod plans;
mod python;
mod rules;
mod types;
mod wiring;

use std::{fmt::Write, sync::Arc};

use super::{CheckedGraph, Diagnostic, Diagnostics, check};
use crate::graph::{
    calculators::{
        calculator::{Calculator, CalculatorContext, Factory, Resources, StepOutcome},
        contract::Contract,
        error::GraphRunError,
        node::NodeSpec,
        packet::{PacketType, TensorKind},
    },
    file::rules::status,
};

struct Nothing;

impl Calculator for Nothing {
    fn process(&mut self, _: &mut CalculatorContext<'_>) -> Result<StepOutcome, GraphRunError> {
        Ok(StepOutcome::Stop)
    }
}

fn make(_: &Arc<NodeSpec>, _: &dyn Resources) -> Box<dyn Calculator> {
    Box::new(Nothing)
}

fn pass(node: &NodeSpec) -> Result<Contract, String> {
    if node.inputs.len() != node.outputs.len() {
        return Err("as many outputs as inputs are needed".to_owned());
    }
    let mut contract = Contract::any(node);
    for (place, output) in contract.outputs.iter_mut().enumerate() {
        *output = PacketType::SameAsInput(place);
    }
    contract.offset = Some(0);
    Ok(contract)
}

fn all(node: &NodeSpec, kind: &PacketType) -> Contract {
    let mut contract = Contract::any(node);
    contract.inputs.fill(kind.clone());
    contract.outputs.fill(kind.clone());
    contract
}

fn python(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = all(node, &PacketType::Python);
    for ports in [&node.inputs, &node.outputs] {
        let kinds = if std::ptr::eq(ports, &node.inputs) {
            &mut contract.inputs
        } else {
            &mut contract.outputs
        };
        for place in ports.tagged("LOOPBACK") {
            kinds[place] = PacketType::Any;
        }
    }
    match node.side_inputs.find("PYTHON_NODE_RESOURCES", 0) {
        Some(place) => contract.side_inputs[place].0 = PacketType::PythonResources,
        None => return Err("the side packet PYTHON_NODE_RESOURCES:py is missing".to_owned()),
    }
    Ok(contract)
}

fn infer(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = all(node, &PacketType::Tensor(TensorKind::OpenVino));
    contract.side_inputs.fill((PacketType::Session, false));
    Ok(contract)
}

fn session(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = Contract::any(node);
    contract.side_outputs.fill(PacketType::Session);
    Ok(contract)
}

fn convert(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = Contract::any(node);
    let kind = |tag: &str| match tag {
        "OVTENSOR" => PacketType::Tensor(TensorKind::OpenVino),
        _ => PacketType::Python,
    };
    for (port, into) in node.inputs.iter().zip(&mut contract.inputs) {
        *into = kind(&port.at.tag);
    }
    for (port, into) in node.outputs.iter().zip(&mut contract.outputs) {
        *into = kind(&port.at.tag);
    }
    Ok(contract)
}

fn source(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = Contract::any(node);
    contract.outputs.fill(PacketType::Int);
    contract.side_inputs.fill((PacketType::Int, false));
    Ok(contract)
}

fn echo(node: &NodeSpec) -> Result<Contract, String> {
    let mut contract = Contract::any(node);
    contract.inputs.fill(PacketType::Request);
    contract.outputs.fill(PacketType::Response);
    Ok(contract)
}

fn mux(node: &NodeSpec) -> Result<Contract, String> {
    Ok(Contract {
        handler: Some("MuxInputStreamHandler"),
        ..Contract::any(node)
    })
}

macro_rules! factories {
    ($($name:literal $contract:ident),* $(,)?) => {
        [$({
            static FACTORY: Factory = Factory {
                name: $name,
                about: "For tests.",
                contract: |ask| ask.by_hand($contract),
                make,
            };
            &FACTORY
        }),*]
    };
}

/// Calculators of the tests.
fn factories() -> Vec<&'static Factory> {
    factories![
        "PassThroughCalculator" pass,
        "PythonExecutorCalculator" python,
        "OpenVINOInferenceCalculator" infer,
        "OpenVINOModelServerSessionCalculator" session,
        "PyTensorOvTensorConverterCalculator" convert,
        "CountingSourceCalculator" source,
        "EchoCalculator" echo,
        "MuxCalculator" mux,
    ]
    .into()
}

/// Checks a graph as the file `graph.pbtxt`.
fn validate(text: &str) -> Result<CheckedGraph, Diagnostics> {
    check(text, "graph.pbtxt", &factories())
}

/// Returns the plan of a valid graph without warnings.
fn sound(text: &str) -> CheckedGraph {
    match validate(text) {
        Ok(checked) => {
            assert_eq!(checked.warnings, [], "{text}");
            checked
        }
        Err(errors) => panic!("{text}\n{errors}"),
    }
}

fn number(error: &Diagnostic) -> u8 {
    error.rule.unwrap().number
}

/// Formats the status and all errors of a graph.
fn reported(text: &str) -> String {
    let Err(errors) = validate(text) else {
        panic!("nothing is found in {text}");
    };
    let mut reported = status(&errors);
    reported.push('\n');
    for error in &errors.errors {
        writeln!(reported, "  {}: {error}", number(error)).unwrap();
    }
    for warning in &errors.warnings {
        writeln!(reported, "  warning: {warning}").unwrap();
    }
    reported
}

/// Formats the errors of each graph.
fn each_reported(texts: &[&str]) -> String {
    texts.iter().map(|text| reported(text)).collect()
}

/// Returns a graph of one PassThrough node with additions to graph and node.
fn with(graph: &str, node: &str) -> String {
    format!(
        "input_stream: \"in\" output_stream: \"out\"\n{graph}\n\
         node {{ calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\"\n{node}\n}}"
    )
}
