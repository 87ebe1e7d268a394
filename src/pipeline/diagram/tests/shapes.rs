//! Pipelines to draw, and what their models and libraries take and give.

use std::path::Path;

use crate::{
    config::{Defaults, NodeConfig, parse},
    draw::Diagram,
    pipeline::{CustomError, CustomFacts, MissingModel, ModelFacts, Sources, TensorSource},
    tensor::{DataType, Dim, Layout, PartialShape},
};

/// Name, inputs and outputs of models and libraries, as `name:FP32:1,-1`.
const KNOWN: [(&str, &str, &str); 10] = [
    ("dummy", "b:FP32:1,10", "a:FP32:1,10"),
    ("two", "x:FP32:1,10 y:FP32:1,10", "z:FP32:1,10"),
    (
        "detector",
        "image:FP32:1,3,704,704",
        "boxes:FP32:1,-1,5 scores:FP32:1,-1",
    ),
    (
        "crop",
        "image:FP32:1,3,704,704 boxes:FP32:1,-1,5",
        "images:FP32:-1,1,1,32,128 places:INT32:-1,1,4",
    ),
    (
        "recogniser",
        "image:FP32:1,1,32,128",
        "letters:FP32:30,1,37",
    ),
    ("four", "b:FP32:1,10", "a:FP32:4,1,10"),
    ("three", "b:FP32:1,10", "a:FP32:3,1,10"),
    ("gather3", "b:FP32:3,1,10", "a:FP32:1,10"),
    ("gather4", "b:FP32:4,1,10", "a:FP32:1,10"),
    ("words", "letters:FP32:-1,30,1,37", "text:UINT8:-1,20"),
];

pub(super) struct Known;

fn tensor(text: &str) -> TensorSource {
    let mut parts = text.split(':');
    let mut part = || parts.next().unwrap();
    let (name, dtype, shape) = (part(), part(), part());
    let dims: Vec<Dim> = shape
        .split(',')
        .map(|dim| match dim {
            "-1" => Dim::Any,
            length => Dim::Fixed(length.parse().unwrap()),
        })
        .collect();
    TensorSource {
        name: name.to_owned(),
        dtype: DataType::from_kserve(dtype),
        layout: Layout::unspecified(dims.len()),
        shape: PartialShape(dims),
    }
}

fn facts(name: &str) -> Option<CustomFacts> {
    let row = KNOWN.iter().find(|row| row.0 == name)?;
    let tensors = |text: &str| text.split(' ').map(tensor).collect();
    Some(CustomFacts {
        inputs: tensors(row.1),
        outputs: tensors(row.2),
        is_open: false,
    })
}

impl Sources for Known {
    fn name_taken(&self, _name: &str) -> bool {
        false
    }

    fn model(&self, name: &str, version: Option<i64>) -> Result<ModelFacts, MissingModel> {
        match (name, version) {
            (_, Some(_)) => return Err(MissingModel::Version(vec![1])),
            ("loading", _) => return Err(MissingModel::NotAvailable("LOADING".to_owned())),
            ("far", _) => {
                return Err(MissingModel::NotLooked {
                    reason: "it is far away".to_owned(),
                    stateful: false,
                    auto: false,
                });
            }
            _ => {}
        }
        let facts = facts(name).ok_or(MissingModel::Unknown(Vec::new()))?;
        Ok(ModelFacts::of(facts.inputs, facts.outputs))
    }

    fn custom(&self, _node: &NodeConfig, library: &str) -> Result<CustomFacts, CustomError> {
        if library == "broken" {
            return Err(CustomError::NotOpen("it is <no> library".to_owned()));
        }
        if self.is_python(library) {
            return Ok(CustomFacts {
                is_open: true,
                ..CustomFacts::default()
            });
        }
        facts(library).ok_or(CustomError::Library(Vec::new()))
    }

    fn is_python(&self, library: &str) -> bool {
        library == "script"
    }
}

