//! Output at a terminal: in narrow and wide ones, after Ctrl-C, on a failed start, and when the
//! terminal is closed.

use std::{fs, path::Path, process::Command};

use ovms::model::demo;

use crate::support::{
    Server, busy,
    checks::{self, Case},
    cli,
    graphs::PYTHON,
    grpc::Grpc,
    http::get,
    model, repository,
    server::{free_ports, on},
    terminal::{INTERRUPT, Screen, run},
};

/// Widths of terminals, those of a phone and of half a screen among them.
const WIDTHS: [usize; 5] = [40, 50, 60, 80, 120];

/// Panics if the terminal wrapped a line, or a table is not closed on both sides.
fn whole(screen: &Screen) -> String {
    let text = screen.text();
    assert!(screen.broken.is_empty(), "{:?}\n{text}", screen.broken);
    for line in &screen.lines {
        if line.starts_with('│') && line.contains('┆') {
            assert!(line.ends_with('│'), "{line}\n{text}");
        }
    }
    text
}

#[test]
fn tables_of_answers_and_measurements_fit_the_terminal() {
    let server = Server::shared("dummy");
    let url = format!("127.0.0.1:{}", server.port);
    let values = "b=[0.00012345,1.234e-21,2.5,3e-9,4.125,5.75e-11,6,7,8,-9.87654e10]";
    let answer = ["infer", "dummy", "-i", values, "--url", &url];
    let measured = [&answer[..], &["--repeat", "3"]].concat();
    for columns in WIDTHS {
        for (args, beside, below) in [
            (&answer[..], "│ output ┆ datatype ┆ ", "│ datatype ┆ FP32 "),
            (&measured, "│ ok ┆ failed ┆ ", "│ failed  ┆ 0 "),
        ] {
            let screen = run(columns, args, &[], &[]);
            assert_eq!(screen.code, 0, "{screen:?}");
            let text = whole(&screen);
            let found = [beside, below].map(|start| text.contains(start));
            assert_eq!(found, [columns >= 80, columns < 80], "{columns}\n{text}");
            // Without lines they fit as well.
            let plain = run(columns, args, &[("NO_COLOR", Path::new("1"))], &[]);
            assert_eq!(plain.code, 0, "{plain:?}");
            let text = whole(&plain);
            assert!(!text.contains('│'), "{text}");
        }
    }
}

#[test]
fn reports_and_images_fit_the_terminal() {
    let case = Case::new();
    let long = "a_node_with_a_long_name";
    let nodes = [
        checks::node(long, "dummy", &["b < request.x"], &["a"], ""),
        checks::node("other", "dummy", &["b < request.x"], &["a"], ""),
        checks::node("last", "dummy", &[&format!("b < {long}.a")], &["a"], ""),
    ];
    let outputs = ["y < last.a", "z < other.a"];
    let pipeline = checks::pipeline("p", &nodes, &outputs, "");
    case.config(&checks::file(&[checks::dummy()], &[], &[pipeline]));
    let file = case.path().join("config.json");
    let graph = case.path().join("graph.pbtxt");
    fs::write(&graph, PYTHON).unwrap();
    let [file, graph] = [&file, &graph].map(|path| path.to_str().unwrap());
    for columns in WIDTHS {
        let report = run(
            columns,
            &["pipeline", "run", file, "p", "--zeros"],
            &[],
            &[],
        );
        assert_eq!(report.code, 0, "{report:?}");
        let text = whole(&report);
        assert!(text.contains(&format!(" {long} ")), "{text}");
        for args in [["pipeline", "show", file], ["graph", "show", graph]] {
            let shown = run(columns, &args, &[], &[]);
            assert_eq!(shown.code, 0, "{shown:?}");
            whole(&shown);
        }
    }
    // A pipe is no terminal, however narrow the window around it is.
    let [piped, wide] = ["40", "200"].map(|columns| {
        cli::run(
            cli::command()
                .args(["pipeline", "show", file])
                .env("COLUMNS", columns),
        )
        .text()
    });
    assert_eq!(piped, wide);
    let longest = piped.lines().map(|line| line.chars().count()).max();
    assert!(longest > Some(50) && longest <= Some(80), "{piped}");
}

#[test]
fn an_interrupted_load_leaves_its_report_alone() {
    let server = Server::shared("dummy");
    let url = format!("127.0.0.1:{}", server.port);
    let args = [
        "infer",
        "dummy",
        "--random",
        "--duration",
        "60s",
        "--url",
        &url,
    ];
    for columns in [50, 80] {
        // The bar is there, and then it is drawn once more.
        let screen = run(
            columns,
            &args,
            &[],
            &[(" answers", Some("")), (" answers", INTERRUPT)],
        );
        assert_eq!(screen.code, 130, "{screen:?}");
        let text = whole(&screen);
        for left in ["░", "█", " answers", "^C"] {
            assert!(!text.contains(left), "{left}\n{text}");
        }
        assert!(text.starts_with('┌'), "{text}");
        assert!(text.contains("\nerror: interrupted after "), "{text}");
    }
}

