//! Edits of the configuration of a valid pipeline that each make it invalid.

use rand::{RngExt, rngs::StdRng};
use serde_json::{Value, json};

/// Status texts, one of which must be the first error of an edit.
type Texts = &'static [&'static str];

/// Edit of a configuration; returns `None` if it does not apply.
type Edit = fn(&mut Value, &mut StdRng) -> Option<Texts>;

const MISSING_NODE: &str = "Pipeline definition has reference to missing node";
const MISSING_SOURCE: &str = "Pipeline definition has reference to missing data source";
const OPEN: &str =
    "Pipeline definition does not have connections for all inputs of underlying models";
const TWICE: &str =
    "Pipeline definition has multiple connections to the same input of underlying model";
const CYCLE: &str = "Pipeline definition contains a cycle";
const SHAPE: &str = "Invalid input shape";
const COUNT: &str = "Demultiplication count does not match tensor first dimension";
const LIFO: &str = "Demultiplexer and gather nodes are not in LIFO order";
const PLAIN: &str = "Gather node refers to node that isn't demultiplexer";
const MODEL: &str = "Pipeline definition has reference to missing model";
const LIBRARY: &str = "Pipeline refers to incorrect library";
const INPUT: &str = "Pipeline definition has connection to non existing model input";
const OUTPUT: &str = "Pipeline definition has reference to missing model output";
const NAMES: &str = "Pipeline definition has multiple nodes with the same name";

