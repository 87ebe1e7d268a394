//! `ovms infer --print-curl`: the printed command equals the request, and runs in a shell.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use ovms::{
    proto::{DESCRIPTORS, kserve::ModelInferRequest, tensorflow_serving::PredictRequest},
    tensor::{DataType, Tensor},
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;

use super::shared::served;
use crate::support::{
    Server,
    cli::{self, Run},
    grpc::Grpc,
    infer::{GRPC, REST, TFS_GRPC, TFS_REST, infer, json, read_npy, write_npy},
    repository,
    steps::{STEPS, TOTALS, piped},
    tfs::Tfs,
};

const TEN: &str = "b=[0,1,2,3,4,5,6,7,8,9]";

/// Returns whether there is a curl; if not, reports the test as skipped.
fn has_curl(test: &str) -> bool {
    let is_there = Command::new("curl").arg("--version").output().is_ok();
    if !is_there {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: no curl here");
    }
    is_there
}

/// Prints a command.
fn printed(server: &Server, api: &str, args: &[&str]) -> String {
    let run = infer(server, api, &[args, &["--print-curl"]].concat());
    assert_eq!(run.failure(), "exit 0\n", "{args:?}");
    run.text()
}

/// Runs a printed script in a shell, with the programs of a folder first in `PATH`.
fn shell(script: &str, programs: &Path) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    // It may be longer than an argument.
    let folder = repository::folder();
    let file = folder.path().join("script");
    fs::write(&file, script).unwrap();
    let mut sh = Command::new("sh");
    sh.arg(file)
        .env("PATH", format!("{}:{path}", programs.display()));
    let run = cli::run(&mut sh);
    assert_eq!(run.failure(), "exit 0\n", "{script}");
    run
}

fn answer(script: &str) -> Value {
    serde_json::from_slice(&shell(script, Path::new("/nonexistent")).stdout).unwrap()
}

#[test]
fn curl_gets_the_answer_that_infer_gets() {
    if !has_curl("curl_gets_the_answer_that_infer_gets") {
        return;
    }
    let server = Server::shared("dummy");
    for args in [
        &["dummy", "-i", TEN][..],
        &["dummy", "-i", TEN, "--json-data"],
        &["dummy", "-i", TEN, "--id", "it's \"one\" $HOME `x`"],
        &[
            "dummy",
            "-i",
            TEN,
            "--output-name",
            "a",
            "--model-version",
            "1",
            "--top",
            "3",
        ],
        &["dummy", "--random", "--seed", "7", "--header", "x-a=b c"],
    ] {
        let sent = json(server, REST, args);
        let got = answer(&printed(server, REST, args));
        if sent["outputs"].is_array() {
            assert_eq!(
                got["outputs"][0]["data"], sent["outputs"][0]["data"],
                "{args:?}"
            );
            assert_eq!(
                got["id"].as_str().unwrap_or_default(),
                sent["id"],
                "{args:?}"
            );
        } else {
            assert_eq!(got["outputs"][0]["data"][9], 10.0);
        }
    }
    let rows = answer(&printed(server, TFS_REST, &["dummy", "-i", TEN]));
    let sent = json(server, TFS_REST, &["dummy", "-i", TEN]);
    assert_eq!(rows["outputs"][0], sent["outputs"][0]["data"]);
}

#[test]
fn questions_are_printed_as_well() {
    if !has_curl("questions_are_printed_as_well") {
        return;
    }
    let server = Server::shared("dummy");
    for api in [REST, TFS_REST] {
        for question in [
            &["--status"][..],
            &["--status", "dummy"],
            &["--metadata"],
            &["--metadata", "dummy"],
        ] {
            let reported = answer(&printed(server, api, question)).to_string();
            assert!(
                reported.contains("dummy") || reported.contains("AVAILABLE"),
                "{api} {question:?} {reported}"
            );
        }
    }
}

