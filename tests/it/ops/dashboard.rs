//! Dashboard at `/`: its clients, its permissions, and its contents.

use std::{path::PathBuf, sync::LazyLock};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::{BODY, INFER, metrics::SERVER as WITHOUT_DASHBOARD};
use crate::support::{
    Server, cli, emulator, eventually,
    graphs::{self, PASS},
    grpc::{Grpc, dummy, input},
    http::{Answer, get, post, send},
    model,
    pipelines::{Config, dl, request},
    sequence,
};

/// `Accept` header of a browser.
const BROWSER: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// A name that is markup unless it is escaped.
const NASTY: &str = "<img src=x onerror=alert(1)>\"'&";

/// A server of a model, one with a name that is markup, and one that cannot be read, which nobody sends a request.
static NAMES: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["broken", "dummy"]);
    config.model(NASTY, &model("dummy"));
    config.serve_kept(&[])
});

/// A server of many kinds for the tests that look at their own servables, and its configuration file.
static KINDS: LazyLock<(Server, PathBuf)> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "passthrough_string"]);
    for name in ["running total", "other total"] {
        let entry = sequence::entry(name, "running_total");
        config.put("model_config_list", json!({"config": entry}));
    }
    config.model("large", &model("dummy"))["shape"] = json!("(1,5000)");
    config.model(NASTY, &model("dummy"));
    config.model("lost", "/nowhere/<b>bold</b>".as_ref());
    config.library("lib_add_sub", "add_sub.c");
    let node = || dl("n", "dummy", "b=request.x", "a=a");
    for name in ["runs", "drawn"] {
        config.pipeline(name, "x", &[node()], "y=n.a");
    }
    config.pipeline("splits", "x", &[node()], "y=n.a")["demultiply_count"] = json!(3);
    let node = dl("<i>node</i>", NASTY, "c=request.<u>in</u>", "a=a");
    config.pipeline("<s>p</s>", "<u>in</u>", &[node], "out=<i>node</i>.a");
    graphs::add(&mut config, "g", PASS);
    graphs::add_python(
        &mut config,
        "graph",
        "class OvmsPythonModel:\n    def execute(self, inputs):\n        from pyovms import Tensor\n        return [Tensor('out', inputs[0])]\n",
    );
    let path = config.beside("config.json");
    (config.serve_kept(&[]), path)
});

/// Opens a page like a browser.
fn open(server: &Server, path: &str) -> Answer {
    send(server, "GET", path, &[BROWSER], b"")
}

fn state(server: &Server) -> Value {
    let answer = get(server, "/dashboard/state");
    assert_eq!(answer.status, 200);
    answer.json()
}