/// All edits, with their descriptions.
pub(crate) const EDITS: &[(&str, Edit)] = &[
    ("another source", |pipeline, rng| {
        input(pipeline, rng)?.1["node_name"] = "nowhere".into();
        Some(&[MISSING_NODE])
    }),
    ("the response as a source", |pipeline, rng| {
        input(pipeline, rng)?.1["node_name"] = "response".into();
        Some(&["Pipeline definition has response node used as dependency node"])
    }),
    ("another alias", |pipeline, rng| {
        input(pipeline, rng)?.1["data_item"] = "nothing".into();
        Some(&[MISSING_SOURCE])
    }),
    ("a response of nowhere", |pipeline, rng| {
        let outputs = pipeline["outputs"].as_array_mut()?;
        let output = some(outputs, rng, |_| true)?;
        source(output).1["node_name"] = "nowhere".into();
        Some(&[MISSING_NODE])
    }),
    ("a response of nothing", |pipeline, rng| {
        let outputs = pipeline["outputs"].as_array_mut()?;
        let output = some(outputs, rng, |_| true)?;
        source(output).1["data_item"] = "nothing".into();
        Some(&[MISSING_SOURCE])
    }),
    ("an output that is not there", |pipeline, rng| {
        let taken = sources(pipeline);
        let node = node(pipeline, rng, |node| taken.contains(&name(node)))?;
        for output in node["outputs"].as_array_mut()? {
            output["data_item"] = "nothing".into();
        }
        Some(&[OUTPUT])
    }),
    ("an input less", |pipeline, rng| {
        let node = node(pipeline, rng, |_| true)?;
        let inputs = node["inputs"].as_array_mut()?;
        inputs.remove(rng.random_range(0..inputs.len()));
        Some(&[OPEN])
    }),
    ("an input twice", |pipeline, rng| {
        let node = node(pipeline, rng, |_| true)?;
        let inputs = node["inputs"].as_array_mut()?;
        let again = some(inputs, rng, |_| true)?.clone();
        inputs.push(again);
        Some(&[TWICE])
    }),
    ("an output twice", |pipeline, rng| {
        let outputs = pipeline["outputs"].as_array_mut()?;
        let again = some(outputs, rng, |_| true)?.clone();
        outputs.push(again);
        Some(&[TWICE])
    }),
    ("an input of another name", |pipeline, rng| {
        let node = node(pipeline, rng, |_| true)?;
        let inputs = node["inputs"].as_array_mut()?;
        let input = some(inputs, rng, |_| true)?;
        *input = json!({"another": source(input).1.clone()});
        Some(&[INPUT])
    }),
    ("one that waits for itself", |pipeline, rng| {
        let (node, input) = input(pipeline, rng)?;
        *input = json!({"node_name": node, "data_item": "o0"});
        Some(&[CYCLE, SHAPE, COUNT])
    }),
    ("two that wait for each other", |pipeline, rng| {
        let nodes = pipeline["nodes"].as_array_mut()?;
        let edges: Vec<(String, String)> = nodes.iter().flat_map(edges).collect();
        let (from, to) = pick(&edges, rng)?.clone();
        let first = nodes.iter_mut().find(|node| name(node) == from)?;
        let inputs = first["inputs"].as_array_mut()?;
        let input = some(inputs, rng, |_| true)?;
        *source(input).1 = json!({"node_name": to, "data_item": "o0"});
        Some(&[CYCLE, SHAPE, COUNT])
    }),
    ("a gather from nowhere", |pipeline, rng| {
        node(pipeline, rng, |_| true)?["gather_from_node"] = "nowhere".into();
        Some(&["Gather node refers to not existing node"])
    }),
    ("a gather from one that does not split", |pipeline, rng| {
        let plain = node(pipeline, rng, |node| node.get("demultiply_count").is_none())?;
        let plain = plain["name"].clone();
        node(pipeline, rng, |_| true)?["gather_from_node"] = plain;
        Some(&[PLAIN])
    }),
    ("no gather", |pipeline, rng| {
        // What comes from the request alone would be of one dimension more, which is fine.
        let node = node(pipeline, rng, |node| {
            node.get("gather_from_node").is_some() && edges(node).next().is_some()
        })?;
        node.as_object_mut()?.remove("gather_from_node");
        Some(&[SHAPE])
    }),
    ("a gather from another level", |pipeline, rng| {
        let nodes = pipeline["nodes"].as_array()?;
        let splits = nodes
            .iter()
            .filter(|node| node.get("demultiply_count").is_some());
        let splits: Vec<Value> = splits.map(|node| node["name"].clone()).collect();
        let is_one = |node: &Value| node.get("gather_from_node").is_some();
        let gathering = node(pipeline, rng, is_one)?;
        let present = gathering["gather_from_node"].clone();
        let others: Vec<Value> = splits
            .into_iter()
            .filter(|other| *other != present)
            .collect();
        gathering["gather_from_node"] = pick(&others, rng)?.clone();
        Some(&[LIFO, COUNT, SHAPE])
    }),
    ("no demultiplexer where one gathers", |pipeline, rng| {
        let nodes = pipeline["nodes"].as_array()?;
        let gathered = nodes.iter().filter_map(|node| node.get("gather_from_node"));
        let gathered: Vec<Value> = gathered.cloned().collect();
        let node = node(pipeline, rng, |node| gathered.contains(&node["name"]))?;
        node.as_object_mut()?.remove("demultiply_count");
        Some(&[PLAIN, SHAPE])
    }),
    ("another count", |pipeline, rng| {
        let counted = |node: &Value| {
            let first = node["params"]["out"]
                .as_str()
                .and_then(|out| out.split(',').next());
            node["demultiply_count"].as_i64() > Some(0) && first != Some("0")
        };
        let node = node(pipeline, rng, |node| {
            counted(node) && node["model_name"] != "rows"
        })?;
        let count = node["demultiply_count"].as_i64()?;
        node["demultiply_count"] = (count + rng.random_range(1..5)).into();
        Some(&[COUNT])
    }),
    ("a dynamic demultiplexer among several", |pipeline, rng| {
        let nodes = pipeline["nodes"].as_array()?;
        let is_one = |node: &Value| node.get("demultiply_count").is_some();
        let entry = pipeline.get("demultiply_count").is_some();
        let others = nodes.iter().filter(|node| is_one(node)).count() + usize::from(entry);
        let more = node(pipeline, rng, |node| others > 1 || !is_one(node))?;
        if others == 0 {
            return None;
        }
        more["demultiply_count"] = (-1).into();
        Some(&["Functionality not implemented"])
    }),
    ("another model", |pipeline, rng| {
        node(pipeline, rng, is_model)?["model_name"] = "nothing".into();
        Some(&[MODEL])
    }),
    ("another version", |pipeline, rng| {
        node(pipeline, rng, is_model)?["version"] = 77.into();
        Some(&[MODEL])
    }),
    ("a model that keeps state", |pipeline, rng| {
        let node = node(pipeline, rng, is_model)?;
        node["model_name"] = "stateful".into();
        node.as_object_mut()?.remove("version");
        // Who is listed earlier misses its output first.
        Some(&["Stateful model cannot be subscribed to pipeline", OUTPUT])
    }),
    ("a model of any batch size", |pipeline, rng| {
        let node = node(pipeline, rng, is_model)?;
        node["model_name"] = "auto".into();
        node.as_object_mut()?.remove("version");
        Some(&["Value of provided parameter is forbidden", OUTPUT])
    }),
    ("a model with other inputs", |pipeline, rng| {
        let node = node(pipeline, rng, is_model)?;
        let other = if node["model_name"] == "add" {
            "dummy"
        } else {
            "add"
        };
        node["model_name"] = other.into();
        // Its outputs are others, too.
        Some(&[INPUT, OUTPUT, COUNT, SHAPE])
    }),
    ("another library", |pipeline, rng| {
        let library = ["nothing", "missing"][rng.random_range(0..2)];
        node(pipeline, rng, is_custom)?["library_name"] = library.into();
        Some(&[LIBRARY])
    }),
    ("a custom node that does not begin", |pipeline, rng| {
        node(pipeline, rng, is_custom)?["params"]["op"] = "nothing".into();
        Some(&["Failure during custom node library initialization"])
    }),
    ("another shape", |pipeline, rng| {
        let node = node(pipeline, rng, |node| {
            is_custom(node) && edges(node).next().is_some()
        })?;
        let inputs = node["inputs"].as_array_mut()?;
        let input = some(inputs, rng, |input| {
            source_of(input).1["node_name"] != "request"
        })?;
        let input = source(input).0;
        let shape = node["params"][&input].as_str()?;
        let separator = if shape.is_empty() { "" } else { "," };
        node["params"][&input] = format!("{shape}{separator}7").into();
        Some(&[SHAPE])
    }),
    ("another type", |pipeline, rng| {
        let node = node(pipeline, rng, |node| {
            is_custom(node) && edges(node).next().is_some()
        })?;
        node["params"]["wants"] = "I32".into();
        Some(&["Invalid input precision"])
    }),
    ("one that leads nowhere", |pipeline, rng| {
        let mut idle = node(pipeline, rng, |_| true)?.clone();
        idle["name"] = "idle".into();
        idle.as_object_mut()?.remove("demultiply_count");
        let nodes = pipeline["nodes"].as_array_mut()?;
        nodes.insert(rng.random_range(0..=nodes.len()), idle);
        Some(&["Pipeline definition has unconnected nodes"])
    }),
    ("a reserved name", |pipeline, rng| {
        let name = ["request", "response"][rng.random_range(0..2)];
        node(pipeline, rng, |_| true)?["name"] = name.into();
        Some(&[NAMES])
    }),
    ("one name for two", |pipeline, rng| {
        let first = node(pipeline, rng, |_| true)?["name"].clone();
        let second = node(pipeline, rng, |node| node["name"] != first)?;
        second["name"] = first;
        Some(&[NAMES])
    }),
    ("one input for different shapes", |pipeline, rng| {
        let is_plain = |value: &Value| value.get("demultiply_count").is_none();
        let nodes = pipeline["nodes"].as_array()?;
        if !is_plain(pipeline) || !nodes.iter().all(is_plain) {
            return None;
        }
        let inputs = nodes.iter().flat_map(|node| node["inputs"].as_array());
        let taken = inputs.flatten().map(|input| source_of(input).1);
        let taken = taken.filter(|source| source["node_name"] == "request");
        let taken: Vec<Value> = taken.cloned().collect();
        let source = pick(&taken, rng)?.clone();
        let other = json!({
            "name": "other",
            "type": "custom",
            "library_name": "arith",
            "params": {"op": "same", "a": "7,7,7,7,7,7,7", "out": ""},
            "inputs": [{"a": source}],
            "outputs": [{"data_item": "out", "alias": "o0"}],
        });
        let output = json!({"other": {"node_name": "other", "data_item": "o0"}});
        pipeline["nodes"].as_array_mut()?.push(other);
        pipeline["outputs"].as_array_mut()?.push(output);
        Some(&[
            "Multiple nodes connected to the same pipeline input require different tensor \
                metadata",
        ])
    }),
];