/// Bytes go through base64, and long bodies past the limit of an argument.
#[test]
fn bodies_of_any_kind_and_size_can_be_run() {
    if !has_curl("bodies_of_any_kind_and_size_can_be_run") {
        return;
    }
    let server = served();
    let halves = printed(server, REST, &["passthrough_bf16", "-i", "in=[[1.5,-2]]"]);
    assert!(halves.starts_with("base64 -d <<'EOF' | curl"), "{halves}");
    let got = shell(&halves, Path::new("/nonexistent")).stdout;
    assert!(got.ends_with(&[0xc0, 0x3f, 0x00, 0xc0]), "{got:?}");

    let folder = repository::folder();
    let file = folder.path().join("large.npy");
    let numbers: Vec<u8> = (0..60_000u32)
        .flat_map(|it| (it as f32).to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F32, vec![6, 10_000], numbers.into()).unwrap();
    write_npy(&file, &tensor);
    let input = format!("in=@{}", file.display());
    for flags in [&[][..], &["--binary"]] {
        let args = [&["passthrough_f32", "-i", &input][..], flags].concat();
        let script = printed(server, REST, &args);
        assert!(script.len() > 128 << 10, "{}", script.len());
        let got = shell(&script, Path::new("/nonexistent"));
        if flags.is_empty() {
            // Through the pipe that answers go through.
            let args = ["passthrough_f32", "-i", "in=-", "--output", "npy"];
            let again = piped(server, GRPC, &args, &got.text());
            assert_eq!(again.code, Some(0), "{}", again.stderr);
            assert!(read_npy(again.stdout) == tensor);
        } else {
            assert!(got.stdout.ends_with(tensor.data()));
        }
    }
    let texts = r#"in=["it's","$(x) \\ \"", "größe\n", {"b64":"/wA="}]"#;
    let sent = json(server, TFS_REST, &["passthrough_string", "-i", texts]);
    let got = answer(&printed(
        server,
        TFS_REST,
        &["passthrough_string", "-i", texts],
    ));
    assert_eq!(got["outputs"].as_array().unwrap().len(), 4, "{got}");
    assert_eq!(sent["outputs"][0]["shape"][0], 4);
}

#[test]
fn each_step_of_a_sequence_is_a_command() {
    if !has_curl("each_step_of_a_sequence_is_a_command") {
        return;
    }
    let server = served();
    let model = "printed_total";
    for api in [REST, TFS_REST] {
        let args = [model, "-i", STEPS, "--sequence", "--sequence-id", "7"];
        let script = printed(server, api, &args);
        assert_eq!(script.lines().count(), 3, "{script}");
        let mut totals = Vec::new();
        for line in script.lines() {
            let got = answer(line).to_string();
            let last = totals.len() / 4 == 2;
            assert!(!last || got.contains("444"), "{got}");
            totals.extend([0; 4]);
        }
        assert_eq!(totals.len(), TOTALS.len());
        // The id is free again.
        let sent = json(server, api, &args);
        assert_eq!(
            sent["outputs"][0]["data"].as_array().unwrap().len(),
            TOTALS.len()
        );
    }
    let lines = "[1,2,3,4]\n[1,1,1,1]\n";
    let args = [
        model,
        "-i",
        "-",
        "--sequence",
        "--sequence-id",
        "8",
        "--print-curl",
    ];
    let script = piped(server, REST, &args, lines).text();
    assert_eq!(
        script.lines().count(),
        3,
        "the last line is sent again as the end: {script}"
    );
    assert!(
        script
            .lines()
            .last()
            .unwrap()
            .contains(r#""sequence_end":true"#),
        "{script}"
    );
    let chosen = printed(server, REST, &[model, "-i", STEPS, "--sequence"]);
    let header = |line: &str| {
        let (_, rest) = line.split_once("-H 'ovms-sequence-id: ").unwrap();
        rest.split('\'').next().unwrap().to_owned()
    };
    let ids: Vec<String> = chosen.lines().map(header).collect();
    assert_eq!(ids, [ids[0].as_str(); 3], "{chosen}");
    let id = format!(r#""sequence_id":{}"#, ids[0]);
    assert!(chosen.lines().all(|line| line.contains(&id)), "{chosen}");
    let start = printed(server, REST, &[model, "-i", "x=[1,2,3,4]", "--start"]);
    assert!(
        answer(&start).to_string().contains("sequence_id"),
        "{start}"
    );
}

/// Stand-in for grpcurl, which records its arguments and input.
const GRPCURL: &str = "#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    -plaintext) shift;;
    -H) printf '%s\\n' \"$2\" >> \"$FOLDER/headers\"; shift 2;;
    -d) if [ \"$2\" = @ ]; then cat > \"$FOLDER/data\"; else printf '%s' \"$2\" > \"$FOLDER/data\"; fi; shift 2;;
    *) printf '%s\\n' \"$1\" >> \"$FOLDER/target\"; shift;;
  esac
