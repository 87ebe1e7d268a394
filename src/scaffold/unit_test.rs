//! A test of the handlers, for a plain interpreter.

use std::fmt::{self, Write as _};

use super::{
    Scaffold,
    handler::{echoes, is_typed, tuple},
    sample::Sample,
    stream::ScaffoldStream,
    wiring::{Python, Wiring},
};
use crate::tensor::DataType;

/// Writes the test.
pub(super) fn text(of: &Scaffold, wiring: &Wiring) -> String {
    let mut text = String::new();
    write(&mut text, of, wiring).expect("a text takes every text");
    text
}

fn write(text: &mut String, of: &Scaffold, wiring: &Wiring) -> fmt::Result {
    writeln!(
        text,
        "\"\"\"Tests of the handlers of the graph `{}`, without a server.\n",
        of.name
    )?;
    writeln!(text, "In this folder: python -m unittest\n")?;
    writeln!(
        text,
        "The module pyovms is part of the server. For tests, `ovms graph stubs`"
    )?;
    writeln!(text, "puts one into the virtual environment.\n\"\"\"\n")?;
    writeln!(text, "from __future__ import annotations\n")?;
    text.push_str(HEAD);
    for node in wiring.python() {
        class(text, node)?;
    }
    writeln!(
        text,
        "\n\nif __name__ == \"__main__\":\n    unittest.main()"
    )
}

const HEAD: &str = r#"import importlib.util
import pathlib
import unittest

from pyovms import Tensor

FOLDER = pathlib.Path(__file__).resolve().parent


def load(file: str, inputs: list[str], outputs: list[str]):
    """Make the object of a handler, as the server does."""
    path = FOLDER / file
    spec = importlib.util.spec_from_file_location(f"{path.stem}_handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    node = module.OvmsPythonModel()
    node.initialize(
        {
            "node_name": path.stem,
            "input_names": inputs,
            "output_names": outputs,
            "base_path": str(FOLDER),
        }
    )
    return node


def sample(
    name: str, datatype: str, shape: tuple[int, ...], size: int
) -> Tensor:
    """Make a tensor of so many bytes, zeros and ones."""
    data = bytes(number % 2 for number in range(size))
    return Tensor(name, data, shape=shape, datatype=datatype)
"#;

fn class(text: &mut String, node: &Python) -> fmt::Result {
    let names = |streams: &[ScaffoldStream]| -> String {
        let names: Vec<String> = streams
            .iter()
            .map(|it| format!("\"{}\"", it.name))
            .collect();
        format!("[{}]", names.join(", "))
    };
    writeln!(
        text,
        "\n\nclass {}Test(unittest.TestCase):",
        camel(&node.name)
    )?;
    writeln!(text, "    def setUp(self) -> None:")?;
    writeln!(text, "        self.node = load(")?;
    writeln!(
        text,
        "            \"{}\",\n            {},\n            {},\n        )",
        node.file,
        names(&node.inputs),
        names(&node.outputs)
    )?;
    writeln!(
        text,
        "\n    def tearDown(self) -> None:\n        self.node.finalize()"
    )?;
    writeln!(
        text,
        "\n    def test_gives_back_what_it_is_given(self) -> None:"
    )?;
    writeln!(text, "        inputs = [")?;
    for input in &node.inputs {
        writeln!(text, "            {},", tensor(input))?;
    }
    writeln!(text, "        ]")?;
    let outputs = match node.generative {
        true => {
            writeln!(text, "        for outputs in self.node.execute(inputs):")?;
            "            "
        }
        false => {
            writeln!(text, "        outputs = self.node.execute(inputs)")?;
            "        "
        }
    };
    let echoes = echoes(node);
    writeln!(text, "{outputs}self.assertEqual(")?;
    writeln!(text, "{outputs}    [tensor.name for tensor in outputs],")?;
    writeln!(text, "{outputs}    {},\n{outputs})", names(&node.outputs))?;
    let order: Vec<String> = echoes
        .iter()
        .map(|(from, _)| format!("inputs[{from}]"))
        .collect();
    writeln!(
        text,
        "{outputs}for got, sent in zip(outputs, [{}]):",
        order.join(", ")
    )?;
    for what in ["bytes({}.data)", "{}.shape", "{}.datatype"] {
        let [got, sent] = ["got", "sent"].map(|name| what.replace("{}", name));
        writeln!(text, "{outputs}    self.assertEqual({got}, {sent})")?;
    }
    if is_typed(node) {
        refusal(text, node)?;
    }
    Ok(())
}

/// Writes a test with a tensor that the handler does not take.
fn refusal(text: &mut String, node: &Python) -> fmt::Result {
    let typed = node.inputs.iter().find(|input| input.dtype.is_some());
    let Some(input) = typed else {
        return Ok(());
    };
    let call = match node.generative {
        true => "list(self.node.execute([wrong]))",
        false => "self.node.execute([wrong])",
    };
    writeln!(text, "\n    def test_refuses_other_types(self) -> None:")?;
    writeln!(
        text,
        "        wrong = Tensor(\"{}\", b\"\", shape=(0,), datatype=\"OTHER\")",
        input.name
    )?;
    writeln!(
        text,
        "        with self.assertRaises(ValueError):\n            {call}"
    )
}

/// Writes a tensor that an input takes.
fn tensor(input: &ScaffoldStream) -> String {
    let sample = Sample::of(input);
    let (name, dtype) = (&input.name, sample.dtype);
    let size = match dtype {
        // Each element is an empty text: four bytes that say its length.
        DataType::String => {
            let size = sample.count().saturating_mul(4);
            return format!(
                "Tensor(\"{name}\", bytes({size}), shape={}, datatype=\"BYTES\")",
                tuple(&sample.shape)
            );
        }
        _ => dtype.size().unwrap_or(1) as i64,
    };
    let size = sample.count().saturating_mul(size);
    format!(
        "sample(\"{name}\", \"{dtype}\", {}, {size})",
        tuple(&sample.shape)
    )
}

/// Writes a name as that of a class.
fn camel(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    let words = words.map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}
