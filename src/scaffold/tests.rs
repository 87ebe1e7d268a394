//! Snapshots of new graphs.

use super::{Scaffold, ScaffoldError, ScaffoldKind, ScaffoldServable, ScaffoldStream, flags};

fn streams(texts: &[&str]) -> Vec<ScaffoldStream> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn scaffold(kind: ScaffoldKind, inputs: &[&str], outputs: &[&str]) -> Scaffold {
    Scaffold {
        name: "echo".to_owned(),
        kind,
        inputs: streams(inputs),
        outputs: streams(outputs),
        generative: false,
        config: "config.json".to_owned(),
    }
}

fn chain(nodes: &[&str]) -> ScaffoldKind {
    ScaffoldKind::Chain(nodes.iter().map(|&name| name.to_owned()).collect())
}

fn shown(scaffold: &Scaffold) -> String {
    let files = scaffold.files().unwrap();
    let shown = files
        .iter()
        .map(|(name, text)| format!("===== {name}\n{text}"));
    shown.collect()
}

#[test]
fn a_node_that_gives_back_what_it_is_given() {
    insta::assert_snapshot!(shown(&scaffold(chain(&["model"]), &["input"], &["output"])));
}

#[test]
fn a_generator_with_types() {
    let kind = chain(&["writer"]);
    let inputs = ["prompt:BYTES", "seed:INT64:1"];
    let generator = Scaffold {
        generative: true,
        ..scaffold(kind, &inputs, &["token:BYTES", "end:BOOL"])
    };
    insta::assert_snapshot!(shown(&generator));
}

#[test]
fn nodes_one_after_the_other() {
    let kind = chain(&["tokenize", "count"]);
    insta::assert_snapshot!(shown(&scaffold(
        kind,
        &["text:BYTES"],
        &["counts:INT64:-1"]
    )));
}

#[test]
fn a_model_in_the_middle() {
    let port = |name: &str, text: &str| ScaffoldStream {
        name: name.to_owned(),
        ..text.parse().unwrap()
    };
    let kind = ScaffoldKind::Model(ScaffoldServable {
        name: "face detector".to_owned(),
        ports: Some((
            vec![port("data:0", "x:FP32:1,3,-1,-1")],
            vec![
                port("Boxes", "x:FP32:1,100,4"),
                port("Scores", "x:FP32:1,100"),
            ],
        )),
    });
    let outputs = ["boxes:FP32:1,100,4", "scores:FP32:1,100"];
    insta::assert_snapshot!(shown(&scaffold(kind, &["image:UINT8[-1,-1,3]"], &outputs)));
    let unknown = ScaffoldKind::Model(ScaffoldServable {
        name: "m".to_owned(),
        ports: None,
    });
    let files = scaffold(unknown, &["input"], &["output"]).files().unwrap();
    insta::assert_snapshot!(files[0].1);
}

#[test]
fn a_model_that_takes_other_types_gets_zeros() {
    let kind = ScaffoldKind::Model(ScaffoldServable {
        name: "m".to_owned(),
        ports: Some((
            streams(&["data:FP32:1,3,-1,-1", "mask:BOOL:2", "text:BYTES:1"]),
            streams(&["scores:FP32:1,10"]),
        )),
    });
    let wanted = scaffold(
        kind,
        &["image:UINT8:-1,-1,3", "flags:BOOL:-1"],
        &["label:BYTES"],
    );
    let blanks = wanted.blanks().unwrap();
    let blanks: Vec<String> = blanks.iter().map(ToString::to_string).collect();
    assert_eq!(
        blanks,
        [
            "data  FP32 (1,3,-1,-1)",
            "mask  BOOL (2)",
            "text  BYTES (1)"
        ]
    );
    let files = wanted.files().unwrap();
    let file = |name: &str| {
        let mut files = files.iter();
        &files.find(|(it, _)| it == name).unwrap().1
    };
    for line in [
        "            outputs.append(zeros(\"to_data\", \"FP32\", (1, 3, 2, 2), 48))",
        "            outputs.append(zeros(\"to_mask\", \"BOOL\", (2,), 2))",
        "            outputs.append(Tensor(\"to_text\", [\"\"] * 1, shape=(1,)))",
        "  to_mask  BOOL (2)",
    ] {
        let text = file("preprocess.py");
        assert!(text.lines().any(|it| it == line), "{line}:\n{text}");
    }
    let line = "        for got, sent in zip(outputs, [None, None, None]):";
    let text = file("test_echo.py");
    assert!(text.lines().any(|it| it == line), "{text}");
    let wider = scaffold(wanted.kind.clone(), &["image:FP32:1,3,-1,-1"], &["label"]);
    assert_eq!(wider.blanks().unwrap().len(), 2);
}

