//! The custom nodes that `ovms pipeline new` writes: they build or load, and do what their comments say. What the
//! command says is in the sheet `new_files`.

use std::{fs, os::unix::fs::symlink, process::Command};

use ovms::{
    custom_node::{HEADER, Library, Node},
    tensor::{Dim, PartialShape, Tensor, npy},
};

use crate::support::{
    cli, fixture,
    handlers::test_handlers,
    nodes::{floats, output},
    repository,
};

#[test]
fn a_custom_node_is_written_builds_and_works() {
    let folder = repository::folder();
    let new = ["pipeline", "new", "--custom-node", "my-node", "."];
    let run = cli::run(cli::command().current_dir(folder.path()).args(new));
    assert_eq!(run.failure(), "exit 0\n");
    let header = fs::read_to_string(folder.path().join("custom_node_interface.h"));
    assert_eq!(header.unwrap(), HEADER);
    let made = cli::run(Command::new("make").current_dir(folder.path()));
    assert_eq!(made.code, Some(0), "{}", made.stderr);

    let library = Library::open("my-node", &folder.path().join("libmy-node.so")).unwrap();
    let node = Node::initialize(&library, [("scale", "2.5")]).unwrap();
    let inputs = node.inputs().unwrap();
    assert_eq!(inputs[0].name, "input");
    assert_eq!(inputs[0].shape, PartialShape(vec![Dim::Any; 2]));
    assert_eq!(node.outputs().unwrap()[0].name, "output");
    let input = floats(&[2, 2], &[1.0, 2.0, -3.0, 0.0]);
    let outputs = node.execute(&[("input", &input)]).unwrap();
    assert_eq!(
        ovms::tensor::named(&outputs, "output").unwrap().shape(),
        [2, 2]
    );
    assert_eq!(output(&outputs, "output"), [2.5, 5.0, -7.5, 0.0]);
    let empty = node.execute(&[("input", &floats(&[0, 2], &[]))]).unwrap();
    assert_eq!(
        ovms::tensor::named(&empty, "output").unwrap().shape(),
        [0, 2]
    );
    assert!(node.execute(&[("other", &input)]).is_err());
    assert!(Node::initialize(&library, [("scale", "much")]).is_err());
}

