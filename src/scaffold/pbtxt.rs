//! The graph file.

use std::fmt::{self, Write as _};

use super::{
    Scaffold, ScaffoldKind,
    sample::flags,
    stream::ScaffoldStream,
    wiring::{Model, Python, Step, Wire, Wiring},
};

/// Writes the graph file.
pub(super) fn text(of: &Scaffold, wiring: &Wiring) -> String {
    let mut text = String::new();
    write(&mut text, of, wiring).expect("a text takes every text");
    text
}

fn write(text: &mut String, of: &Scaffold, wiring: &Wiring) -> fmt::Result {
    writeln!(
        text,
        "# The graph `{}`, written by `ovms graph new`. In this folder:",
        of.name
    )?;
    writeln!(text, "#")?;
    let of_graph = match of.kind {
        ScaffoldKind::Chain(_) => ".".to_owned(),
        ScaffoldKind::Model(_) => format!("{} {}", of.config, of.name),
    };
    writeln!(text, "#     ovms graph check {of_graph}")?;
    writeln!(text, "#     ovms graph show {of_graph}")?;
    writeln!(
        text,
        "#     ovms graph run {of_graph} {}",
        flags(&of.inputs)
    )?;
    writeln!(text)?;
    writeln!(
        text,
        "# What clients send. The tag says what becomes of it: OVMS_PY_TENSOR, for Python nodes."
    )?;
    ends(text, "input_stream", &of.inputs)?;
    writeln!(text, "# What clients get.")?;
    ends(text, "output_stream", &of.outputs)?;
    for step in &wiring.steps {
        match step {
            Step::Python(node) => python(text, node)?,
            Step::Model(node) => model(text, node)?,
        }
    }
    Ok(())
}

/// Writes the inputs or outputs of the graph.
fn ends(text: &mut String, field: &str, streams: &[ScaffoldStream]) -> fmt::Result {
    for stream in streams {
        let tag = match streams.len() {
            1 => String::new(),
            // A tag stands for one stream.
            _ => format!("_{}", stream.tag()),
        };
        write!(text, "{field}: \"OVMS_PY_TENSOR{tag}:{}\"", stream.name)?;
        match stream.dtype {
            Some(_) => writeln!(text, "  # {stream}")?,
            None => writeln!(text)?,
        }
    }
    Ok(())
}

fn python(text: &mut String, node: &Python) -> fmt::Result {
    writeln!(text, "\nnode {{\n  name: \"{}\"", node.name)?;
    writeln!(text, "  calculator: \"PythonExecutorCalculator\"")?;
    writeln!(text, "  # Python nodes have this, spelled like this.")?;
    writeln!(text, "  input_side_packet: \"PYTHON_NODE_RESOURCES:py\"")?;
    for input in &node.inputs {
        writeln!(text, "  input_stream: \"{}:{}\"", input.tag(), input.name)?;
    }
    if node.generative {
        writeln!(
            text,
            "  # What follows makes it a generator: after each answer it sends itself a packet, which \
             wakes it\n  # for the next one."
        )?;
        writeln!(text, "  input_stream: \"LOOPBACK:loopback\"")?;
        writeln!(
            text,
            "  input_stream_info: {{ tag_index: \"LOOPBACK:0\" back_edge: true }}"
        )?;
        writeln!(text, "  input_stream_handler {{")?;
        writeln!(
            text,
            "    input_stream_handler: \"SyncSetInputStreamHandler\""
        )?;
        writeln!(text, "    options {{")?;
        writeln!(
            text,
            "      [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{"
        )?;
        writeln!(text, "        sync_set {{ tag_index: \"LOOPBACK:0\" }}")?;
        writeln!(text, "      }}\n    }}\n  }}")?;
        writeln!(text, "  output_stream: \"LOOPBACK:loopback\"")?;
    }
    for output in &node.outputs {
        writeln!(
            text,
            "  output_stream: \"{}:{}\"",
            output.tag(),
            output.name
        )?;
    }
    options(
        text,
        "PythonExecutorCalculatorOptions",
        &[format!("handler_path: \"{}\"", node.file)],
    )?;
    writeln!(text, "}}")
}

