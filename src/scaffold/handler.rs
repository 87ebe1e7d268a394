//! The Python handlers.

use std::fmt::{self, Write as _};

use super::{Scaffold, stream::ScaffoldStream, wiring::Python};

/// Writes the handler of a node.
pub(super) fn text(of: &Scaffold, node: &Python) -> String {
    let mut text = String::new();
    write(&mut text, of, node).expect("a text takes every text");
    text
}

/// Returns which of its inputs each output of a node gives back.
pub(super) fn echoes(node: &Python) -> Vec<(usize, &ScaffoldStream)> {
    let last = node.inputs.len() - 1;
    let outputs = node.outputs.iter().enumerate();
    let echo = |(index, output): (usize, &'_ ScaffoldStream)| {
        let place = index.min(last);
        let is_fit = |input: &ScaffoldStream| output.dtype.is_none() || input.dtype == output.dtype;
        // The input in its place, or the first of its type.
        match is_fit(&node.inputs[place]) {
            true => place,
            false => node.inputs.iter().position(is_fit).unwrap_or(place),
        }
    };
    outputs
        .map(|(index, output)| (echo((index, output)), output))
        .collect()
}

/// Returns whether the handler looks at the types of what it is given.
pub(super) fn is_typed(node: &Python) -> bool {
    node.is_first && node.inputs.iter().any(|input| input.dtype.is_some())
}

fn write(text: &mut String, of: &Scaffold, node: &Python) -> fmt::Result {
    let (name, typed) = (&node.name, is_typed(node));
    writeln!(
        text,
        "\"\"\"The node `{name}` of the graph `{}`.\n",
        of.name
    )?;
    writeln!(
        text,
        "As written by `ovms graph new` it gives back what it is given; README.md"
    )?;
    writeln!(text, "says how to try and test it.\n\"\"\"\n")?;
    // For what older interpreters do not know of types.
    writeln!(text, "from __future__ import annotations\n")?;
    if node.generative {
        writeln!(text, "from collections.abc import Iterator\n")?;
    }
    writeln!(text, "from pyovms import Tensor\n")?;
    if node.generative {
        writeln!(
            text,
            "# How many answers there are to each request.\nANSWERS = 3\n"
        )?;
    }
    if typed {
        text.push_str(CHECKED);
    }
    text.push_str(RENAMED);
    writeln!(text, "\nclass OvmsPythonModel:")?;
    writeln!(
        text,
        "    \"\"\"One object of it serves all requests, several at once.\"\"\"\n"
    )?;
    text.push_str(INITIALIZE);
    execute(text, node, typed)?;
    text.push_str(FINALIZE);
    Ok(())
}

/// A function that refuses what the handler cannot take.
const CHECKED: &str = r#"
def checked(
    tensor: Tensor, datatype: str, shape: tuple[int, ...] | None = None
) -> Tensor:
    """Return the tensor if it is as expected; -1 stands for any length.

    What is raised reaches the client, with this text.
    """
    fits = shape is None or (
        len(shape) == len(tensor.shape)
        and all(want in (-1, got) for want, got in zip(shape, tensor.shape))
    )
    if tensor.datatype != datatype or not fits:
        raise ValueError(
            f"{tensor.name}: expected {datatype} {shape or ''}, "
            f"got {tensor.datatype} {tensor.shape}"
        )
    return tensor

"#;

const RENAMED: &str = r#"
def renamed(tensor: Tensor, name: str) -> Tensor:
    """Return the same tensor under another name; nothing is copied."""
    return Tensor(
        name, tensor.data, shape=tensor.shape, datatype=tensor.datatype
    )

"#;

const INITIALIZE: &str = r#"    def initialize(self, kwargs: dict) -> None:
        """Run once, when the graph is loaded: the place to read files.

        kwargs has node_name, input_names, output_names and base_path, which
        is the folder of this file.
        """
        self.node_name: str = kwargs["node_name"]

"#;

const FINALIZE: &str = r#"
    def finalize(self) -> None:
        """Run once, when the graph is unloaded."""
"#;

fn execute(text: &mut String, node: &Python, typed: bool) -> fmt::Result {
    let result = match node.generative {
        true => "Iterator[list[Tensor]]",
        false => "list[Tensor]",
    };
    writeln!(
        text,
        "    def execute(self, inputs: list[Tensor]) -> {result}:"
    )?;
    match node.generative {
        false => writeln!(
            text,
            "        \"\"\"Run for each request, and for each message of a stream.\n"
        )?,
        true => writeln!(
            text,
            "        \"\"\"Run for each request.\n\n        Each list that is yielded is sent at once; \
             a client that does not\n        stream gets the first one only.\n"
        )?,
    }
    writeln!(
        text,
        "        Takes what has come, which may be less than all:"
    )?;
    streams(text, &node.inputs)?;
    writeln!(
        text,
        "        Gives tensors with the names of outputs, as many as it likes:"
    )?;
    streams(text, &node.outputs)?;
    writeln!(text, "        \"\"\"")?;
    writeln!(
        text,
        "        given = {{tensor.name: tensor for tensor in inputs}}"
    )?;
    if typed {
        for input in node.inputs.iter() {
            check(text, input, node.inputs.len() > 1)?;
        }
    }
    let echoes = echoes(node);
    if let ([input], false) = (&node.inputs[..], echoes.len() > 1) {
        let (name, output) = (&input.name, &echoes[0].1.name);
        writeln!(
            text,
            "        outputs = [renamed(given[\"{name}\"], \"{output}\")]"
        )?;
    } else {
        writeln!(text, "        outputs: list[Tensor] = []")?;
        for (from, output) in echoes {
            let (name, output) = (&node.inputs[from].name, &output.name);
            writeln!(text, "        if \"{name}\" in given:")?;
            let line =
                format!("            outputs.append(renamed(given[\"{name}\"], \"{output}\"))");
            match line.len() {
                0..=79 => writeln!(text, "{line}")?,
                _ => writeln!(
                    text,
                    "            outputs.append(\n                renamed(given[\"{name}\"], \"{output}\")\n            )"
                )?,
            }
        }
    }
    match node.generative {
        true => writeln!(
            text,
            "        for _ in range(ANSWERS):\n            yield outputs"
        ),
        false => writeln!(text, "        return outputs"),
    }
}

/// Writes the line that looks at an input.
fn check(text: &mut String, input: &ScaffoldStream, is_optional: bool) -> fmt::Result {
    let Some(dtype) = input.dtype else {
        return Ok(());
    };
    let (name, mut indent) = (&input.name, "        ");
    if is_optional {
        writeln!(text, "{indent}if \"{name}\" in given:")?;
        indent = "            ";
    }
    match &input.shape {
        None => writeln!(text, "{indent}checked(given[\"{name}\"], \"{dtype}\")"),
        Some(shape) => {
            let shape = tuple(shape);
            writeln!(
                text,
                "{indent}checked(given[\"{name}\"], \"{dtype}\", {shape})"
            )
        }
    }
}

fn streams(text: &mut String, streams: &[ScaffoldStream]) -> fmt::Result {
    for stream in streams {
        writeln!(text, "          {}", stream.to_string().replace(',', ", "))?;
    }
    Ok(())
}

/// Writes a shape as a tuple.
pub(super) fn tuple(shape: &[i64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let lengths: Vec<String> = shape.iter().map(i64::to_string).collect();
            format!("({})", lengths.join(", "))
        }
    }
}