#[test]
fn a_python_node_is_written_checked_run_and_tested() {
    let folder = repository::folder();
    let ovms = |args: &[&str]| cli::run(cli::command().current_dir(folder.path()).args(args));
    // One is called as a module of Python, for which its file must not be taken.
    for (name, handler) in [("my-node", "my-node.py"), ("json", "json_node.py")] {
        let run = ovms(&["pipeline", "new", "--python-node", name]);
        assert_eq!(run.failure(), "exit 0\n");
        assert!(
            run.text().starts_with(&format!("wrote {name}/{handler}\n")),
            "{}",
            run.text()
        );
        let config = format!("{name}/config.json");
        let run = ovms(&["pipeline", "check", &config]);
        let none = format!("pipeline `{name}_pipeline`: no errors\n");
        assert_eq!((run.text(), run.failure()), (none, "exit 0\n".to_owned()));
        let input = ["-i", "numbers:FP32=[[1,2],[-3,0]]", "--output", "json"];
        let run = ovms(&[&["pipeline", "run", &config], &input[..]].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let output = &report["outputs"][0];
        assert_eq!(output["name"], "numbers", "{report}");
        assert_eq!(output["datatype"], "FP32", "{report}");
        assert_eq!(output["shape"], serde_json::json!([2, 2]), "{report}");
        let ends = serde_json::json!([output["min"], output["max"]]);
        assert_eq!(ends, serde_json::json!([-6.0, 4.0]), "{report}");
        let wrong = ["pipeline", "run", &config, "-i", "numbers:INT32=[1]"];
        let run = ovms(&wrong);
        assert_eq!(run.code, Some(1), "{}", run.text());
        let text = "ValueError: input: expected FP32, got INT32";
        assert!(run.stderr.contains(text), "{}", run.stderr);
        test_handlers(&folder.path().join(name));
    }
}

/// Returns what the probabilities of `ocr_rec` say: the likeliest class of each column, where what is repeated
/// counts once and class 0 is nothing.
fn texts(chars: &Tensor) -> Vec<String> {
    let reference = reference();
    let charset: Vec<char> = reference["charset"].as_str().unwrap().chars().collect();
    let floats = chars.data().chunks_exact(4);
    let floats: Vec<f32> = floats
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let [columns, classes] = chars.shape()[2..] else {
        panic!("{:?}", chars.shape());
    };
    let lines = floats.chunks_exact(columns * classes).map(|line| {
        let best = line.chunks_exact(classes).map(|column| {
            let classes = column.iter().enumerate();
            classes.max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0
        });
        let mut best: Vec<usize> = best.collect();
        best.dedup();
        let known = best.into_iter().filter(|class| *class > 0);
        known.map(|class| charset[class - 1]).collect()
    });
    lines.collect()
}

fn reference() -> serde_json::Value {
    let path = fixture("expected/ocr.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn expected_texts() -> Vec<String> {
    let reference = reference();
    let lines = reference["lines"].as_array().unwrap();
    let texts = lines.iter().map(|line| line["text"].as_str().unwrap());
    texts.map(str::to_owned).collect()
}

#[test]
fn a_detection_is_written_checked_run_and_tested() {
    let folder = repository::folder();
    symlink(fixture("models"), folder.path().join("models")).unwrap();
    let ovms = |args: &[&str]| cli::run(cli::command().current_dir(folder.path()).args(args));
    let new = ["pipeline", "new", "detection", "page"];
    let models = ["models/ocr_det", "models/ocr_rec", "nodes/page"];
    let run = ovms(&[&new[..], &models[..]].concat());
    assert_eq!(run.failure(), "exit 0\n");
    insta::assert_snapshot!(run.text(), @"
    wrote nodes/page/config.json
    wrote nodes/page/crops.py
    wrote nodes/page/test_crops.py
    wrote nodes/page/pyovms.pyi
    next: ovms pipeline check nodes/page/config.json
          ovms pipeline run nodes/page/config.json -i @IMAGE.png
          ovms graph stubs
          python3 -m unittest discover nodes/page
          ovms serve --config-path nodes/page/config.json --port 9000
          ovms infer page -i @IMAGE.png
    ");
    // A folder beside another one need not be there either.
    let above = ["models/ocr_det", "models/ocr_rec", "nodes/../more/page"];
    assert_eq!(ovms(&[&new[..], &above[..]].concat()).failure(), "exit 0\n");
    let config = "nodes/page/config.json";
    let run = ovms(&["pipeline", "check", config]);
    // The types are those of the node's params, which the handler alone knows.
    let note = "  note: the Python node `crops` declares no types and shapes, so they were not compared with the \
                inputs that take them: `crop` of `classify`, FP32 (1,3,48,320) for each part; \
                `ovms pipeline run` shows them\n";
    let none = format!("pipeline `page`: no errors\n{note}");
    assert_eq!((run.text(), run.failure()), (none, "exit 0\n".to_owned()));
    assert_eq!(ovms(&["pipeline", "show", config]).code, Some(0));
    let page = fixture("images/ocr_page.png");
    let input = format!("@{}", page.display());
    let parts = |args: &[&str]| {
        let run = ovms(&[&["pipeline", "run", config, "--output", "json"], args].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let outputs = report["outputs"].as_array().unwrap();
        let shape = |output: &serde_json::Value| format!("{}: {}", output["name"], output["shape"]);
        outputs.iter().map(shape).collect::<Vec<_>>().join(", ")
    };
    // The twelve lines of the page.
    insta::assert_snapshot!(parts(&["-i", &input]), @r#""boxes": [12,1,4], "chars": [12,1,80,71]"#);
    insta::assert_snapshot!(parts(&["--zeros"]), @r#""boxes": [0,1,4], "chars": [0,1,80,71]"#);
    test_handlers(&folder.path().join("nodes/page"));
    // Crops keep their proportions, so that the second model reads what most lines say: of stretched ones it reads three.
    let run = ["pipeline", "run", config, "-i", &input];
    let run = ovms(&[&run[..], &["--save-intermediate", "saved"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let chars = fs::read(folder.path().join("saved/response.chars.npy")).unwrap();
    let chars = npy::read(&chars.into()).unwrap();
    let (texts, expected) = (texts(&chars), expected_texts());
    let read = texts.iter().filter(|text| expected.contains(text)).count();
    assert!(read >= 8, "{read} of {expected:?}: {texts:?}");
    // Nothing is written over.
    let run = ovms(&[&new[..], &models[..]].concat());
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("config.json already exists"),
        "{}",
        run.stderr
    );
    // A chain of both says what goes between.
    let chain = ["pipeline", "new", "chain", "page"];
    let run = ovms(&[&chain[..], &models[..2]].concat());
    assert_eq!(run.code, Some(1));
    let between = "its crops, use `ovms pipeline new detection`";
    assert!(run.stderr.contains(between), "{}", run.stderr);
    // A classifier alone finds nothing.
    let run = ovms(&[&new[..], &["models/classifier", "models/ocr_rec"]].concat());
    assert_eq!(run.code, Some(1));
    insta::assert_snapshot!(run.stderr, @"
    error: the model `classifier` has no output that says where things are
      it gives scores: FP32 (1,10)
    hint: expected detections (1,1,N,7), yolo (1,4+classes,N), rows (N,5), or a map (1,1,H,W); `ovms pipeline new --python-node NAME` writes a node for others
    ");
}