fn model(text: &mut String, node: &Model) -> fmt::Result {
    writeln!(
        text,
        "\n# The model, or pipeline, by its name on the server.\nnode {{\n  name: \"session\""
    )?;
    writeln!(
        text,
        "  calculator: \"OpenVINOModelServerSessionCalculator\""
    )?;
    writeln!(text, "  output_side_packet: \"SESSION:session\"")?;
    options(
        text,
        "OpenVINOModelServerSessionCalculatorOptions",
        &[format!("servable_name: {}", quoted(&node.servable))],
    )?;
    writeln!(text, "}}")?;
    writeln!(
        text,
        "\n# Python's tensors become OpenVINO's for the model."
    )?;
    for (index, wire) in node.inputs.iter().enumerate() {
        converter(
            text,
            &number("to_model", index),
            "OVMS_PY_TENSOR",
            &wire.python,
            "OVTENSOR",
            &wire.tensor,
            &[],
        )?;
    }
    inference(text, node)?;
    writeln!(
        text,
        "\n# And back; the map says what handlers find as `Tensor.name`."
    )?;
    for (index, wire) in node.outputs.iter().enumerate() {
        let map = map("tag_to_output_tensor_names", "OVMS_PY_TENSOR", &wire.python);
        converter(
            text,
            &number("from_model", index),
            "OVTENSOR",
            &wire.tensor,
            "OVMS_PY_TENSOR",
            &wire.python,
            &[map],
        )?;
    }
    Ok(())
}

fn inference(text: &mut String, node: &Model) -> fmt::Result {
    writeln!(text, "\nnode {{\n  name: \"inference\"")?;
    writeln!(text, "  calculator: \"OpenVINOInferenceCalculator\"")?;
    writeln!(text, "  input_side_packet: \"SESSION:session\"")?;
    for (field, wires) in [("input", &node.inputs), ("output", &node.outputs)] {
        for wire in wires {
            write!(text, "  {field}_stream: \"{}:{}\"", wire.tag, wire.tensor)?;
            match node.is_known {
                true => writeln!(text, "  # {}", Comment(&wire.port))?,
                false => writeln!(text)?,
            }
        }
    }
    if !node.is_known {
        writeln!(
            text,
            "  # A model with one input and one output needs no names. For others, give each its stream, and \
             say here\n  # which tag is which:\n  \
             #   tag_to_input_tensor_names {{ key: \"OVTENSOR\" value: \"name of the input\" }}"
        )?;
        return writeln!(text, "}}");
    }
    let names = |field: &str, wires: &[Wire]| -> Vec<String> {
        let wires = wires.iter();
        wires
            .map(|wire| map(field, &wire.tag, &wire.port.name))
            .collect()
    };
    let inputs = names("tag_to_input_tensor_names", &node.inputs);
    let outputs = names("tag_to_output_tensor_names", &node.outputs);
    options(
        text,
        "OpenVINOInferenceCalculatorOptions",
        &[inputs, outputs].concat(),
    )?;
    writeln!(text, "}}")
}

fn converter(
    text: &mut String,
    name: &str,
    from: &str,
    input: &str,
    to: &str,
    output: &str,
    lines: &[String],
) -> fmt::Result {
    writeln!(text, "node {{\n  name: \"{name}\"")?;
    writeln!(
        text,
        "  calculator: \"PyTensorOvTensorConverterCalculator\""
    )?;
    writeln!(text, "  input_stream: \"{from}:{input}\"")?;
    writeln!(text, "  output_stream: \"{to}:{output}\"")?;
    if !lines.is_empty() {
        options(text, "PyTensorOvTensorConverterCalculatorOptions", lines)?;
    }
    writeln!(text, "}}")
}

fn options(text: &mut String, kind: &str, lines: &[String]) -> fmt::Result {
    writeln!(text, "  node_options: {{")?;
    writeln!(text, "    [type.googleapis.com / mediapipe.{kind}]: {{")?;
    for line in lines {
        writeln!(text, "      {line}")?;
    }
    writeln!(text, "    }}\n  }}")
}

fn map(field: &str, key: &str, value: &str) -> String {
    format!("{field} {{ key: \"{key}\" value: {} }}", quoted(value))
}

/// Numbers all but the first.
fn number(name: &str, index: usize) -> String {
    match index {
        0 => name.to_owned(),
        _ => format!("{name}_{}", index + 1),
    }
}

/// Writes a text as the format does: bytes that are no plain characters in octal.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.extend([format!("\\{byte:03o}")]),
        }
    }
    quoted.push('"');
    quoted
}

/// A stream in a comment, which ends with the line.
struct Comment<'a>(&'a ScaffoldStream);

impl fmt::Display for Comment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().replace(char::is_control, " "))
    }
}
