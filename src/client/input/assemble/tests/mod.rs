mod columns;
mod filling;
mod remarks;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Content, Given, Inputs, RemarkListener, WholeInput};
use crate::{
    client::{
        input::{Argument, Fill, ImageOptions},
        message::{ModelMetadata, TensorMetadata},
    },
    error::chain,
    tensor::{DataType, ShapeText, Tensor, TensorMap, npy, values::write_json},
};

/// Name, datatype and shape of an input.
type Listed<'a> = (&'a str, &'a str, &'a [i64]);

fn model(inputs: &[Listed<'_>]) -> ModelMetadata {
    ModelMetadata {
        name: "m".to_owned(),
        versions: vec!["1".to_owned()],
        platform: String::new(),
        properties: Default::default(),
        inputs: inputs
            .iter()
            .map(|(name, datatype, shape)| {
                TensorMetadata::new((*name).to_owned(), (*datatype).to_owned(), shape)
            })
            .collect(),
        outputs: Vec::new(),
    }
}

/// Each tensor as `name datatype shape elements`.
fn text(tensors: &TensorMap) -> String {
    let line = |(name, tensor): &(String, Tensor)| {
        let mut out = format!("{name} {} {:?} ", tensor.dtype(), tensor.shape()).into_bytes();
        write_json(tensor, &mut out);
        String::from_utf8(out).unwrap()
    };
    tensors.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn load(arguments: &[&str], fill: Option<Fill>, stdin: &str) -> Inputs {
    let arguments = arguments
        .iter()
        .map(|text| text.parse::<Argument>().unwrap());
    let mut stdin = stdin.as_bytes();
    Inputs::load(
        arguments.collect(),
        fill,
        ImageOptions::default(),
        &mut stdin,
    )
    .unwrap()
}

fn assemble(arguments: &[&str], model: &ModelMetadata) -> Result<String, String> {
    let tensors = load(arguments, None, "[7]").tensors(model);
    tensors.map(|it| text(&it)).map_err(|it| chain(&it))
}

/// Inputs of one content, without a file.
fn content(name: Option<&str>, dtype: Option<DataType>, content: Content) -> Inputs {
    let argument = Argument {
        name: name.map(str::to_owned),
        dtype,
        ..Argument::default()
    };
    let given = Given { argument, content };
    Inputs {
        given: vec![given],
        fill: None,
        image: ImageOptions::default(),
        remarks: RemarkListener::default(),
        is_one_of_many: false,
        is_part: false,
        sample_rate: None,
    }
}

fn array(dtype: DataType, shape: &[usize]) -> Tensor {
    let bytes = shape.iter().product::<usize>() * dtype.size().unwrap();
    Tensor::new(dtype, shape.to_vec(), vec![0; bytes].into()).unwrap()
}

#[test]
fn values_take_datatype_and_shape_of_the_model() {
    let floats: &[Listed<'_>] = &[("x", "FP32", &[1, 2])];
    let text: &[Listed<'_>] = &[("t", "BYTES", &[-1])];
    let rows: &[(&[&str], &[Listed<'_>], &str)] = &[
        (&["x=[1,2]"], floats, "x FP32 [1, 2] [1.0,2.0]"),
        (&["[[1,2]]"], floats, "x FP32 [1, 2] [1.0,2.0]"),
        (&["-"], &[("x", "INT8", &[1])], "x INT8 [1] [7]"),
        (&["5"], &[("x", "INT64", &[])], "x INT64 [] [5]"),
        (&[r#"{"x":[NaN,2]}"#], floats, "x FP32 [1, 2] [NaN,2.0]"),
        (&["x:INT32=[1,2]"], floats, "x INT32 [1, 2] [1,2]"),
        (&["x::2,1=[1,2]"], floats, "x FP32 [2, 1] [1.0,2.0]"),
        (&["t=hello"], text, r#"t BYTES [1] ["hello"]"#),
        (&["t=5"], text, r#"t BYTES [1] ["5"]"#),
        (&[r#"["a","b"]"#], text, r#"t BYTES [2] ["a","b"]"#),
        // Strings for numbers are the server's to take apart.
        (&["x:BYTES=hi"], floats, r#"x BYTES [1] ["hi"]"#),
        // In the model's order, and those it does not list at the end.
        (
            &["id:UINT64=[9]", "b=[2]", "a=[true]"],
            &[("a", "BOOL", &[1]), ("b", "UINT8", &[1])],
            "a BOOL [1] [true]; b UINT8 [1] [2]; id UINT64 [1] [9]",
        ),
        // A server that does not report the datatype.
        (
            &["g:INT16=[[1],[2]]"],
            &[("g", "", &[])],
            "g INT16 [2, 1] [1,2]",
        ),
    ];
    for (arguments, inputs, expected) in rows {
        assert_eq!(
            assemble(arguments, &model(inputs)).as_deref(),
            Ok(*expected),
            "{arguments:?}"
        );
    }
}

#[test]
fn what_the_model_does_not_take_is_refused_by_name() {
    let two: &[Listed<'_>] = &[("a", "FP32", &[1, 2]), ("b", "INT64", &[-1, 3])];
    let rows: &[(&[&str], &str)] = &[
        (
            &["[1]"],
            "found a value without a name, the model has 2 inputs",
        ),
        (&["c=[1]", "a=[1]"], "the model has no input `c`"),
        (&["a=[1,2]", "a=[1,2]"], "found input `a` twice"),
        (&["a=[1,2]"], "found no value for input `b` (INT64 (-1,3))"),
        (
            &["a=[1,2]", "b=[1]"],
            "cannot use the value given for input `b`: cannot tell how to fill shape \
             (-1,3) with 1 element",
        ),
        (
            &["a=[1]", "b=[1,2,3]"],
            "cannot use the value given for input `a`: found 1 element, shape (1,2) takes 2",
        ),
        (
            &["a=", "b=[1,2,3]"],
            "cannot use the value given for input `a`: found nothing, and nothing to fill it with",
        ),
        (
            &["a=x", "b=[1,2,3]"],
            "cannot use the value given for input `a`: expected value at line 1 column 1",
        ),
    ];
    for (arguments, expected) in rows {
        assert_eq!(assemble(arguments, &model(two)).unwrap_err(), *expected);
    }
    // Graphs have inputs without types.
    let of_graph = model(&[("a", "INVALID", &[]), ("b", "INVALID", &[])]);
    assert_eq!(
        assemble(&["a=1"], &of_graph).unwrap_err(),
        "found no value for input `b` (type unknown)"
    );
    let unreported = model(&[("g", "", &[])]);
    let bytes = Content::Binary(vec![1].into());
    let error = content(None, None, bytes).tensors(&unreported).unwrap_err();
    assert_eq!(
        chain(&error),
        "cannot use the value given for input `g`: its datatype is unknown"
    );
}

#[test]
fn values_give_the_type_where_nothing_else_does() {
    let unreported = model(&[("g", "INVALID", &[])]);
    for (argument, expected) in [
        ("[1]", "g FP32 [1] [1.0]"),
        ("[[1, 2.5], [NaN, -3]]", "g FP32 [2, 2] [1.0,2.5,NaN,-3.0]"),
        ("5", "g FP32 [1] [5.0]"),
        ("true", "g BOOL [1] [true]"),
        ("[[false]]", "g BOOL [1, 1] [false]"),
        ("g=hello", r#"g BYTES [1] ["hello"]"#),
        ("g=\"7\"", r#"g BYTES [1] ["7"]"#),
        ("g=5 apples", r#"g BYTES [1] ["5 apples"]"#),
        (r#"["a", "b"]"#, r#"g BYTES [2] ["a","b"]"#),
        ("g:INT64=5", "g INT64 [1] [5]"),
        ("g::2,1=[1,2]", "g FP32 [2, 1] [1.0,2.0]"),
    ] {
        assert_eq!(
            assemble(&[argument], &unreported).as_deref(),
            Ok(expected),
            "{argument}"
        );
    }
    assert_eq!(
        assemble(&["[1, "], &unreported).unwrap_err(),
        "cannot use the value given for input `g`: EOF while parsing a value at line 1 column 4"
    );
    let file = content(None, None, Content::Text(bytes::Bytes::from("two words")));
    let tensors = file.tensors(&unreported).unwrap();
    assert_eq!(
        crate::tensor::named(&tensors, "g").unwrap().dtype(),
        DataType::String
    );
}

#[test]
fn requests_of_streams_have_the_inputs_that_are_given() {
    let two = model(&[("a", "FP32", &[1]), ("b", "FP32", &[1])]);
    let inputs = |arguments: &[&str]| {
        let given = load(arguments, None, "").given(&two);
        given.map(|it| text(&it)).map_err(|it| chain(&it))
    };
    assert_eq!(inputs(&["b=1"]), Ok("b FP32 [1] [1.0]".to_owned()));
    assert_eq!(inputs(&[]), Ok(String::new()));
    assert_eq!(
        inputs(&["c=1"]),
        Err("the model has no input `c`".to_owned())
    );
}

#[test]
fn arrays_take_the_type_of_the_model_and_who_listens_hears_of_it_once() {
    let floats = model(&[("x", "FP32", &[-1, 2])]);
    let doubles = || Content::Array(array(DataType::F64, &[3, 2]));
    let listened = |inputs: Inputs| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        let made = inputs.tensors(&floats).map(|it| text(&it));
        // Those of the next request are the same ones.
        let _ = inputs.clone().given(&floats);
        let notes = notes.lock().join("; ");
        (made.map_err(|error| chain(&error)), notes)
    };
    let zeros = Ok("x FP32 [3, 2] [0.0,0.0,0.0,0.0,0.0,0.0]".to_owned());
    let (made, notes) = listened(content(None, None, doubles()));
    assert_eq!(made, zeros);
    assert_eq!(notes, "input `x` was given FP64; sent as FP32");
    // Over any wire the same: of an archive, and of the answer of another command.
    let named = vec![("x".to_owned(), array(DataType::F64, &[3, 2]))];
    for several in [Content::Arrays(named.clone()), Content::Outputs(named)] {
        let (made, notes) = listened(content(None, None, several));
        assert_eq!(made, zeros);
        assert_eq!(notes, "input `x` was given FP64; sent as FP32");
    }
    // What was asked for is no news.
    let (made, notes) = listened(content(None, Some(DataType::F32), doubles()));
    assert_eq!((made, notes.as_str()), (zeros, ""));
    let whole = content(None, None, doubles()).whole(&floats).unwrap();
    assert_eq!(whole[0].tensor.dtype(), DataType::F32);
    // Another kind of numbers, and one that does not fit.
    let bytes = Content::Array(array(DataType::U8, &[3, 2]));
    let (made, notes) = listened(content(None, None, bytes));
    let value = "cannot use the value given for input `x`: ";
    let error = format!("{value}found elements of UINT8, expected FP32");
    assert_eq!((made, notes.as_str()), (Err(error), ""));
    let large = [1.0_f64, 1e300].map(f64::to_le_bytes).concat();
    let large = Tensor::new(DataType::F64, vec![1, 2], large.into()).unwrap();
    let (made, notes) = listened(content(None, None, Content::Array(large)));
    let error = format!("{value}1e300 of FP64 does not fit FP32");
    assert_eq!((made, notes.as_str()), (Err(error), ""));
}

#[test]
fn a_pattern_stands_for_its_files_in_the_order_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| std::fs::write(folder.path().join(name), name).unwrap();
    // The server decodes them, so that they are sent as they are.
    let photos = model(&[("x", "BYTES", &[-1])]);
    let plain = |text: String| text.replace(&folder.path().display().to_string(), "DIR");
    let of = |pattern: &str| {
        let argument: Argument = format!("x=@{}/{pattern}", folder.path().display())
            .parse()
            .unwrap();
        let images = ImageOptions::default();
        let inputs = Inputs::load(vec![argument], None, images, &mut &b""[..]);
        let tensors = inputs.and_then(|inputs| inputs.tensors(&photos));
        tensors.map(|it| text(&it)).map_err(|it| plain(chain(&it)))
    };
    let error = of("*.png").unwrap_err();
    assert_eq!(error, "no file matches `DIR/*.png`");
    for name in ["b.png", "a.png", "c.png", ".d.png"] {
        write(name);
    }
    std::fs::create_dir(folder.path().join("e.png")).unwrap();
    let batch = r#"x BYTES [3] ["a.png","b.png","c.png"]"#;
    assert_eq!(of("*.png"), Ok(batch.to_owned()));
    assert_eq!(of("**/*.png"), Ok(batch.to_owned()));
    let two = r#"x BYTES [2] ["b.png","c.png"]"#;
    assert_eq!(of("[b-c].png"), Ok(two.to_owned()));
    // One that is a name is that file.
    write("*.png");
    assert_eq!(of("*.png"), Ok(r#"x BYTES [1] ["*.png"]"#.to_owned()));
    let error = of("[b-c.png").unwrap_err();
    assert!(
        error.starts_with("cannot use the pattern `DIR/[b-c.png`: "),
        "{error}"
    );
}

#[test]
fn arrays_of_a_pattern_are_no_batch() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.npy", "b.npy"] {
        let mut file = Vec::new();
        npy::write(&array(DataType::F32, &[1]), &mut file).unwrap();
        std::fs::write(folder.path().join(name), file).unwrap();
    }
    let argument = format!("x=@{}/*.npy", folder.path().display());
    let error = load(&[&argument], None, "").tensors(&model(&[("x", "FP32", &[1])]));
    assert_eq!(chain(&error.unwrap_err()), "found input `x` twice");
    let one = format!("x=@{}/a*.npy", folder.path().display());
    let made = load(&[&one], None, "").tensors(&model(&[("x", "FP32", &[1])]));
    assert_eq!(text(&made.unwrap()), "x FP32 [1] [0.0]");
}

#[test]
fn a_conversion_is_reported_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let mut file = Vec::new();
    npy::write(&array(DataType::I64, &[2]), &mut file).unwrap();
    std::fs::write(&path, file).unwrap();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notes);
    let argument = format!("@{}", path.display());
    let inputs = load(&[&argument], None, "");
    let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
    let made = inputs.tensors(&model(&[("x", "INT32", &[2])])).unwrap();
    assert_eq!(text(&made), "x INT32 [2] [0,0]");
    let note = notes.lock().join("; ");
    let note = note.replace(&folder.path().display().to_string(), "DIR");
    assert_eq!(note, "DIR/a.npy has INT64; sent as INT32 for input `x`");
}

#[test]
fn archives_give_inputs_by_the_names_of_their_arrays() {
    let two = model(&[("a", "UINT8", &[1]), ("b", "UINT8", &[1])]);
    let named = |name: &str| (name.to_owned(), array(DataType::U8, &[1]));
    let both = vec![named("b"), named("a")];
    let tensors = content(None, None, Content::Arrays(both.clone())).tensors(&two);
    assert_eq!(text(&tensors.unwrap()), "a UINT8 [1] [0]; b UINT8 [1] [0]");

    let one = model(&[("x", "UINT8", &[1])]);
    let only = Content::Arrays(vec![named("arr_0")]);
    assert_eq!(
        text(&content(None, None, only).tensors(&one).unwrap()),
        "x UINT8 [1] [0]"
    );
    let error = content(Some("x"), None, Content::Arrays(both))
        .tensors(&one)
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "cannot use the value given for input `x`: found the arrays b, a, none of the input's name"
    );
}

#[test]
fn text_and_binary_files_fill_the_models_shape() {
    let file = |text: &'static str| Bytes::from_static(text.as_bytes());
    let numbers = model(&[("x", "INT16", &[2, 2])]);
    let strings = model(&[("x", "BYTES", &[-1])]);
    let row = model(&[("x", "FP32", &[-1])]);
    for (content_of, model, expected) in [
        (
            Content::Text(file("1, 2\n-3\t4\n")),
            &numbers,
            "x INT16 [2, 2] [1,2,-3,4]",
        ),
        (
            Content::Rows(file("1, 2\r\n\n-3,4\n")),
            &numbers,
            "x INT16 [2, 2] [1,2,-3,4]",
        ),
        (
            Content::Rows(file("1\n2\n3\n4\n")),
            &numbers,
            "x INT16 [2, 2] [1,2,3,4]",
        ),
        (
            Content::Rows(file("1,2,3\n4,5,6\n")),
            &numbers,
            "x INT16 [2, 3] [1,2,3,4,5,6]",
        ),
        (Content::Rows(file("1,2")), &row, "x FP32 [2] [1.0,2.0]"),
        (
            Content::Rows(file("a,b\n")),
            &strings,
            r#"x BYTES [1] ["a,b\n"]"#,
        ),
        (
            Content::Text(file("a b\n")),
            &strings,
            r#"x BYTES [1] ["a b\n"]"#,
        ),
        (
            Content::Binary(Bytes::from_static(&[1, 0, 2, 0, 3, 0, 4, 0])),
            &numbers,
            "x INT16 [2, 2] [1,2,3,4]",
        ),
        (
            Content::Binary(Bytes::from_static(&[1, 0, 0, 0, b'a', 0, 0, 0, 0])),
            &strings,
            r#"x BYTES [2] ["a",""]"#,
        ),
    ] {
        assert_eq!(
            text(&content(None, None, content_of).tensors(model).unwrap()),
            expected
        );
    }
    for (content_of, model, expected) in [
        (
            Content::Text(file("1 x")),
            &numbers,
            "found `x`, expected a value of INT16",
        ),
        (
            Content::Rows(file("2019,height\n1,2\n")),
            &numbers,
            "line 1: found `height`, expected a value of INT16; a line with the names of columns has to go: `tail -n +2 \
             FILE.csv > rows.csv`",
        ),
        (
            Content::Rows(file("1,2\n3\n")),
            &numbers,
            "line 2 has 1 value, the first one 2",
        ),
        (
            Content::Binary(Bytes::from_static(&[1, 0, 2])),
            &numbers,
            "found 3 bytes, which is not a whole number of elements of INT16",
        ),
        (
            Content::Binary(Bytes::from_static(&[9, 0, 0, 0, b'a'])),
            &strings,
            "found 5 bytes, which is not a whole number of elements of BYTES",
        ),
    ] {
        let error = content(None, None, content_of).tensors(model).unwrap_err();
        assert_eq!(
            chain(&error),
            format!("cannot use the value given for input `x`: {expected}")
        );
    }
}

#[test]
fn what_is_not_given_is_filled() {
    let model = model(&[("a", "FP32", &[-1, 2]), ("b", "UINT8", &[2])]);
    let zeros = |arguments: &[&str]| {
        let tensors = load(arguments, Some(Fill::Zeros), "")
            .tensors(&model)
            .unwrap();
        text(&tensors)
    };
    assert_eq!(zeros(&[]), "a FP32 [1, 2] [0.0,0.0]; b UINT8 [2] [0,0]");
    assert_eq!(
        zeros(&["b=[1,2]", "a::2,2="]),
        "a FP32 [2, 2] [0.0,0.0,0.0,0.0]; b UINT8 [2] [1,2]"
    );
    assert!(load(&[], None, "").is_empty());
}

#[test]
fn standard_input_is_read_once() {
    let loaded = |arguments: &[&str], mut stdin: &[u8]| {
        let arguments = arguments.iter().map(|text| text.parse().unwrap());
        let loaded = Inputs::load(
            arguments.collect(),
            None,
            ImageOptions::default(),
            &mut stdin,
        );
        loaded.map(drop).map_err(|error| error.to_string())
    };
    let twice = ["a=-", "b=-"];
    assert_eq!(
        loaded(&twice, b"[1]").unwrap_err(),
        "found `-` for two inputs, standard input can be read once"
    );
    assert_eq!(
        loaded(&twice, b" \n").unwrap_err(),
        "standard input is empty"
    );
    assert_eq!(loaded(&twice, ANSWER.as_bytes()), Ok(()));
    assert_eq!(
        loaded(&["a=-"], b"\xff\0").unwrap_err(),
        "standard input is neither text nor a .npy, .npz, .png, .jpg or .wav file"
    );
    for bytes in [&b"RIFF\x10\0\0\0WEBPVP8 "[..], b"GIF89a\x01\0"] {
        let error = loaded(&["a=-"], bytes).unwrap_err();
        assert!(
            error.ends_with("whose format is not read, expected a PNG or JPEG image"),
            "{error}"
        );
    }
    assert_eq!(loaded(&["a=@-.bin"], b"\xff\0"), Ok(()));
    for (argument, stdin, expected) in [
        ("a=-:z", ANSWER, "standard input has no output `z`"),
        ("a=-:z", "[1]", "standard input has no output `z`"),
        (
            "a=-",
            &ANSWER[..ANSWER.len() / 2],
            "cannot use the answer of standard input",
        ),
    ] {
        let error = loaded(&[argument], stdin.as_bytes()).unwrap_err();
        assert_eq!(error, expected, "{argument}");
    }
}

/// Response as written by another command.
const ANSWER: &str = r#"{"model_name":"m","model_version":"1","id":"","outputs":[
    {"name":"y","datatype":"FP32","shape":[1,2],"data":[1.5,null],"not_finite":[[1,"NaN"]]},
    {"name":"b","datatype":"INT8","shape":[1],"data":[-7]}]}"#;

#[test]
fn the_outputs_of_an_answer_are_inputs() {
    let two = model(&[("a", "FP32", &[1, 2]), ("b", "INT8", &[1])]);
    let one = model(&[("x", "FP32", &[1, 2])]);
    let of = |arguments: &[&str], stdin: &str, model: &ModelMetadata| {
        let tensors = load(arguments, None, stdin).tensors(model);
        tensors.map(|it| text(&it)).map_err(|it| chain(&it))
    };
    let good = |text: &str| Ok(text.to_owned());
    assert_eq!(
        of(&["a=-:y", "b=-"], ANSWER, &two),
        good("a FP32 [1, 2] [1.5,NaN]; b INT8 [1] [-7]")
    );
    // What the model does not take is left out.
    assert_eq!(
        of(&["-", "a=[1,2]"], ANSWER, &two),
        good("a FP32 [1, 2] [1.0,2.0]; b INT8 [1] [-7]")
    );
    assert_eq!(of(&["-:y"], ANSWER, &one), good("x FP32 [1, 2] [1.5,NaN]"));
    assert_eq!(
        of(&["x:FP64:2=-:y"], ANSWER, &one),
        good("x FP64 [2] [1.5,NaN]")
    );
    let only = ANSWER.replace(
        r#""name":"b","datatype":"INT8""#,
        r#""name":"b","datatype":"own""#,
    );
    assert_eq!(of(&["-"], &only, &one), good("x FP32 [1, 2] [1.5,NaN]"));
    let value = "cannot use the value given for input `x`: ";
    for (argument, stdin, expected) in [
        (
            "x=-",
            ANSWER,
            "found the outputs y, b, none of the input's name",
        ),
        (
            "-",
            ANSWER,
            "found the outputs y, b, none of the input's name",
        ),
        ("x=-:b", ANSWER, "found elements of INT8, expected FP32"),
        (
            "-",
            r#"{"error":"no such model"}"#,
            "the previous command failed: no such model",
        ),
        (
            "x=-",
            r#"{"model_name":"m","model_version":"1","id":"","output":"y","top":[]}"#,
            "found a ranking, expected an answer with outputs",
        ),
    ] {
        let error = of(&[argument], stdin, &one).unwrap_err();
        assert_eq!(error, format!("{value}{expected}"), "{argument}");
    }
}

#[test]
fn files_are_reported_by_their_first_bytes() {
    let model = model(&[("x", "INT8", &[2])]);
    let tensor = Tensor::new(DataType::I8, vec![2], vec![1, 2].into()).unwrap();
    let mut file = Vec::new();
    npy::write(&tensor, &mut file).unwrap();
    for argument in ["x=-", "-", "x=@-.npy"] {
        let arguments = vec![argument.parse().unwrap()];
        let inputs = Inputs::load(
            arguments,
            None,
            ImageOptions::default(),
            &mut file.as_slice(),
        );
        let tensors = inputs.unwrap().tensors(&model).unwrap();
        assert_eq!(text(&tensors), "x INT8 [2] [1,2]", "{argument}");
    }
    let arguments = vec!["x:INT8:2=@-.bin".parse().unwrap()];
    let inputs = Inputs::load(arguments, None, ImageOptions::default(), &mut &[3u8, 4][..]);
    let tensors = inputs.unwrap().tensors(&model).unwrap();
    assert_eq!(text(&tensors), "x INT8 [2] [3,4]");
}

/// Each input as its shape and that of a step, if it may be one of steps.
fn whole(inputs: &Inputs, model: &ModelMetadata) -> String {
    let inputs = inputs.whole(model).unwrap();
    let line = |input: &WholeInput| {
        let shape = ShapeText(input.tensor.shape());
        match &input.step {
            Some(step) => format!("{} {shape} of {step}", input.name),
            None => format!("{} {shape}", input.name),
        }
    };
    inputs.iter().map(line).collect::<Vec<_>>().join("; ")
}

#[test]
fn arrays_of_steps_keep_their_shape() {
    let one: &[Listed<'_>] = &[("x", "FP32", &[1, 2])];
    let rows: &[(&[&str], &[Listed<'_>], &str)] = &[
        (&["x=[[1,2],[3,4],[5,6]]"], one, "x (3,2) of (1,2)"),
        (&["x=[[[1,2]],[[3,4]]]"], one, "x (2,1,2) of (1,2)"),
        (&["x::3,1,2=[1,2,3,4,5,6]"], one, "x (3,1,2) of (1,2)"),
        (&["x::9,2="], one, "x (9,2) of (1,2)"),
        // What fills the model's shape has it.
        (&["x=[1,2]"], one, "x (1,2)"),
        (&["x="], one, "x (1,2)"),
        (&["x=[1,2,3]"], one, "x (3) of (1,2)"),
        (&["t=some text"], &[("t", "BYTES", &[1])], "t (1)"),
        (
            &["t=[\"a\",\"b\"]"],
            &[("t", "BYTES", &[1])],
            "t (2) of (1)",
        ),
        // For the server to take apart.
        (&["x:BYTES=[\"a\",\"b\"]"], one, "x (2)"),
        (&["x=[1,2]", "y:INT8:1=[1]"], one, "x (1,2); y (1)"),
    ];
    for (arguments, inputs, expected) in rows {
        let loaded = load(arguments, Some(Fill::Zeros), "");
        assert_eq!(whole(&loaded, &model(inputs)), *expected, "{arguments:?}");
    }
    let array = content(
        Some("x"),
        None,
        Content::Array(array(DataType::F32, &[5, 1, 2])),
    );
    assert_eq!(whole(&array, &model(one)), "x (5,1,2) of (1,2)");
}

#[test]
fn a_line_gives_an_input_or_several() {
    let two = model(&[("x", "FP32", &[1, 2]), ("y", "INT8", &[1])]);
    let given = load(&["y=[7]"], None, "");
    let of_x = "x=-".parse::<Argument>().unwrap();
    let any = "-".parse::<Argument>().unwrap();
    for (inputs, argument, line, expected) in [
        (
            &given,
            &of_x,
            "[1,2]\n",
            Ok("x FP32 [1, 2] [1.0,2.0]; y INT8 [1] [7]"),
        ),
        (
            &given,
            &any,
            r#"{"x":[1,2]}"#,
            Ok("x FP32 [1, 2] [1.0,2.0]; y INT8 [1] [7]"),
        ),
        (
            &given,
            &any,
            r#"{"x":[1,2],"y":[1]}"#,
            Err("found input `y` twice"),
        ),
        (
            &given,
            &any,
            "[1,2]",
            Err("found a value without a name, the model has 2 inputs"),
        ),
    ] {
        let inputs = inputs.with_json(argument, line.to_owned()).unwrap();
        let tensors = inputs.tensors(&two);
        let found = tensors.map(|it| text(&it)).map_err(|it| chain(&it));
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(found, expected, "{line}");
    }
}