#[test]
fn a_failed_start_is_reported_once() {
    let folder = repository::folder();
    let log = folder.path().join("log");
    let nowhere = folder.path().join("nowhere");
    let ports = free_ports();
    let flags = on(ports);
    let mut args = vec![
        "serve",
        "--model_name",
        "m",
        "--model_path",
        nowhere.to_str().unwrap(),
    ];
    args.extend(flags.iter().map(String::as_str));
    let with_file = [&args[..], &["--log_path", log.to_str().unwrap()]].concat();
    for args in [&args, &with_file] {
        let screen = run(400, args, &[], &[]);
        assert_eq!(screen.code, 1, "{screen:?}");
        let text = screen.text();
        assert_eq!(text.matches("cannot load model `m`").count(), 1, "{text}");
        assert!(text.contains("\nerror: cannot load model `m`\n"), "{text}");
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert!(
        logged.contains(" ERROR cannot load model `m`: "),
        "{logged}"
    );
    // In a pipe the log stands for itself.
    let piped = cli::run(cli::command().args(&args));
    assert!(
        piped.text().contains(" ERROR cannot load model `m`: "),
        "{piped:?}"
    );
    assert!(
        piped.stderr.contains("error: cannot load model `m`\n"),
        "{piped:?}"
    );

    // In one file it would be there twice.
    let both = folder.path().join("both");
    let file = fs::File::create(&both).unwrap();
    let mut command = cli::command();
    command
        .args(&args)
        .stdout(file.try_clone().unwrap())
        .stderr(file);
    assert_eq!(command.status().unwrap().code(), Some(1));
    let text = fs::read_to_string(&both).unwrap();
    assert_eq!(text.matches("cannot load model `m`").count(), 1, "{text}");
    assert!(text.contains("\nhint: "), "{text}");

    let busy = std::net::TcpListener::bind(("127.0.0.1", ports.0)).unwrap();
    let dummy = model("dummy");
    let mut args = with_file.clone();
    args[4] = dummy.to_str().unwrap();
    let screen = run(400, &args, &[], &[]);
    drop(busy);
    assert_eq!(screen.code, 1, "{screen:?}");
    assert_eq!(
        screen.text().matches("port is busy").count(),
        1,
        "{screen:?}"
    );
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("port is busy"), "{logged}");

    let config = folder.path().join("config.json");
    fs::write(&config, "{").unwrap();
    let args = [
        "serve",
        "--config_path",
        config.to_str().unwrap(),
        "--port",
        "1",
        "--log_path",
    ];
    let args = [&args[..], &[log.to_str().unwrap()]].concat();
    let screen = run(400, &args, &[], &[]);
    assert_eq!(screen.code, 1, "{screen:?}");
    let text = screen.text();
    assert_eq!(text.matches("is no JSON").count(), 1, "{text}");
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("config.json"), "{logged}");
}

#[test]
fn a_server_stops_when_its_terminal_is_closed() {
    let folder = repository::folder();
    let flags = on(free_ports());
    let args = ["serve", "--demo"]
        .into_iter()
        .chain(flags.iter().map(String::as_str));
    let args: Vec<&str> = args.collect();
    let temporary: [(&str, &Path); 1] = [("TMPDIR", folder.path())];
    // What it tries to say then reaches nobody.
    let screen = run(80, &args, &temporary, &[("try  ", None)]);
    assert_eq!(screen.code, 0, "{screen:?}");
    assert!(screen.text().contains(demo::NAME), "{screen:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_hangup_stops_a_server_unless_it_was_ignored_from_the_start() {
    let mut heard = busy::through(&["env", "--default-signal=HUP"]);
    let grpc = Grpc::connect(&heard);
    let runs = busy::running(&heard, &grpc, busy::SECONDS);
    heard.signal("HUP");
    heard.wait_log("SIGHUP: stopping");
    // The system sends one, and then the shell another.
    heard.signal("HUP");
    busy::check(busy::SECONDS, &runs.wait());
    assert_eq!(heard.wait().code(), Some(0), "{}", heard.log());

    // As `nohup` does it.
    let program = cli::command();
    let mut command = Command::new("sh");
    let ports = free_ports();
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(on(ports));
    let mut ignored = Server::spawn(&mut command, ports);
    ignored.wait_ready();
    let status = fs::read_to_string(format!("/proc/{}/status", ignored.id())).unwrap();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:\t"));
    let mask = u64::from_str_radix(mask.unwrap(), 16).unwrap();
    assert_eq!(mask & 1, 1, "{status}");
    ignored.signal("HUP");
    assert_eq!(get(&ignored, "/v2/health/ready").status, 200);
    ignored.signal("TERM");
    assert_eq!(ignored.wait().code(), Some(0), "{}", ignored.log());
    assert!(
        !ignored.log().contains("SIGHUP: stopping"),
        "{}",
        ignored.log()
    );
}

#[test]
fn errors_help_and_checks_have_colours_at_a_terminal_alone() {
    let plain: &[(&str, &Path)] = &[("NO_COLOR", Path::new("1"))];
    let coloured = |args: &[&str]| {
        let screen = run(80, args, &[], &[]);
        let without = run(80, args, plain, &[]);
        assert_eq!(without.coloured, [""; 0], "{args:?}");
        assert_eq!(screen.code, without.code, "{args:?}");
        screen.coloured
    };
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    let config = config.to_str().unwrap();
    let words = coloured(&["serve", config]);
    assert!(words.contains(&"error".to_owned()), "{words:?}");
    let words = coloured(&["infer", "m", "--url", "localhost:1", "--zeros"]);
    assert_eq!(words, ["error", "caused by:", "hint:"]);
    let words = coloured(&["-h"]);
    assert!(words.iter().any(|word| word.contains("Usage")), "{words:?}");
    let dummy = model("dummy");
    let dummy = dummy.to_str().unwrap();
    let words = coloured(&["serve", "--check=syntax", dummy, "--port", "1"]);
    assert!(words.iter().any(|word| word.contains("ok")), "{words:?}");
    fs::write(config, r#"{"model_config_list": 7}"#).unwrap();
    let words = coloured(&["pipeline", "check", config]);
    assert!(words.contains(&"^".to_owned()), "{words:?}");
    let piped = cli::ovms(["pipeline", "check", config]);
    assert!(!piped.stderr.contains('\u{1b}'), "{}", piped.stderr);
}