#[test]
fn outputs_of_a_type_of_their_own_are_zeros_of_it() {
    let wanted = scaffold(
        chain(&["model"]),
        &["image:UINT8:-1,-1,3"],
        &["label:BYTES", "score:FP32:1,2", "copy"],
    );
    let zeros = wanted.zeros().unwrap();
    let zeros: Vec<String> = zeros
        .iter()
        .map(|(output, file)| format!("{output} in {file}"))
        .collect();
    assert_eq!(
        zeros,
        ["label  BYTES in model.py", "score  FP32 (1,2) in model.py"]
    );
    let files = wanted.files().unwrap();
    let handler = &files.iter().find(|(name, _)| name == "model.py").unwrap().1;
    for line in [
        "            outputs.append(Tensor(\"label\", [\"\"] * 1, shape=(1,)))",
        "            outputs.append(zeros(\"score\", \"FP32\", (1, 2), 8))",
        "            outputs.append(renamed(given[\"image\"], \"copy\"))",
    ] {
        assert!(handler.lines().any(|it| it == line), "{line}:\n{handler}");
    }
    let same = scaffold(chain(&["model"]), &["a:FP32:-1,4"], &["b:FP32:1,4"]);
    assert!(same.zeros().unwrap().is_empty());
    let model = ScaffoldKind::Model(ScaffoldServable {
        name: "m".to_owned(),
        ports: Some((streams(&["data:FP32"]), streams(&["scores:FP32"]))),
    });
    let model = scaffold(model, &["image:UINT8"], &["label:BYTES"]);
    assert!(model.zeros().unwrap().is_empty());
}

#[test]
fn streams_without_a_type_have_that_of_the_model() {
    let ports = streams(&["ids:INT64:1,-1", "mask:BOOL:2"]);
    let typed = |name: &str, place| {
        let stream = ScaffoldStream::untyped(name);
        stream.typed_as(place, &ports).to_string()
    };
    assert_eq!(typed("mask", 0), "mask  BOOL (2)");
    assert_eq!(typed("tokens", 0), "tokens  INT64 (1,-1)");
    assert_eq!(typed("other", 2), "other");
    let own: ScaffoldStream = "mask:FP32".parse().unwrap();
    assert_eq!(own.typed_as(1, &ports).to_string(), "mask  FP32");
}

#[test]
fn lengths_that_a_model_does_not_take_are_not_tried() {
    let mut image: ScaffoldStream = "image:UINT8:-1,3".parse().unwrap();
    image.tried = Some(vec![8, 3]);
    assert_eq!(flags(&[image]), "-i image:UINT8:8,3= --random");
}

#[test]
fn streams_are_read_as_inputs_of_requests_are_written() {
    let shown = |text: &str| match text.parse::<ScaffoldStream>() {
        Ok(stream) => stream.to_string(),
        Err(error) => error.to_string(),
    };
    for (text, expected) in [
        ("image", "image"),
        ("image:uint8", "image  UINT8"),
        ("image:UINT8:-1,-1,3", "image  UINT8 (-1,-1,3)"),
        ("image:UINT8[-1, -1,3]", "image  UINT8 (-1,-1,3)"),
        ("image:FP32(2)", "image  FP32 (2)"),
        ("x:FP32:", "x  FP32 ()"),
    ] {
        assert_eq!(shown(text), expected);
    }
    let errors = [
        "Image",
        "9",
        "a-b",
        "loopback",
        "x:FLOAT",
        "x:FP32:1,x",
        "x:FP32[1",
        "x:FP32:0",
    ];
    let errors: Vec<String> = errors.iter().map(|text| shown(text)).collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn what_cannot_be_written_is_reported() {
    let error = |scaffold: Scaffold| scaffold.files().unwrap_err();
    assert_eq!(
        error(scaffold(chain(&["a", "a"]), &["x"], &["y"])),
        ScaffoldError::NodeTwice("a".to_owned())
    );
    assert_eq!(
        error(scaffold(chain(&["a"]), &["x"], &["x"])),
        ScaffoldError::StreamTwice("x".to_owned())
    );
    assert_eq!(
        error(scaffold(chain(&["A"]), &["x"], &["y"])),
        ScaffoldError::Node("A".to_owned())
    );
    assert_eq!(
        error(scaffold(chain(&[]), &["x"], &["y"])),
        ScaffoldError::None("node")
    );
}

#[test]
fn values_are_of_the_type_and_shape_of_the_input() {
    let flags = |texts: &[&str]| flags(&streams(texts));
    assert_eq!(flags(&["a"]), "-i 'a:FP32=[1,2,3]'");
    assert_eq!(flags(&["a:BYTES"]), "-i a:BYTES=hello");
    assert_eq!(
        flags(&["a:UINT8:-1,-1,3", "b:BOOL:2"]),
        "-i a:UINT8:2,2,3= -i 'b:BOOL=[true,false]' --random"
    );
}
