//! Strings as inputs and outputs: tensors of strings, and rows of bytes that represent strings.

use serde_json::json;

use crate::support::{
    Server,
    bytes::{ANY_BYTES, FORMS, Form, Output, Served, framed},
    grpc,
    http::{JSON_LENGTH, get, post, send},
    infer::{APIS, TFS_APIS, infer},
    ir, repository,
};

/// Multi-byte characters, an empty string, a line break, and lengths around C++'s inline limit.
const TEXTS: [&[u8]; 5] = [
    "žluťoučký kůň".as_bytes(),
    b"",
    b"line\n",
    b"exactly 15 byte",
    b"and sixteen bytes",
];

fn strings(list: &[&[u8]]) -> Output {
    Output {
        datatype: "BYTES".to_owned(),
        shape: vec![i64::try_from(list.len()).unwrap()],
        data: framed(list),
    }
}

#[test]
fn strings_come_back_in_every_form() {
    let served = Served::start("passthrough_string", "in");
    for form in FORMS {
        assert_eq!(served.ask(form, &[5], &TEXTS), Ok(strings(&TEXTS)));
        assert_eq!(
            served.ask(form, &[1], &TEXTS[..1]),
            Ok(strings(&TEXTS[..1]))
        );
        assert_eq!(served.ask(form, &[0], &[]), Ok(strings(&[])), "{form:?}");
    }
}

/// Serves a model of strings with `rank` dimensions.
fn of_rank(rank: usize, flags: &[&str]) -> (tempfile::TempDir, Served) {
    let folder = repository::folder();
    ir::strings(folder.path(), rank);
    let server = Server::begin("strings", folder.path(), flags);
    server.wait_ready();
    let grpc = grpc::Grpc::connect(&server);
    let served = Served {
        server,
        grpc,
        model: "strings",
        input: "in",
    };
    (folder, served)
}

