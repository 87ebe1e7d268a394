//! The README of a new graph.

use std::fmt::{self, Write as _};

use super::{Scaffold, ScaffoldKind, sample::flags, wiring::Wiring};

/// Writes the README.
pub(super) fn text(of: &Scaffold, wiring: &Wiring) -> String {
    let mut text = String::new();
    write(&mut text, of, wiring).expect("a text takes every text");
    text
}

fn write(text: &mut String, of: &Scaffold, wiring: &Wiring) -> fmt::Result {
    let name = &of.name;
    writeln!(text, "# {name}\n")?;
    match &of.kind {
        ScaffoldKind::Chain(nodes) if nodes.len() == 1 => {
            writeln!(
                text,
                "A graph with a Python node, written by `ovms graph new`."
            )?;
        }
        ScaffoldKind::Chain(_) => writeln!(
            text,
            "A graph with Python nodes, one after the other, written by `ovms graph new`."
        )?,
        ScaffoldKind::Model(servable) => writeln!(
            text,
            "A graph around the model `{}`: Python before it, and after it. Written by `ovms graph new`.",
            servable.name
        )?,
    }
    writeln!(
        text,
        "As it is, its handlers give back what they are given.\n"
    )?;
    writeln!(text, "| file | what it is |\n|---|---|")?;
    writeln!(
        text,
        "| `graph.pbtxt` | the nodes, and the streams between them |"
    )?;
    for node in wiring.python() {
        writeln!(
            text,
            "| `{}` | the handler of the node `{}` |",
            node.file, node.name
        )?;
    }
    writeln!(text, "| `{}` | tests of the handlers |", of.test_file())?;
    writeln!(
        text,
        "| `pyovms.pyi` | the types of the module `pyovms`, for editors |\n"
    )?;
    for (title, streams) in [("takes", &of.inputs), ("gives", &of.outputs)] {
        for stream in streams {
            writeln!(text, "- {title} `{stream}`")?;
        }
    }
    let of_graph = match of.kind {
        ScaffoldKind::Chain(_) => ".".to_owned(),
        // It needs the model, which the configuration file has.
        ScaffoldKind::Model(_) => format!("{} {name}", of.config),
    };
    let flags = flags(&of.inputs);
    writeln!(text, "\n## Try it, in this folder\n\n```sh")?;
    writeln!(text, "ovms graph check {of_graph}")?;
    writeln!(text, "ovms graph show {of_graph}")?;
    writeln!(text, "ovms graph run {of_graph} {flags}\n```\n")?;
    writeln!(text, "## Test it\n\n```sh")?;
    writeln!(
        text,
        "ovms graph stubs     # the module pyovms for the active virtual environment"
    )?;
    writeln!(text, "python -m unittest\n```\n")?;
    writeln!(text, "## Serve it\n\n```sh")?;
    writeln!(text, "ovms serve --config_path {} --port 9000", of.config)?;
    let stream = if of.generative { " --stream" } else { "" };
    writeln!(text, "ovms infer {name}{stream} {flags}\n```\n")?;
    if of.generative {
        writeln!(
            text,
            "Answers have the time of their request and those after it. A second request on a stream that does not \
             wait\nfor the last answer needs a time above that of it, or the stream ends: the request parameter\n\
             `OVMS_MP_TIMESTAMP` (int64), or `timestamp` in a line of `ovms infer --stream -i -`. Steps of 1000, or \
             the\nmicroseconds of the clock, leave room for as many answers.\n"
        )?;
    }
    writeln!(
        text,
        "Handlers see the packages of the virtual environment that the server is started with. After a \
         change of\n`graph.pbtxt` or of a handler, `curl -X POST localhost:8000/v1/config/reload` (with \
         `--rest_port 8000`)\nbrings it into the running server."
    )
}
