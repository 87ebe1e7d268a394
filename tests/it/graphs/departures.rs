//! Clients that leave while a Python node is at work: over REST as over gRPC.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::Shutdown,
    path::Path,
};

use serde_json::json;

use crate::support::{
    Server, eventually,
    graphs::{CODE, add_python, code, reported},
    grpc::Grpc,
    http::{connect, get, head, read},
    pipelines::Config,
};

/// Code that ends when a file is there.
fn waits(file: &Path) -> String {
    format!(
        "open({:?}, 'a').write('x')\nwhile not os.path.exists({:?}): time.sleep(0.02)\nreturn [Tensor('out', b'late')]",
        file.with_extension("begun").display().to_string(),
        file.display().to_string()
    )
}

/// Waits until so many calls have begun.
fn begun(file: &Path, count: usize) {
    eventually(&format!("{count} calls have begun"), || {
        let written = fs::read(file.with_extension("begun")).unwrap_or_default();
        (written.len() == count).then_some(())
    });
}

fn metric(server: &Server, sample: &str) -> u64 {
    let page = get(server, "/metrics").text();
    let value = page.lines().find_map(|line| line.strip_prefix(sample));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

fn failed(server: &Server, interface: &str) -> u64 {
    let labels =
        format!(r#"{{api="KServe",interface="{interface}",method="ModelInfer",name="py"}}"#);
    metric(server, &format!("ovms_requests_fail{labels}"))
}

fn running(server: &Server) -> u64 {
    metric(server, r#"ovms_current_graphs{name="py"}"#)
}

/// Returns a request of `infer` or `generate` to the graph.
fn request(method: &str, body: &str) -> String {
    // A string is behind its length, which is a comment here.
    let body = match method {
        "infer" => {
            json!({"inputs": [{"name": "in", "shape": [1], "datatype": "BYTES", "data": [body]}]})
        }
        _ => json!({"in": body}),
    };
    let body = body.to_string();
    head("POST", &format!("/v2/models/py/{method}"), body.len(), &[]) + &body
}

#[test]
fn a_client_that_leaves_gives_its_request_up() {
    let mut config = Config::of(&[]);
    let rest = CODE.replace(
        "bytes(inputs[0])",
        "(bytes(inputs[0])[4:] if inputs[0].datatype == 'BYTES' else bytes(inputs[0]))",
    );
    add_python(&mut config, "py", &rest);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access");
    let free = folder.path().join("free");
    let flags = ["--metrics_enable", "--access_log", log.to_str().unwrap()];
    let server = config.serve_with(&flags);
    let client = Grpc::connect(&server);
    let body = waits(&free);

    let call = client.call(code("py", &body));
    begun(&free, 1);
    drop(call);
    eventually("the call is given up", || {
        (running(&server) == 0 && failed(&server, "gRPC") == 1).then_some(())
    });

    for (index, method) in ["infer", "generate"].into_iter().enumerate() {
        let mut stream = connect(&server);
        stream.write_all(request(method, &body).as_bytes()).unwrap();
        begun(&free, 2 + index);
        assert_eq!(running(&server), 1, "{method}");
        drop(stream);
        let expected = 1 + index as u64;
        eventually("the request is given up", || {
            (running(&server) == 0 && failed(&server, "REST") == expected).then_some(())
        });
    }
    // Lines are written a moment after requests are counted.
    let ends = eventually("the requests are in the log", || {
        let lines = fs::read_to_string(&log).unwrap();
        let of_model = lines.lines().filter(|line| line.contains("model=py"));
        let ends: Vec<String> = of_model
            .flat_map(|line| line.split(' ').filter(|word| word.starts_with("status=")))
            .map(str::to_owned)
            .collect();
        (ends.len() >= 3).then_some(ends)
    });
    assert_eq!(ends, ["status=1", "status=499", "status=499"]);
    // Others are served, beside the calls that go on in the worker.
    let fine = "return [Tensor('out', b'fine')]";
    assert_eq!(reported(&client, code("py", fine)), "out UINT8 [4] fine");

    // One that has said all and stays is answered.
    let mut stream = connect(&server);
    stream
        .write_all(request("infer", &body).as_bytes())
        .unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    fs::write(&free, "").unwrap();
    let answer = read(&mut stream);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(failed(&server, "REST"), 2);
}