#[test]
fn strings_have_any_number_of_dimensions() {
    let six: [&[u8]; 6] = [b"a", b"", b"c\n", TEXTS[0], TEXTS[3], TEXTS[4]];
    for (shapes, given, answer) in [
        (vec![vec![]], r#"in="a word""#, json!([[], ["a word"]])),
        (
            vec![vec![2, 3], vec![3, 2], vec![0, 3]],
            r#"[["a",""],["c","ž"]]"#,
            json!([[2, 2], ["a", "", "c", "ž"]]),
        ),
        (
            vec![vec![1, 2, 3], vec![6, 1, 1]],
            r#"[[["a"],["b"],["c"]]]"#,
            json!([[1, 3, 1], ["a", "b", "c"]]),
        ),
        (
            vec![vec![1, 3, 1, 2]],
            r#"[[[["a"]],[["b"]]]]"#,
            json!([[1, 2, 1, 1], ["a", "b"]]),
        ),
    ] {
        let (_folder, served) = of_rank(shapes[0].len(), &[]);
        for shape in shapes {
            let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
            let given = &six[..count];
            for form in FORMS {
                let answer = Output {
                    shape: shape.clone(),
                    ..strings(given)
                };
                assert_eq!(served.ask(form, &shape, given), Ok(answer), "{form:?}");
            }
        }
        for api in APIS.into_iter().chain(TFS_APIS) {
            let args = ["strings", "-i", given, "--output", "json"];
            let run = infer(&served.server, api, &args);
            assert_eq!(run.code, Some(0), "{api:?} {given}: {}", run.stderr);
            let reported: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
            let output = &reported["outputs"][0];
            let reported = json!([output["shape"], output["data"]]);
            assert_eq!(reported, answer, "{api:?}");
        }
    }
    let (_folder, served) = of_rank(2, &[]);
    let rest = |body: &str| {
        post(
            &served.server,
            "/v1/models/strings:predict",
            body.as_bytes(),
        )
        .text()
    };
    let answers = [
        r#"{"instances":[["a","b"],["c",{"b64":"YWI="}]]}"#,
        r#"{"instances":[{"in":["a","b"]},{"in":["c","d"]}]}"#,
        r#"{"inputs":{"in":[["a"],["b"]]}}"#,
        r#"{"inputs":[["a","b"]]}"#,
        r#"{"inputs":[[],[]]}"#,
        r#"{"inputs":["a"]}"#,
    ]
    .map(rest);
    insta::assert_snapshot!(answers.join("\n"), @r#"
    {"predictions":[["a","b"],["c","ab"]]}
    {"predictions":[["a","b"],["c","d"]]}
    {"outputs":[["a"],["b"]]}
    {"outputs":[["a","b"]]}
    {"outputs":[[],[]]}
    {"error":"Invalid number of shape dimensions - Expected: (-1,-1); Actual: (1); input name: in"}
    "#);
}

#[test]
fn strings_are_bounded_in_number() {
    let (_folder, served) = of_rank(2, &["--max_string_elements", "3"]);
    let list: [&[u8]; 4] = [b""; 4];
    for form in FORMS {
        assert!(served.ask(form, &[1, 3], &list[..3]).is_ok(), "{form:?}");
    }
    let mut texts: Vec<String> = FORMS
        .into_iter()
        .map(|form| served.ask(form, &[2, 2], &list).unwrap_err())
        .collect();
    // Long ones are not taken for many.
    let long = vec![b'x'; 1000];
    assert!(served.ask(Form::Raw, &[1, 1], &[&long]).is_ok());
    for api in APIS.into_iter().chain(TFS_APIS) {
        let run = infer(
            &served.server,
            api,
            &["strings", "-i", r#"[["a","b","c","d"]]"#],
        );
        assert_ne!(run.code, Some(0));
        texts.push(run.stderr.trim().to_owned());
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    InvalidArgument: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    400: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    400: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    error: the server refused the request: INVALID_ARGUMENT: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    error: the server refused the request: 400 Bad Request: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    error: the server refused the request: INVALID_ARGUMENT: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    error: the server refused the request: 400 Bad Request: Invalid number of strings - Expected: 3 at most, see --max_string_elements; Actual: more; input name: in
    ");
}

#[test]
fn strings_may_have_any_bytes() {
    let served = Served::start("passthrough_string", "in");
    let all: Vec<u8> = (0..=255).collect();
    let list: [&[u8]; 4] = [b"\0", &all, b"a\0b\0", b"\xff\xfe"];
    for form in ANY_BYTES {
        assert_eq!(served.ask(form, &[4], &list), Ok(strings(&list)));
    }
}

#[test]
fn long_strings_and_many_of_them_come_back() {
    let served = Served::start("passthrough_string", "in");
    let long = vec![b'x'; 3_000_000];
    let many: Vec<String> = (0..50_000)
        .map(|number| format!("string {number}"))
        .collect();
    let many: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
    for form in FORMS {
        assert_eq!(served.ask(form, &[1], &[&long]), Ok(strings(&[&long])));
        assert_eq!(served.ask(form, &[50_000], &many), Ok(strings(&many)));
    }
}

#[test]
fn json_answers_have_strings() {
    let served = Served::start("passthrough_string", "in");
    let body =
        r#"{"inputs":[{"name":"in","shape":[3],"datatype":"BYTES","data":["a","","\"ž\""]}]}"#;
    let answer = post(
        &served.server,
        "/v2/models/passthrough_string/infer",
        body.as_bytes(),
    );
    insta::assert_snapshot!(answer.text(), @r#"{"model_name":"passthrough_string","model_version":"1","outputs":[{"name":"out","shape":[3],"datatype":"BYTES","data":["a","","\"ž\""]}]}"#);
}

#[test]
fn strings_that_are_no_text_are_not_spoilt_for_json() {
    let served = Served::start("passthrough_string", "in");
    let data = framed(&[b"a", b"\xff"]);
    let answer = |wishes: &serde_json::Value| {
        let mut request = json!({"inputs": [{
            "name": "in",
            "shape": [2],
            "datatype": "BYTES",
            "parameters": {"binary_data_size": data.len()},
        }]});
        let fields = wishes.as_object().unwrap().clone();
        request.as_object_mut().unwrap().extend(fields);
        let json = request.to_string();
        let body = [json.as_bytes(), &data].concat();
        let headers = [(JSON_LENGTH, json.len().to_string())];
        let headers = headers
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let path = "/v2/models/passthrough_string/infer";
        send(&served.server, "POST", path, &headers, &body)
    };
    insta::assert_snapshot!(answer(&json!({})).error(), @"400: Response parsing to JSON error - element 1 of output out is not UTF-8, for which JSON has no form; ask for the output with the parameter binary_data");
    // A client that reads binary data, as Triton's does, and lists no outputs.
    let reads = json!({"parameters": {"binary_data_output": true}});
    assert_eq!(answer(&reads).parts().1, data);
}

#[test]
fn binary_strings_need_their_size_unless_one_takes_all() {
    let served = Served::start("passthrough_string", "in");
    let one = framed(&[b"the only one"]);
    assert_eq!(
        served.post(&[1], &json!({}), &one),
        Ok(strings(&[b"the only one"]))
    );
    let size = |value: serde_json::Value| json!({ "parameters": { "binary_data_size": value } });
    let texts = [
        served.post(&[2], &json!({}), &framed(&[b"a", b"b"])),
        served.post(&[1], &size(json!("16")), &one),
        served.post(&[1], &size(json!(17)), &one),
        served.post(&[1], &size(json!(15)), &one),
        served.post(&[1], &json!({}), b"without its length"),
    ]
    .map(Result::unwrap_err);
    insta::assert_snapshot!(texts.join("\n"), @"
    400: binary_data_size parameter is invalid and cannot be parsed - BYTES inputs need it
    400: binary_data_size parameter is invalid and cannot be parsed
    400: Received buffer size is smaller than binary_data_size parameter indicates
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 15 bytes given; input name: in
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 18 bytes given; input name: in
    ");
}

#[test]
fn each_error_of_strings_has_its_code_and_text() {
    let served = Served::start("passthrough_string", "in");
    let three: [&[u8]; 3] = [b"a", b"b", b"c"];
    let mut texts = Vec::new();
    for form in FORMS {
        texts.push(served.ask(form, &[2], &three).unwrap_err());
        texts.push(served.ask(form, &[3, 1], &three).unwrap_err());
    }
    for form in [Form::Raw, Form::Binary] {
        for broken in [&[1, 0, 0, 0][..], &[0, 0, 0], &[255; 9]] {
            texts.push(served.ask_framed(form, &[1], broken).unwrap_err());
        }
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; input name: in
    InvalidArgument: Invalid number of shape dimensions - Expected: (-1); Actual: (3,1); input name: in
    InvalidArgument: Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; input name: in
    InvalidArgument: Invalid number of shape dimensions - Expected: (-1); Actual: (3,1); input name: in
    400: Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; input name: in
    400: Invalid number of shape dimensions - Expected: (-1); Actual: (3,1); input name: in
    400: Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; input name: in
    400: Invalid number of shape dimensions - Expected: (-1); Actual: (3,1); input name: in
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: in
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 3 bytes given; input name: in
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 9 bytes given; input name: in
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: in
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 3 bytes given; input name: in
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 9 bytes given; input name: in
    ");
}

#[test]
fn rows_of_bytes_are_strings_where_the_name_says_so() {
    let served = Served::start("text", "text");
    // A string ends at its first zero byte, as it does in the row.
    for form in FORMS {
        let texts = &TEXTS[..3];
        assert_eq!(served.ask(form, &[3], texts), Ok(strings(texts)));
        assert_eq!(served.ask(form, &[1], &[b""]), Ok(strings(&[b""])));
    }
    for form in ANY_BYTES {
        let cut = served.ask(form, &[2], &[b"\xffx\0y", b"\0"]);
        assert_eq!(cut, Ok(strings(&[b"\xffx", b""])));
    }
    let rows = grpc::raw("text", "text", "UINT8", &[2, 3], b"ab\0cde");
    let answer = served.grpc.answered(rows);
    assert_eq!(answer.outputs[0].datatype, "BYTES");
    assert_eq!(answer.raw_output_contents[0], framed(&[b"ab", b"cde"]));
    let metadata = get(&served.server, "/v2/models/text").json();
    assert_eq!(
        metadata["outputs"],
        json!([{"name": "text_string", "datatype": "UINT8", "shape": [-1, -1]}])
    );
}

#[test]
fn strings_become_rows_for_a_model_of_bytes() {
    let served = Served::start("passthrough_u8", "in");
    for form in FORMS {
        assert_eq!(
            served.ask(form, &[3], &[b"abc", b"", b"z"]),
            Ok(Output {
                datatype: "UINT8".to_owned(),
                shape: vec![3, 4],
                data: b"abc\0\0\0\0\0z\0\0\0".to_vec(),
            })
        );
    }
}

#[test]
fn each_error_of_rows_has_its_code_and_text() {
    let served = Served::start("text", "text");
    let five: [&[u8]; 5] = [b"a"; 5];
    let mut texts = Vec::new();
    for form in FORMS {
        texts.push(served.ask(form, &[5], &five).unwrap_err());
        texts.push(served.ask(form, &[2], &five).unwrap_err());
        texts.push(served.ask(form, &[2, 2], &five).unwrap_err());
    }
    for form in [Form::Raw, Form::Binary] {
        texts.push(served.ask_framed(form, &[1], &[9, 0, 0, 0]).unwrap_err());
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Invalid input batch size - Expected: [1~4]; Actual: 5; input name: text
    InvalidArgument: Invalid input batch size - Expected: 2 as declared; Actual: 5; input name: text
    InvalidArgument: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: text
    InvalidArgument: Invalid input batch size - Expected: [1~4]; Actual: 5; input name: text
    InvalidArgument: Invalid input batch size - Expected: 2 as declared; Actual: 5; input name: text
    InvalidArgument: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: text
    400: Invalid input batch size - Expected: [1~4]; Actual: 5; input name: text
    400: Invalid input batch size - Expected: 2 as declared; Actual: 5; input name: text
    400: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: text
    400: Invalid input batch size - Expected: [1~4]; Actual: 5; input name: text
    400: Invalid input batch size - Expected: 2 as declared; Actual: 5; input name: text
    400: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: text
    InvalidArgument: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: text
    400: Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: text
    ");
}

#[test]
fn rows_beyond_a_gibibyte_are_refused() {
    let served = Served::start("passthrough_u8", "in");
    let long = vec![b'x'; 1 << 20];
    let mut list: Vec<&[u8]> = vec![b""; 1024];
    list[1023] = &long;
    let texts: Vec<String> = FORMS
        .into_iter()
        .map(|form| served.ask(form, &[1024], &list).unwrap_err())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    InvalidArgument: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    400: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    400: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    ");
}

#[test]
fn other_tensors_take_no_strings() {
    for (model, input) in [("dummy", "b"), ("passthrough_i32", "in"), ("scalar", "x")] {
        let served = Served::start(model, input);
        let texts: Vec<String> = FORMS
            .into_iter()
            .map(|form| served.ask(form, &[1], &[b"a"]).unwrap_err())
            .collect();
        let starts = ["Unimplemented", "Unimplemented", "501", "501"];
        for (text, start) in texts.iter().zip(starts) {
            let expected =
                format!("{start}: Functionality not implemented - BYTES for a tensor of ");
            assert!(text.starts_with(&expected), "{text}");
        }
    }
}

#[test]
fn the_client_sends_and_shows_strings() {
    let served = Served::start("passthrough_string", "in");
    for api in APIS {
        for (given, expected) in [
            (r#"["a","b"]"#, json!(["a", "b"])),
            ("in=some text", json!(["some text"])),
            (r#"in=["","ž"]"#, json!(["", "ž"])),
        ] {
            let args = ["passthrough_string", "-i", given, "--output", "json"];
            let run = infer(&served.server, api, &args);
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            let answer: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
            assert_eq!(answer["outputs"][0]["data"], expected);
        }
    }
    let served = Served::start("text", "text");
    for api in APIS {
        let run = infer(
            &served.server,
            api,
            &["text", "-i", r#"text:BYTES=["a","bc"]"#],
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @r#"
            output       datatype  shape  min  mean  max  values
            text_string  BYTES     (2)      -     -    -  "a", "bc"
            "#);
        }
    }
}