/// Returns the state of a servable.
fn of(state: &Value, name: &str) -> Value {
    let servables = state["servables"].as_array().unwrap().iter();
    let mut named = servables.filter(|servable| servable["name"] == name);
    named
        .next()
        .unwrap_or_else(|| panic!("no {name} in {state}"))
        .clone()
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

#[test]
fn a_browser_gets_a_page_that_may_do_little() {
    let answer = open(Server::shared("dummy"), "/");
    assert_eq!(answer.status, 200);
    let headers = [
        "content-type",
        "cache-control",
        "x-content-type-options",
        "referrer-policy",
        "vary",
    ];
    let headers = headers.map(|name| format!("{name}: {}", answer.header(name).unwrap()));
    insta::assert_snapshot!(headers.join("\n"), @"
    content-type: text/html; charset=utf-8
    cache-control: no-store
    x-content-type-options: nosniff
    referrer-policy: no-referrer
    vary: accept
    ");
    // No other origin may read it.
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let page = answer.text();
    check_policy(&answer);
    // Everything is there before the script runs.
    for text in [
        "OpenVINO 20",
        "CPU",
        "<h3>dummy</h3>",
        "FP32",
        "(1,10)",
        "available",
    ] {
        assert!(page.contains(text), "no {text}");
    }
}

/// Checks that a page may run its one script and use its one style, and load nothing from elsewhere.
fn check_policy(answer: &Answer) {
    let page = answer.text();
    let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let policy = answer.header("content-security-policy").unwrap();
    let policy = policy
        .replace(&hash(between(&page, "<script>", "</script>")), "SCRIPT")
        .replace(&hash(between(&page, "<style>", "</style>")), "STYLE");
    assert_eq!(
        policy,
        "default-src 'none'; script-src 'sha256-SCRIPT'; style-src 'sha256-STYLE'; connect-src 'self'; \
         img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("style=") && !page.contains(" onclick"));
}

#[test]
fn the_address_that_is_shown_has_the_page_for_browsers_and_lines_for_terminals() {
    let page = open(&NAMES, "/dashboard");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<h3>dummy</h3>"));
    let lines = get(&NAMES, "/dashboard");
    assert_eq!(lines.status, 200);
    assert_eq!(
        lines.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(lines.header("vary"), Some("accept"));
    let text = lines.text();
    // Host, times, and memory are of the machine.
    let (title, rest) = text.split_once('\n').unwrap();
    assert!(
        title.contains("OpenVINO Model Server 0.1.0: ready, up "),
        "{title}"
    );
    let (_, servables) = rest.split_once("\n\n").unwrap();
    // It depends on the moment whether there is a sample yet.
    insta::assert_snapshot!(servables.replace(" 0 req/s", " – req/s"), @r#"
    failed  model broken  – req/s  p50 –  p99 –
    ready  model <img src=x onerror=alert(1)>"'&  – req/s  p50 –  p99 –
    ready  model dummy  – req/s  p50 –  p99 –

    A browser shows more here, and /dashboard/state has it as JSON.
    "#);
}

#[test]
fn the_page_of_a_servable_may_do_little_and_describes_it() {
    let answer = open(&NAMES, "/dashboard/servables/dummy");
    assert_eq!(answer.status, 200);
    let page = answer.text();
    check_policy(&answer);
    assert!(!page.contains("https://"), "nothing from elsewhere");
    let signature = between(&page, "data-signature=\"", "\"").replace("&quot;", "\"");
    let signature: Value = serde_json::from_str(&signature).unwrap();
    assert_eq!(
        signature,
        json!({
            "name": "dummy",
            "kind": "model",
            "stateful": false,
            "inputs": [{"name": "b", "datatype": "FP32", "shape": [1, 10], "least": [1, 10], "layout": ""}],
            "outputs": [{"name": "a", "datatype": "FP32", "shape": [1, 10], "least": [1, 10], "layout": ""}],
        })
    );
    // One that does not serve takes no requests, and a name is no markup.
    let broken = open(&NAMES, "/dashboard/servables/broken").text();
    assert!(!broken.contains("data-signature") && broken.contains("cannot read"));
    let name = "/dashboard/servables/%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%22%27%26";
    let nasty = open(&NAMES, name);
    assert_eq!(nasty.status, 200);
    assert!(!nasty.text().contains("<img src=x"), "{}", nasty.text());
}

#[test]
fn figures_and_history_are_kept_although_there_are_no_metrics() {
    let server = Server::start("dummy");
    let before = of(&state(&server), "dummy");
    assert_eq!(
        (&before["requests"], &before["failed"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(before["latency"], json!([]));
    for _ in 0..2 {
        assert_eq!(post(&server, INFER, BODY).status, 200);
    }
    history_is_kept(&server);
    assert_eq!(post(&server, INFER, BODY).status, 200);
    Grpc::connect(&server).answered(dummy());
    assert_eq!(post(&server, INFER, br#"{"inputs":[]}"#).status, 400);
    let state = state(&server);
    for counts in [&of(&state, "dummy"), &state["totals"]] {
        assert_eq!(
            (&counts["requests"], &counts["failed"]),
            (&json!(4), &json!(1))
        );
        let sizes = counts["latency"].as_array().unwrap();
        let count: u64 = sizes.iter().map(|size| size[1].as_u64().unwrap()).sum();
        assert_eq!(count, 4);
        assert!(counts["time_us"].as_u64().unwrap() > 0);
    }
    assert_eq!(state["bounds_us"].as_array().unwrap().len(), 33);
    assert_eq!(state["server"]["state"], "ready");
    assert_eq!(get(&server, "/metrics").status, 404);
    let page = open(&server, "/").text();
    assert!(page.contains("<dt>Requests answered</dt><dd data-live=\"requests\">4</dd>"));
}

fn history_is_kept(server: &Server) {
    let history = eventually("a sample with the requests", || {
        let history = get(server, "/dashboard/history").json();
        let servables = history["servables"].as_array().unwrap();
        (!servables.is_empty()).then(|| history.clone())
    });
    let [dummy] = &history["servables"].as_array().unwrap()[..] else {
        panic!("{history}");
    };
    assert_eq!(dummy["name"], "dummy");
    let sum = |series: &Value| -> u64 {
        let counts = series["requests"].as_array().unwrap().iter();
        counts.filter_map(Value::as_u64).sum()
    };
    assert_eq!((sum(dummy), sum(&history["totals"])), (2, 2));
    assert!(dummy["p99_us"][0].as_u64() > Some(0), "{dummy}");
    assert!(
        history["memory_kib"][0].as_u64() > Some(10_000),
        "{history}"
    );
    let now = state(server);
    assert!(now["tick"].as_u64() >= history["tick"].as_u64());
    assert!(of(&now, "dummy")["recent"]["p50_us"].as_u64() > Some(0));
    assert!(now["totals"]["recent"]["rate"].as_f64() > Some(0.0));
    // What is known already is not sent again.
    let tick = history["tick"].as_u64().unwrap();
    let newer = get(server, &format!("/dashboard/history?since={tick}")).json();
    let count = newer["tick"].as_u64().unwrap() - tick;
    assert_eq!(newer["span_ms"].as_array().unwrap().len() as u64, count);
    let none = get(server, "/dashboard/history?name=nobody").json();
    assert_eq!(none["servables"], json!([]));
}

#[test]
fn nodes_of_pipelines_have_times() {
    let (server, _) = &*KINDS;
    let before = of(&state(server), "runs");
    assert_eq!(
        before["nodes"],
        json!([{"name": "n", "runs": 0, "time_us": 0, "p50_us": null, "p99_us": null}])
    );
    let body = String::from_utf8(BODY.to_vec()).unwrap();
    let body = body.replace("\"b\"", "\"x\"");
    let answer = post(server, "/v2/models/runs/infer", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let after = of(&state(server), "runs");
    assert_eq!(after["nodes"][0]["runs"], 1);
    assert!(after["nodes"][0]["p99_us"].as_u64().is_some());
    let page = open(server, "/dashboard/servables/runs").text();
    assert!(page.contains("Nodes since the start"));
}

#[test]
fn the_head_of_the_page_is_asked_for_alone() {
    let server = Server::shared("dummy");
    let head = send(server, "HEAD", "/", &[BROWSER], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let length = head.header("content-length").unwrap();
    assert!(length.parse::<usize>().unwrap() > 1000);
}

#[test]
fn without_the_dashboard_answers_do_not_depend_on_what_is_accepted() {
    assert_eq!(open(&WITHOUT_DASHBOARD, "/").header("vary"), None);
}

#[test]
fn the_metrics_page_has_no_family_more() {
    let list = ["--metrics_enable", "--metrics_list=ovms_requests_success"];
    let server = Server::start_with("dummy", &list);
    post(&server, INFER, BODY);
    let page = get(&server, "/metrics").text();
    assert!(page.contains("ovms_requests_success{"));
    assert!(!page.contains("ovms_request_time_us"), "{page}");
    assert_eq!(of(&state(&server), "dummy")["requests"], 1);
}

#[test]
fn live_sequences_are_counted_and_a_server_that_drains_them_says_so() {
    let mut server = sequence::serve("running_total", &["--drain_sequences_seconds=60"]);
    let client = sequence::Client::connect(&server);
    let ask = || sequence::Ask::new("running_total", 1.0);
    let (first, _) = client.total(sequence::Wire::Raw, &ask().start());
    let (second, _) = client.total(sequence::Wire::Raw, &ask().start());
    assert_eq!(of(&state(&server), "running_total")["sequences"], 2);
    client.total(sequence::Wire::Raw, &ask().id(second).end());
    let now = state(&server);
    assert_eq!(of(&now, "running_total")["sequences"], 1);
    assert_eq!(now["totals"]["sequences"], 1);
    assert!(open(&server, "/").text().contains("stateful model"));

    assert_eq!(now["server"]["state"], "ready");
    server.signal("TERM");
    eventually("the state that says that it stops", || {
        (state(&server)["server"]["state"] == "stopping").then_some(())
    });
    let page = open(&server, "/").text();
    assert!(page.contains("The server is stopping: requests in flight go on"));
    client.total(sequence::Wire::Raw, &ask().id(first).end());
    drop(client);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn no_name_or_failure_becomes_markup() {
    let (server, _) = &*KINDS;
    let all = state(server);
    assert_eq!(of(&all, NASTY)["condition"], "ready");
    assert_eq!(of(&all, "<s>p</s>")["condition"], "failed");
    let page = open(server, "/?q=%22%3E%3Cscript%3E").text() + &open(server, "/").text();
    let name = "?name=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%22%27%26";
    let card = get(server, &format!("/dashboard/servable{name}")).text();
    let drawing = get(server, "/dashboard/drawing?name=%3Cs%3Ep%3C%2Fs%3E").text();
    for text in [&page, &card, &drawing] {
        for markup in [
            "<img src=x",
            "<b>bold",
            "<i>node",
            "<u>in",
            "<s>p",
            "\"><script>",
        ] {
            assert!(!text.contains(markup), "{markup} in {text}");
        }
    }
    assert!(card.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;"));
    assert!(page.contains("/nowhere/&lt;b&gt;bold"));
    assert!(drawing.contains("&lt;i&gt;node"));
}

#[test]
fn what_fails_says_why_and_what_serves_on_says_so() {
    let mut config = Config::of(&["broken", "dummy"]);
    config.model("lost", "/nowhere".as_ref());
    config.pipeline("p", "x", &[dl("n", "dumy", "b=request.x", "a=a")], "y=n.a");
    let nobody = PASS.replace("PassThroughCalculator", "Nobody");
    graphs::add(&mut config, "g", &nobody);
    graphs::add(&mut config, "stays", PASS);
    let server = config.serve();
    let all = state(&server);
    assert_eq!(
        all["totals"]["conditions"],
        json!({"failed": 4, "failing": 0, "warning": 0, "loading": 0, "ready": 2, "retired": 0})
    );
    let failure = |name: &str| {
        let entry = of(&all, name);
        assert_eq!(entry["condition"], "failed", "{name}");
        let own = entry["failure"]
            .as_str()
            .or(entry["versions"][0]["failure"].as_str());
        own.unwrap().to_owned()
    };
    assert!(failure("broken").contains("cannot read"));
    assert!(failure("lost").contains("The provided base path is invalid or doesn't exists"));
    assert!(failure("p").contains("did you mean `dummy`"));
    assert!(failure("g").contains("Nobody"), "{}", failure("g"));
    let page = open(&server, "/?state=failed").text();
    assert_eq!(page.matches("<details class=\"card failed\"").count(), 4);
    // It is drawn all the same, with what is missing.
    let drawing = get(&server, "/dashboard/drawing?name=p").text();
    assert!(drawing.contains("no such model"));
    what_serves_on_after_a_failed_reload_says_so(&server, &config);
}

fn what_serves_on_after_a_failed_reload_says_so(server: &Server, config: &Config) {
    let before = of(&state(server), "stays");
    assert_eq!(before["condition"], "ready");
    graphs::write(&config.beside("stays"), "node { calculator: \"Nobody\" }\n");
    graphs::reload(server);
    let after = of(&state(server), "stays");
    assert_eq!(after["condition"], "warning");
    assert_eq!(after["versions"][0]["state"], "AVAILABLE");
    assert_ne!(after["revision"], before["revision"]);
    graphs::write(&config.beside("stays"), PASS);
    graphs::reload(server);
    assert_eq!(of(&state(server), "stays")["condition"], "ready");
}

#[test]
fn drawings_are_those_of_the_command_line_with_lines_for_times() {
    // The texts, but for empty lines.
    let texts = |svg: &str| -> Vec<String> {
        let all = svg
            .split("</text>")
            .filter_map(|part| part.rsplit('>').next());
        let all = all.filter(|text| !text.trim().is_empty());
        all.map(str::to_owned).collect()
    };
    let (server, path) = &*KINDS;
    for (kind, name) in [("pipeline", "drawn"), ("graph", "g")] {
        let shown = cli::ovms([
            kind,
            "show",
            path.to_str().unwrap(),
            name,
            "--format",
            "svg",
        ]);
        let answer = get(server, &format!("/dashboard/drawing?name={name}"));
        assert_eq!(answer.header("content-type"), Some("image/svg+xml"));
        assert_eq!(texts(&answer.text()), texts(&shown.text()));
        // One node each, beside the ends.
        let lines = |svg: &str| svg.matches("class=\"time\"").count();
        assert_eq!([lines(&answer.text()), lines(&shown.text())], [1, 0]);
        // From what is kept.
        let again = get(server, &format!("/dashboard/drawing?name={name}"));
        assert_eq!(again.text(), answer.text());
    }
}

#[test]
fn many_servables_are_reported_of_in_parts() {
    let mut config = Config::of(&["dummy"]);
    for number in 0..240 {
        config.model(&format!("m{number:03}"), "/nowhere".as_ref());
    }
    let server = config.serve_with(&[]);
    let ask = |query: &str| get(&server, &format!("/dashboard/state{query}")).json();
    let names = |state: &Value| -> Vec<String> {
        let servables = state["servables"].as_array().unwrap().iter();
        servables
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = ask("");
    assert_eq!((&first["found"], names(&first).len()), (&json!(241), 50));
    let most = ask("?limit=100000");
    assert_eq!(names(&most).len(), 100);
    // What has failed comes first.
    let last = ask("?offset=239");
    assert_eq!(names(&last), ["m239", "dummy"]);
    assert_eq!(names(&ask("?offset=99999999999")), [""; 0]);
    let some = ask("?q=M23&state=failed&limit=3&offset=8");
    assert_eq!(
        (&some["found"], names(&some)),
        (&json!(10), vec!["m238".into(), "m239".into()])
    );
    assert_eq!(names(&ask("?state=ready")), ["dummy"]);
    let page = open(&server, "/?q=m&offset=50").text();
    assert_eq!(page.matches("<details class=").count(), 50);
    assert!(page.len() < 200_000, "{}", page.len());
    assert!(page.contains("51 to 100 of 241"));
    assert!(page.contains("href=\"/?q=m&amp;offset=100\""));
    assert!(page.contains("href=\"/?q=m\""));
}

#[test]
fn the_lines_to_try_work() {
    let (server, _) = &*KINDS;
    for name in ["dummy", "passthrough_string", "running%20total"] {
        let card = get(server, &format!("/dashboard/servable?name={name}")).text();
        let lines: Vec<String> = card
            .split("<code>")
            .skip(1)
            .map(|rest| rest.split("</code>").next().unwrap())
            .map(|line| line.replace("&#39;", "'").replace("&quot;", "\""))
            .collect();
        let [infer, curl] = lines.try_into().unwrap();
        // The client of the tests says that it has reached the host `test`.
        let infer = infer.replace("--url test:", "--url 127.0.0.1:");
        let shell = |line: &str, program: &std::path::Path| {
            let mut command = std::process::Command::new("sh");
            command.args(["-ec", line]);
            let folder = program.parent().unwrap().to_str().unwrap().to_owned();
            let path = std::env::var("PATH").unwrap();
            cli::run(command.env("PATH", format!("{folder}:{path}")))
        };
        let ran = shell(&infer, cli::command().get_program().as_ref());
        assert_eq!(ran.code, Some(0), "{infer}: {}", ran.failure());
        let (path, body) = curl.split_once(" -d ").unwrap();
        let path = path.strip_prefix("curl http://test").unwrap();
        let body = body.trim_matches('\'');
        let answer = post(server, path, body.as_bytes());
        assert_eq!(answer.status, 200, "{curl}: {}", answer.text());
    }
}

#[test]
fn the_page_of_a_servable_has_lines_without_a_script() {
    let (server, _) = &*KINDS;
    for name in [
        "dummy",
        "passthrough_string",
        "other%20total",
        "large",
        "graph",
    ] {
        let page = get(server, &format!("/dashboard/servables/{name}")).text();
        let line = |id: &str| {
            let (_, rest) = page.split_once(&format!("<code id=\"{id}\">")).unwrap();
            let line = rest.split("</code>").next().unwrap();
            let line = line.replace("&#39;", "'").replace("&quot;", "\"");
            let line = line.replace("&lt;", "<").replace("&gt;", ">");
            // The client of the tests says that it has reached the host `test`.
            let here = format!("127.0.0.1:{}", server.rest_port);
            let line = line.replace("http://test/", &format!("http://{here}/"));
            line.replace("Client(\"test\")", &format!("Client(\"{here}\")"))
        };
        let curl = line("curl");
        let with_status = curl.replacen("curl -s", "curl -w '%{http_code}' -s", 1);
        let mut command = std::process::Command::new("sh");
        let ran = cli::run(command.args(["-ec", &with_status]));
        assert!(
            ran.text().ends_with("200"),
            "{curl}: {}{}",
            ran.text(),
            ran.failure()
        );
        let python = line("python");
        if name != "graph" {
            let mut command = std::process::Command::new(emulator::python());
            let ran = cli::run(command.args(["-c", &python]));
            assert_eq!(ran.code, Some(0), "{python}: {}", ran.failure());
        }
    }
}

#[test]
fn servables_that_fail_requests_say_so() {
    let mut config = Config::of(&["dummy"]);
    config.model("fails", &model("running_fail"));
    graphs::add_python(&mut config, "g", graphs::CODE);
    // Each failure waits for the model to be replaced.
    let server = config.serve_with(&["--recovery_interval_ms", "1"]);
    let client = Grpc::connect(&server);
    assert_eq!(of(&state(&server), "g")["condition"], "ready");
    let fails = |text: &str| graphs::reported(&client, graphs::code("g", &format!("raise {text}")));
    let answers = || {
        let answer = graphs::reported(&client, graphs::code("g", "return [Tensor('out', b'a')]"));
        assert!(answer.contains("out"), "{answer}");
    };
    fails("ValueError('seen')");
    let once = state(&server);
    assert_eq!(once["server"]["state"], "ready");
    assert_eq!(once["server"]["notice"], Value::Null);
    assert_eq!(of(&once, "g")["condition"], "warning", "it may be bad luck");
    fails("ValueError('seen')");
    fails("ValueError('<seen>')");
    answers();
    let failing = state(&server);
    assert_eq!(failing["server"]["state"], "failing");
    assert_eq!(failing["totals"]["conditions"]["failing"], 1);
    let notice = failing["server"]["notice"].as_str().unwrap();
    let begins = "1 servable fails requests. Last error of `g`: ";
    assert!(
        notice.starts_with(begins) && notice.contains("<seen>"),
        "{notice}"
    );
    let of_graph = of(&failing, "g");
    assert_eq!(of_graph["condition"], "failing");
    let error = of_graph["versions"][0]["last_error"].as_str().unwrap();
    assert!(error.contains("<seen>"), "{error}");
    let page = open(&server, "/").text();
    assert!(page.contains("<details class=\"card failing\""));
    assert!(page.contains("last failed request: "));
    assert!(page.contains(begins) && !page.contains("<seen>"), "{page}");

    // Three of 24 are one of eight.
    for _ in 1..21 {
        answers();
    }
    assert_eq!(of(&state(&server), "g")["condition"], "failing");
    answers();
    let unsteady = state(&server);
    assert_eq!(unsteady["server"]["state"], "ready");
    assert_eq!(unsteady["server"]["notice"], Value::Null);
    assert_eq!(of(&unsteady, "g")["condition"], "warning");
    a_model_of_which_every_request_fails_says_so_until_it_answers_again(&server, &client);
}

fn a_model_of_which_every_request_fails_says_so_until_it_answers_again(
    server: &Server,
    client: &Grpc,
) {
    // The model reshapes four numbers into so many rows, and fails unless that can be done.
    let ask = |rows: i64| {
        let mut request = request("fails", &[("x", &[1, 4], &[1.0; 4])]);
        request.inputs.push(input("split", "INT64", &[1]));
        request
            .raw_input_contents
            .push(rows.to_le_bytes().to_vec().into());
        client.infer(request)
    };
    for _ in 0..38 {
        assert_eq!(ask(3).unwrap_err().code(), tonic::Code::Internal);
    }
    let failing = state(server);
    assert_eq!(failing["server"]["state"], "failing");
    assert_eq!(of(&failing, "fails")["condition"], "failing");
    let notice = failing["server"]["notice"].as_str().unwrap();
    assert!(
        notice.starts_with(
            "1 servable fails requests. Last error of `fails`: Internal inference error"
        ),
        "{notice}"
    );
    let page = open(server, "/").text();
    let top = page.split("<main>").next().unwrap();
    assert!(top.contains("Internal inference error"), "{top}");
    // As many answers as are remembered leave none of the failures.
    for _ in 0..64 {
        ask(2).unwrap();
    }
    let healed = state(server);
    assert_eq!(healed["server"]["state"], "ready");
    assert_eq!(healed["server"]["notice"], Value::Null);
    assert_eq!(of(&healed, "fails")["condition"], "warning", "for a minute");
}

#[test]
fn no_line_to_try_fails_for_a_pipeline_that_splits() {
    let card = get(&KINDS.0, "/dashboard/servable?name=splits").text();
    assert!(card.contains("<code>ovms infer --metadata "), "{card}");
    assert!(!card.contains("/infer"), "{card}");
}