/// Reads a pipeline: a line for each node as `name = model: input < source.alias, …; alias,
/// alias:output; split 4; gather x`, with `@` before a library and `/7` behind a model for a version. The first line has the inputs, and
/// what it splits; lines with `>` are outputs.
pub(super) fn diagram(text: &str) -> Diagram {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut first = lines.next().unwrap().split(';').map(str::trim);
    let inputs: Vec<String> = first.next().unwrap().split(", ").map(quoted).collect();
    let settings: String = first.map(setting).collect();
    let (mut nodes, mut outputs) = (Vec::new(), Vec::new());
    for line in lines {
        match line.strip_prefix("> ") {
            Some(output) => outputs.push(connection(output)),
            None => nodes.push(node(line)),
        }
    }
    let json = format!(
        r#"{{"model_config_list": [], "pipeline_config_list": [{{"name": "example", "inputs": [{}],
        "nodes": [{}], "outputs": [{}]{settings}}}]}}"#,
        inputs.join(", "),
        nodes.join(", "),
        outputs.join(", ")
    );
    let path = Path::new("/config.json");
    let config = parse(json.as_bytes(), path, &Defaults::default()).unwrap();
    crate::pipeline::diagram(&config.pipelines[0], &Known)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn setting(text: &str) -> String {
    match text.split_once(' ').unwrap() {
        ("split", count) => format!(r#", "demultiply_count": {count}"#),
        (_, from) => format!(r#", "gather_from_node": {}"#, quoted(from)),
    }
}

fn connection(text: &str) -> String {
    let (input, source) = text.split_once(" < ").unwrap();
    let (node, item) = source.split_once('.').unwrap();
    let [input, node, item] = [input, node, item].map(quoted);
    format!(r#"{{{input}: {{"node_name": {node}, "data_item": {item}}}}}"#)
}

fn node(line: &str) -> String {
    let (name, rest) = line.split_once(" = ").unwrap();
    let (runs, rest) = rest.split_once(": ").unwrap();
    let mut parts = rest.split(';').map(str::trim);
    let inputs: Vec<String> = parts.next().unwrap().split(", ").map(connection).collect();
    let outputs = parts.next().unwrap().split(", ").map(|output| {
        let (alias, real) = output.split_once(':').unwrap_or((output, output));
        format!(
            r#"{{"data_item": {}, "alias": {}}}"#,
            quoted(real),
            quoted(alias)
        )
    });
    let outputs: Vec<String> = outputs.collect();
    let runs = match runs.strip_prefix('@') {
        Some(library) => format!(r#""type": "custom", "library_name": {}"#, quoted(library)),
        None => {
            let (model, version) = match runs.split_once('/') {
                Some((model, version)) => (model, format!(r#", "version": {version}"#)),
                None => (runs, String::new()),
            };
            format!(
                r#""type": "DL model", "model_name": {}{version}"#,
                quoted(model)
            )
        }
    };
    format!(
        r#"{{"name": {}, {runs}, "inputs": [{}], "outputs": [{}]{}}}"#,
        quoted(name),
        inputs.join(", "),
        outputs.join(", "),
        parts.map(setting).collect::<String>()
    )
}

pub(super) const CHAIN: &str = "
    image
    first = dummy: b < request.image; a
    second = dummy: b < first.a; a
    > scores < second.a";

pub(super) const DIAMOND: &str = "
    image
    left = dummy: b < request.image; a
    right = dummy: b < request.image; a
    join = two: x < left.a, y < right.a; z
    > sum < join.z
    > left < left.a";

pub(super) const GATHERED_BY_RESPONSE: &str = "
    page
    detect = detector: image < request.page; boxes
    crop = @crop: image < request.page, boxes < detect.boxes; images, places; split -1
    recognise = recogniser: image < crop.images; letters
    > letters < recognise.letters
    > places < crop.places";

pub(super) const GATHERED_BY_NODE: &str = "
    page
    detect = detector: image < request.page; boxes
    crop = @crop: image < request.page, boxes < detect.boxes; images; split -1
    recognise = recogniser: image < crop.images; letters
    decode = @words: letters < recognise.letters; text; gather crop
    > text < decode.text";

pub(super) const NESTED: &str = "
    x
    outer = four: b < request.x; a; split 4
    inner = three: b < outer.a; parts:a; split 3
    each = dummy: b < inner.parts; a
    sum = gather3: b < each.a; a; gather inner
    > sums < sum.a";

pub(super) const FAN: &str = "
    x, id
    n1 = dummy: b < request.x; a
    n2 = dummy: b < request.x; a
    n3 = dummy: b < request.x; a
    n4 = dummy: b < request.x; a
    n5 = dummy: b < request.x; a
    n6 = dummy: b < request.x; a
    n7 = dummy: b < request.x; a
    n8 = dummy: b < request.x; a
    > y1 < n1.a
    > y2 < n2.a
    > y3 < n3.a
    > y4 < n4.a
    > y5 < n5.a
    > y6 < n6.a
    > y7 < n7.a
    > y8 < n8.a
    > id < request.id";

pub(super) const SPLIT_REQUEST: &str = "
    images; split -1
    first = dummy: b < request.images; a
    second = dummy: b < first.a; a
    > scores < second.a";

pub(super) const BROKEN: &str = "
    x
    a = dummy: b < request.x, c < c.a; a
    b = dummy: b < a.a; a
    c = dummy: b < b.a, d < nosuch.out; a
    > y < c.wrong
    > z < other.z";

pub(super) const MISSING: &str = "
    x
    a = dumy: b < request.x; a
    b = dummy/7: b < a.a; a
    c = loading: b < b.a; a; split 3
    d = @gone: b < c.a; a
    e = @broken: b < d.a; a; gather c
    f = far: b < e.a; a
    > y < f.a";

pub(super) fn all() -> Vec<(&'static str, Diagram)> {
    [
        ("chain", CHAIN),
        ("diamond", DIAMOND),
        ("gathered by the response", GATHERED_BY_RESPONSE),
        ("gathered by a node", GATHERED_BY_NODE),
        ("nested", NESTED),
        ("fan", FAN),
        ("split request", SPLIT_REQUEST),
        ("broken", BROKEN),
        ("missing", MISSING),
    ]
    .into_iter()
    .map(|(name, text)| (name, diagram(text)))
    .collect()
}

/// Long names, many nodes, deep levels.
pub(super) fn large() -> Vec<(&'static str, Diagram)> {
    let long = |name: &str| format!("{name}_{}", "abcdefghij".repeat(6));
    let (a, b, c, item) = (long("a"), long("b"), long("c"), long("item"));
    let names = format!(
        "image
        {a} = dummy: b < request.image; {item}:a
        {b} = two: x < {a}.{item}, y < request.image; {item}:z
        {c} = @{item}: {item} < {b}.{item}, y < request.image; {item}
        > y < {c}.{item}
        > z < {b}.{item}"
    );
    let mut many = String::from("image\n");
    for node in 0..200_usize {
        let source = |by: usize| match (node * 7 + by * 13) % (node + 1) {
            0 => "request.image".to_owned(),
            other => format!("n{}.z", other - 1),
        };
        many.extend([format!(
            "n{node} = two: x < {}, y < {}; z\n",
            source(7),
            source(13)
        )]);
    }
    for node in 150..200 {
        many.extend([format!("> y{node} < n{node}.z\n")]);
    }
    let mut deep = String::from("image\n");
    for node in 0..12 {
        let source = match node {
            0 => "request.image".to_owned(),
            node => format!("d{}.a", node - 1),
        };
        deep.extend([format!("d{node} = four: b < {source}; a; split 4\n")]);
    }
    deep += "work = dummy: b < d11.a; a\n> y < work.a";
    vec![
        ("long names", diagram(&names)),
        ("200 nodes", diagram(&many)),
        ("12 levels", diagram(&deep)),
    ]
}