done
";

/// Runs a printed script with the stand-in; returns its messages as bytes.
fn messages(script: &str, name: &str) -> (Vec<Vec<u8>>, String) {
    let folder = repository::folder();
    let program = folder.path().join("grpcurl");
    fs::write(&program, GRPCURL).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!(
        "FOLDER={}; export FOLDER\n{script}",
        folder.path().display()
    );
    shell(&script, folder.path());
    let data = fs::read_to_string(folder.path().join("data")).unwrap();
    let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    let messages = serde_json::Deserializer::from_str(&data)
        .into_iter::<Value>()
        .map(|value| {
            let descriptor = pool.get_message_by_name(name).unwrap();
            DynamicMessage::deserialize(descriptor, value.unwrap())
                .unwrap()
                .encode_to_vec()
        })
        .collect();
    let target = fs::read_to_string(folder.path().join("target")).unwrap();
    let headers = fs::read_to_string(folder.path().join("headers")).unwrap_or_default();
    (messages, headers + &target)
}

#[test]
fn what_grpcurl_gets_is_the_request() {
    let server = served();
    let client = Grpc::connect(server);
    let tfs = Tfs::connect(server);
    for (model, input) in [
        ("dummy", TEN),
        ("passthrough_f16", "in=[[1.5,NaN,-Infinity]]"),
        ("passthrough_u64", "in=[[1,4294967295]]"),
        ("passthrough_string", r#"in=["it's", {"b64":"/wA="}]"#),
    ] {
        for flags in [&[][..], &["--raw"], &["--header", "x-a=it's"]] {
            // A note says that it is no number, which is meant here.
            let args = [&["-q", model, "-i", input][..], flags].concat();
            let expected = infer(server, GRPC, &[&args[..], &["--output", "raw"]].concat());
            assert_eq!(expected.code, Some(0), "{args:?} {}", expected.stderr);
            let (sent, target) =
                messages(&printed(server, GRPC, &args), "inference.ModelInferRequest");
            let method = "inference.GRPCInferenceService/ModelInfer";
            assert!(
                target.contains(&format!("127.0.0.1:{}\n{method}\n", server.port)),
                "{target}"
            );
            assert_eq!(
                flags.len() == 2,
                target.starts_with("x-a: it's\n"),
                "{target}"
            );
            let request = ModelInferRequest::decode(sent[0].as_slice()).unwrap();
            let is_raw = !request.raw_input_contents.is_empty();
            assert_eq!(
                is_raw,
                flags.contains(&"--raw") || model.ends_with("f16"),
                "{args:?}"
            );
            let answered = client.answered(request);
            assert_eq!(answered.raw_output_contents[0], expected.stdout, "{args:?}");

            let (sent, target) = messages(
                &printed(server, TFS_GRPC, &args),
                "tensorflow.serving.PredictRequest",
            );
            assert!(
                target.contains("tensorflow.serving.PredictionService/Predict"),
                "{target}"
            );
            let request = PredictRequest::decode(sent[0].as_slice()).unwrap();
            assert_eq!(tfs.answered(request).outputs.len(), 1, "{args:?}");
        }
    }
    let stream = [
        "dummy", "-i", "b::2,10=", "--zeros", "--stream", "--axis", "0",
    ];
    let (sent, target) = messages(
        &printed(server, GRPC, &stream),
        "inference.ModelInferRequest",
    );
    assert_eq!(sent.len(), 2);
    assert!(
        target.ends_with("inference.GRPCInferenceService/ModelStreamInfer\n"),
        "{target}"
    );
    for (question, name) in [
        (&["--status"][..], "inference.RepositoryIndexRequest"),
        (&["--metadata", "dummy"], "inference.ModelMetadataRequest"),
    ] {
        messages(&printed(server, GRPC, question), name);
    }
    for (question, name) in [
        (
            &["--status", "dummy"][..],
            "tensorflow.serving.GetModelStatusRequest",
        ),
        (
            &["--metadata", "dummy"],
            "tensorflow.serving.GetModelMetadataRequest",
        ),
    ] {
        messages(&printed(server, TFS_GRPC, question), name);
    }
}
