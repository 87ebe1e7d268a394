//! Models of one operation, written as OpenVINO IR: a tensor in, one of the same shape out.

use std::{fs, path::Path};

/// Writes version 1 of a model that returns the positive part of its input.
pub(crate) fn relu(base_path: &Path, input: &str, output: &str, dims: &[usize]) {
    let dims: Vec<_> = dims.iter().map(ToString::to_string).collect();
    let dims: Vec<_> = dims.iter().map(String::as_str).collect();
    let float = ("f32", "FP32");
    operator(base_path, [input, output], float, &dims, ("ReLU", "opset1"));
}

/// Writes version 1 of a model that copies a list of strings, its input `in`, to `out` by an operator of the CPU that copies
/// their addresses.
pub(crate) fn copied_strings(base_path: &Path) {
    let string = ("string", "STRING");
    let identity = ("Identity", "opset16");
    operator(base_path, ["in", "out"], string, &["-1"], identity);
}

/// Writes version 1 of a model that returns as many of the first strings of its input `in` as the input `stop` (INT64, `[1]`)
/// says, by an operator of the CPU that copies their addresses.
pub(crate) fn sliced_strings(base_path: &Path) {
    let port = |id: u8, names: &str| {
        format!("<port id=\"{id}\" precision=\"STRING\"{names}><dim>-1</dim></port>")
    };
    let number = |id: u8, names: &str| {
        format!("<port id=\"{id}\" precision=\"I64\"{names}><dim>1</dim></port>")
    };
    let constant = |layer: u8, name: &str, offset: u8| {
        format!(
            "<layer id=\"{layer}\" name=\"{name}\" type=\"Const\" version=\"opset1\">\n\
             <data element_type=\"i64\" shape=\"1\" offset=\"{offset}\" size=\"8\"/><output>{}</output>\n</layer>\n",
            number(0, "")
        )
    };
    let parameter = |layer: u8, name: &str, data: &str, port: &str| {
        format!(
            "<layer id=\"{layer}\" name=\"{name}\" type=\"Parameter\" version=\"opset1\">\n\
             <data {data}/><output>{port}</output>\n</layer>\n"
        )
    };
    let layers = [
        parameter(
            0,
            "in",
            "shape=\"?\" element_type=\"string\"",
            &port(0, " names=\"in\""),
        ),
        parameter(
            1,
            "stop",
            "shape=\"1\" element_type=\"i64\"",
            &number(0, " names=\"stop\""),
        ),
        constant(2, "start", 0),
        constant(3, "step", 8),
        constant(4, "axes", 0),
        format!(
            "<layer id=\"5\" name=\"slice\" type=\"Slice\" version=\"opset8\">\n\
             <input>{}{}{}{}{}</input><output>{}</output>\n</layer>\n",
            port(0, ""),
            number(1, ""),
            number(2, ""),
            number(3, ""),
            number(4, ""),
            port(5, " names=\"out\"")
        ),
        format!(
            "<layer id=\"6\" name=\"out/sink\" type=\"Result\" version=\"opset1\"><input>{}</input></layer>\n",
            port(0, "")
        ),
    ];
    let edges = [(0, 0), (2, 1), (1, 2), (3, 3), (4, 4)].map(|(from, to)| {
        format!("<edge from-layer=\"{from}\" from-port=\"0\" to-layer=\"5\" to-port=\"{to}\"/>\n")
    });
    let text = format!(
        "<?xml version=\"1.0\"?>\n<net name=\"sliced\" version=\"11\">\n<layers>\n{}</layers>\n<edges>\n{}\
         <edge from-layer=\"5\" from-port=\"5\" to-layer=\"6\" to-port=\"0\"/>\n</edges>\n</net>\n",
        layers.concat(),
        edges.concat()
    );
    let folder = base_path.join("1");
    fs::create_dir_all(&folder).expect("the folder is ours");
    fs::write(folder.join("model.xml"), text).expect("the folder is ours");
    let numbers = [0_i64, 1].map(i64::to_le_bytes).concat();
    fs::write(folder.join("model.bin"), numbers).expect("the folder is ours");
}

/// Writes a model of one operator, named with its set, between an input and an output of these names. An element has a
/// name of types and one of ports; a dimension of -1 is dynamic.
fn operator(
    base_path: &Path,
    [input, output]: [&str; 2],
    (element, precision): (&str, &str),
    dims: &[&str],
    (kind, set): (&str, &str),
) {
    let shape = dims.join(",").replace("-1", "?");
    let dims: String = dims.iter().map(|dim| format!("<dim>{dim}</dim>")).collect();
    let port = |id: u8, names: &str| {
        format!("<port id=\"{id}\" precision=\"{precision}\"{names}>{dims}</port>")
    };
    let named = |name: &str| format!(" names=\"{name}\"");
    let text = format!(
        r#"<?xml version="1.0"?>
<net name="operator" version="11">
<layers>
<layer id="0" name="{input}" type="Parameter" version="opset1">
<data shape="{shape}" element_type="{element}"/><output>{}</output>
</layer>
<layer id="1" name="middle" type="{kind}" version="{set}">
<input>{}</input><output>{}</output>
</layer>
<layer id="2" name="{output}/sink" type="Result" version="opset1"><input>{}</input></layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
</edges>
</net>
"#,
        port(0, &named(input)),
        port(0, ""),
        port(1, &named(output)),
        port(0, "")
    );
    let folder = base_path.join("1");
    fs::create_dir_all(&folder).expect("the folder is ours");
    fs::write(folder.join("model.xml"), text).expect("the folder is ours");
    fs::write(folder.join("model.bin"), "").expect("the folder is ours");
}

/// Writes version 1 of a model that returns the strings of its input `in` as `out`, with `rank` dynamic
/// dimensions.
pub(crate) fn strings(base_path: &Path, rank: usize) {
    let dims = "<dim>-1</dim>".repeat(rank);
    let shape = vec!["?"; rank].join(",");
    let port = |id: u8, names: &str| {
        format!("<port id=\"{id}\" precision=\"STRING\"{names}>{dims}</port>")
    };
    let axes = format!("<port id=\"1\" precision=\"I64\"><dim>{rank}</dim></port>");
    let size = 8 * rank;
    let text = format!(
        r#"<?xml version="1.0"?>
<net name="strings" version="11">
<layers>
<layer id="0" name="in" type="Parameter" version="opset1">
<data shape="{shape}" element_type="string"/><output>{}</output>
</layer>
<layer id="1" name="same" type="Const" version="opset1">
<data element_type="i64" shape="{rank}" offset="0" size="{size}"/><output>{axes}</output>
</layer>
<layer id="2" name="reshape" type="Reshape" version="opset1">
<data special_zero="true"/><input>{}{axes}</input><output>{}</output>
</layer>
<layer id="3" name="out/sink" type="Result" version="opset1"><input>{}</input></layer>
</layers>
<edges>
<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
</edges>
</net>
"#,
        port(0, " names=\"in\""),
        port(0, ""),
        port(2, " names=\"out\""),
        port(0, "")
    );
    let folder = base_path.join("1");
    fs::create_dir_all(&folder).expect("the folder is ours");
    fs::write(folder.join("model.xml"), text).expect("the folder is ours");
    // A zero keeps a length as it is; no bytes at all are no file of weights.
    fs::write(folder.join("model.bin"), vec![0; size.max(8)]).expect("the folder is ours");
}