fn name(node: &Value) -> String {
    node["name"].as_str().expect("nodes have names").to_owned()
}

fn is_model(node: &Value) -> bool {
    node["type"] == "DL model"
}

fn is_custom(node: &Value) -> bool {
    node["type"] == "custom"
}

/// Returns a random element of a list.
fn pick<'a, T>(list: &'a [T], rng: &mut StdRng) -> Option<&'a T> {
    (!list.is_empty()).then(|| &list[rng.random_range(0..list.len())])
}

/// Returns a random element of a list that meets a condition.
fn some<'a>(
    list: &'a mut [Value],
    rng: &mut StdRng,
    is_one: impl Fn(&Value) -> bool,
) -> Option<&'a mut Value> {
    let ones: Vec<usize> = (0..list.len())
        .filter(|place| is_one(&list[*place]))
        .collect();
    let place = *pick(&ones, rng)?;
    Some(&mut list[place])
}

/// Returns a random node that meets a condition.
fn node<'a>(
    pipeline: &'a mut Value,
    rng: &mut StdRng,
    is_one: impl Fn(&Value) -> bool,
) -> Option<&'a mut Value> {
    some(pipeline["nodes"].as_array_mut()?, rng, is_one)
}

/// Returns name and source of an input or output.
fn source(connection: &mut Value) -> (String, &mut Value) {
    let connection = connection.as_object_mut().expect("it has one key");
    let (name, source) = connection.iter_mut().next().expect("it has one key");
    (name.clone(), source)
}

