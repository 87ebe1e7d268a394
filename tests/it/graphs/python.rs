//! Python nodes and unary requests: inputs of `execute`, and its results.

use std::{fs, path::Path};

use super::shared;
use crate::support::{
    Server, eventually,
    graphs::{CODE, add, code, failed, file, graph, python, reload, reported, shown},
    grpc::{Grpc, raw},
    pipelines::Config,
    repository,
};

/// Texts that are cut, and nothing of a traceback among them. All others are in `tests/conformance/graphs/python.txt`.
#[test]
fn long_errors_are_cut() {
    let (server, client) = shared::connect();
    let begin = format!("InvalidArgument: {}", failed("py"));
    for (body, expected) in [
        (
            "def raises_long(): raise ValueError('x' * 1000000)\nraises_long()",
            " - ValueError: xxxx",
        ),
        ("raise ValueError('é' * 1000000)", " - ValueError: éééé"),
        ("raise ValueError('\\n' * 1000000)", " - ValueError: "),
    ] {
        let came = reported(&client, code("py", body));
        assert!(came.starts_with(&begin), "{body}: {came}");
        assert!(came.contains(expected), "{body}: {came}");
        assert!(!came.contains("Traceback"), "{body}: {came}");
        assert!(came.len() < 2100, "{body}: {}", came.len());
    }
    // What a handler gives as a name is no better.
    let long = "return [Tensor('x' * 1000000, b'')]";
    let came = reported(&client, code("py", long));
    let expected = format!(
        "{begin} - execute gave a tensor named \"{}… (999800 more characters)\", which is not an output of the node: out",
        "x".repeat(200)
    );
    assert_eq!(came, expected);
    // The traceback.
    server.wait_log(", in raises_long");
}

pub(super) fn errors_of_requests_name_graph_and_node_in_the_log(
    config: &Config,
    server: &Server,
    client: &Grpc,
) {
    let fields = |log: &str, text: &str| {
        let (_, rest) = log.split_once(text).expect("it is logged");
        assert!(rest.contains("of=\"graph py\" node="), "{text}: {rest}");
    };
    reported(client, code("py", "raise ValueError('one')"));
    reported(client, code("py", "return [Tensor('other', b'')]"));
    reported(client, code("py", "yield [Tensor('out', b'')]"));
    server.wait_log("LOOPBACK is not defined in the node");
    let log = server.log();
    fields(&log, " - ValueError: one");
    // The whole traceback comes first.
    let (before, _) = log
        .split_once("Error occurred during node execution: py - ValueError: one")
        .unwrap();
    let event = before
        .rsplit_once("Traceback (most recent call last):")
        .unwrap()
        .1;
    assert!(event.ends_with("ValueError: one\n    "), "{event}");
    fields(&log, "which is not an output of the node: out");
    fields(&log, "LOOPBACK is not defined in the node");
    assert!(
        log.contains("hint=\"give the node `input_stream: "),
        "{log}"
    );
    // The file is in the folder of the handler, and the server starts elsewhere.
    file(config, "py/labels.txt", "");
    file(
        config,
        "py/handler.py",
        "class OvmsPythonModel:\n  def initialize(self, kwargs): open('labels.txt')\n  def execute(self, i): return []\n",
    );
    reload(server);
    let line = server.wait_log("open `os.path.join(kwargs[\"base_path\"], NAME)`");
    assert!(line.contains("of=\"graph py\" node="), "{line}");
    file(config, "py/handler.py", CODE);
}

#[test]
fn a_unary_request_runs_a_generator_to_its_end() {
    let (_, client) = shared::connect();
    let folder = repository::folder();
    let [ended, closed] = ["ended", "closed"].map(|name| folder.path().join(name));
    let sets =
        |then: &str| format!("for n in range(500): yield [Tensor('out', b'%d' % n)]\n{then}");
    assert_eq!(
        reported(
            &client,
            code("gen", &sets(&format!("open({ended:?}, 'w').write('x')")))
        ),
        "out UINT8 [1] 0"
    );
    assert_eq!(fs::read_to_string(&ended).unwrap(), "x");
    assert_eq!(
        reported(&client, code("gen", &sets("raise ValueError('late')"))),
        format!("InvalidArgument: {} - ValueError: late", failed("py"))
    );
    // Without an end it goes on until its client leaves.
    let endless = format!(
        "open({closed:?}, 'w').close()\ntry:\n  while True: yield [Tensor('out', b'one')]\n\
         finally: open({closed:?}, 'a').write('x')"
    );
    let call = client.call(code("gen", &endless));
    eventually("it has begun", || closed.exists().then_some(()));
    drop(call);
    eventually("it is closed", || {
        (fs::read_to_string(&closed).is_ok_and(|text| text == "x")).then_some(())
    });
}