fn source_of(connection: &Value) -> (&str, &Value) {
    let connection = connection.as_object().expect("it has one key");
    let (name, source) = connection.iter().next().expect("it has one key");
    (name, source)
}

/// Returns the source of an input of a node, and the node's name.
fn input<'a>(pipeline: &'a mut Value, rng: &mut StdRng) -> Option<(String, &'a mut Value)> {
    let node = node(pipeline, rng, |_| true)?;
    let name = name(node);
    let input = some(node["inputs"].as_array_mut()?, rng, |_| true)?;
    Some((name, source(input).1))
}

/// Returns the nodes that a node takes its inputs from, each with the node itself.
fn edges(node: &Value) -> impl Iterator<Item = (String, String)> {
    let inputs = node["inputs"].as_array().expect("nodes have inputs");
    inputs.iter().filter_map(|input| {
        let from = source_of(input).1["node_name"]
            .as_str()
            .expect("it is a text");
        (from != "request").then(|| (from.to_owned(), name(node)))
    })
}

/// Returns the nodes with used outputs.
fn sources(pipeline: &Value) -> Vec<String> {
    let nodes = pipeline["nodes"].as_array().expect("there is a list");
    let inputs = nodes
        .iter()
        .map(|node| &node["inputs"])
        .chain([&pipeline["outputs"]]);
    let inputs = inputs.flat_map(|inputs| inputs.as_array().expect("it is a list"));
    let names = inputs.map(|input| source_of(input).1["node_name"].as_str());
    names
        .map(|name| name.expect("it is a text").to_owned())
        .collect()
}