/// Handler files of one name, and of names that modules have or cannot have.
const STRANGE: [&str; 9] = [
    "a/model.py",
    "b/model.py",
    "c/json.py",
    "d/numpy.py",
    "e/my-model.py",
    "f/model.v1.py",
    "g/os.py",
    "h/pyovms.py",
    "i/ünïcode näme.py",
];

/// Adds the graphs of these tests.
pub(super) fn add_graphs(config: &mut Config) {
    for (place, path) in STRANGE.iter().enumerate() {
        let path = format!("strange/{path}");
        let handler = with_helper(config, &path, &format!("<{place}>"));
        let text = graph(
            "OVMS_PY_TENSOR:in",
            "OVMS_PY_TENSOR:out",
            &[python("n", "IN:in", "OUT:out", &handler, "")],
        );
        add(config, &format!("alone{place}"), &text);
    }
}

/// Writes a handler that reports its file and the result of its helper.
fn with_helper(config: &Config, path: &str, says: &str) -> String {
    let path = Path::new(path);
    let folder = path.parent().unwrap().display();
    file(
        config,
        &format!("{folder}/helper.py"),
        &format!("SAYS = {says:?}\n"),
    );
    let text = format!(
        "from pyovms import Tensor\nimport helper\nclass OvmsPythonModel:\n  def execute(self, inputs):\n    import helper as late\n    return [Tensor('out', (helper.SAYS + late.SAYS + __file__[-len({:?}):]).encode())]\n",
        path.display().to_string()
    );
    file(config, &path.display().to_string(), &text)
        .display()
        .to_string()
}

#[test]
fn files_of_one_name_and_of_strange_names_live_together() {
    let (_, client) = shared::connect();
    for _ in 0..2 {
        for (place, path) in STRANGE.iter().enumerate() {
            let answer = client.answered(raw(&format!("alone{place}"), "in", "UINT8", &[1], b"x"));
            let text = shown(&answer);
            assert!(
                text.ends_with(&format!(" <{place}><{place}>strange/{path}")),
                "{text}"
            );
        }
    }
}

#[test]
fn memory_lives_as_long_as_it_is_held() {
    let (_, client) = shared::connect();
    let keep = "kept = self.__dict__.setdefault('kept', [])\nkept.append(inputs[0])\nkept.append(memoryview(inputs[0]))\nreturn [Tensor('out', str(len(kept)).encode())]";
    for number in 1..=20 {
        let body = format!("{keep}\n# {number:_>1000}");
        let length = (2 * number).to_string();
        assert_eq!(
            reported(&client, code("kept", &body)),
            format!("out UINT8 [{}] {length}", length.len())
        );
    }
    let check = "ok = all(bytes(k).endswith(f'# {i // 2 + 1:_>1000}'.encode()) for i, k in enumerate(self.kept))\nself.kept.clear()\nreturn [Tensor('out', str(ok).encode())]";
    assert_eq!(reported(&client, code("kept", check)), "out UINT8 [4] True");
    // In another thread, after the request has been answered.
    let body = "def late(t):\n  time.sleep(0.05)\n  self.late = bytes(t)[-4:]\nself.thread = threading.Thread(target=late, args=(inputs[0],))\nself.thread.start()\nreturn [Tensor('out', b'')]# end";
    assert_eq!(reported(&client, code("kept", body)), "out UINT8 [0] ");
    assert_eq!(
        reported(
            &client,
            code(
                "kept",
                "self.thread.join()\nreturn [Tensor('out', self.late)]"
            )
        ),
        "out UINT8 [4]  end"
    );
    // Outputs that are kept, and given again by the next.
    assert_eq!(
        reported(
            &client,
            code(
                "kept",
                "self.again = Tensor('out', b'again')\nreturn [self.again]"
            )
        ),
        "out UINT8 [5] again"
    );
    assert_eq!(
        reported(&client, code("kept", "return [self.again]")),
        "out UINT8 [5] again"
    );
    // Large ones.
    let mut large = vec![b'\n'; 48 << 20];
    let begin = b"return [Tensor('out', inputs[0])]\n#";
    large[..begin.len()].copy_from_slice(begin);
    let mut ask = raw("large", "in", "BYTES", &[1], &large);
    "kept".clone_into(&mut ask.model_name);
    // The body is parsed once; its lines would take long.
    large[begin.len()..].fill(b'x');
    ask.raw_input_contents = vec![large.clone().into()];
    let answer = client.answered(ask);
    assert_eq!(answer.raw_output_contents[0], large);
}
