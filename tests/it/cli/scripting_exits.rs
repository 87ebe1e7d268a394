//! Exit codes of each subcommand, in one table. Exit code 130 on Ctrl-C is tested with the commands
//! that it interrupts.

use std::{fs, path::Path, process::Stdio};

use serde_json::json;

use crate::support::{
    Server,
    checks::{self, Case},
    cli::{self, Run},
    graphs::{PYTHON, TWO},
    model,
};

/// Environment of a command.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Environment of most tests.
    Usual,
    /// Environment without a runtime.
    Bare,
}

fn run(folder: &Path, place: Place, line: &str) -> Run {
    let mut command = match place {
        Place::Usual => cli::command(),
        Place::Bare => cli::bare(&folder.join("home")),
    };
    cli::run(command.current_dir(folder).args(line.split_whitespace()))
}

/// Writes the files for the commands of the table.
fn files(case: &Case, server: &Server) -> Vec<(&'static str, String)> {
    let folder = case.path();
    let dummy = checks::dummy();
    let wrong = checks::pipeline(
        "wrong",
        &[checks::node("only", "dumy", &["b < request.x"], &["a"], "")],
        &["y < only.a"],
        "",
    );
    case.config(&checks::file(
        std::slice::from_ref(&dummy),
        &[],
        &[checks::sound("sound"), wrong],
    ));
    let none = json!({"model_config_list": [{"config": {"name": "empty", "base_path": folder.join("empty")}}]});
    fs::create_dir_all(folder.join("empty")).unwrap();
    fs::write(folder.join("warned.json"), none.to_string()).unwrap();
    fs::write(folder.join("good.json"), checks::file(&[dummy], &[], &[])).unwrap();
    fs::write(folder.join("broken.json"), "{").unwrap();
    for (name, graph, handler) in [
        ("two", TWO, ""),
        ("faulty", PYTHON, "import nothing_there\n"),
    ] {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("graph.pbtxt"), graph).unwrap();
        fs::write(folder.join(name).join("handler.py"), handler).unwrap();
    }
    fs::create_dir_all(folder.join("packages")).unwrap();
    vec![
        ("{dummy}", model("dummy").display().to_string()),
        ("{url}", format!("127.0.0.1:{}", server.port)),
    ]
}

#[test]
fn each_subcommand_ends_with_the_codes_of_one_table() {
    use Place::{Bare, Usual};
    let server = Server::shared("dummy");
    let case = Case::new();
    let names = files(&case, server);
    let table = [
        (0, Usual, "--help"),
        (0, Usual, "serve --check --config_path good.json"),
        (1, Usual, "serve --check --config_path broken.json"),
        (1, Usual, "serve --config_path broken.json --port 1"),
        (2, Usual, "serve --check --config_path warned.json"),
        (64, Usual, "serve --nonsense"),
        (
            64,
            Usual,
            "serve --output json --model_name a --model_path b --port 1",
        ),
        (
            72,
            Bare,
            "serve --model_name dummy --model_path {dummy} --port 9999",
        ),
        (0, Usual, "serve --list_models --model_repository_path ."),
        (
            1,
            Usual,
            "serve --list_models --model_repository_path missing",
        ),
        (64, Usual, "serve --list_models"),
        (0, Usual, "infer dummy --zeros --url {url}"),
        (0, Usual, "infer --status --url {url}"),
        (0, Usual, "infer dummy --zeros --url {url} --print-curl"),
        (1, Usual, "infer nothing --zeros --url {url}"),
        (1, Usual, "infer dummy -i @missing.npy --url {url}"),
        (1, Usual, "infer dummy -i - --url {url}"),
        (64, Usual, "infer dummy --nonsense"),
        (64, Usual, "infer dummy --url {url}"),
        (64, Usual, "infer dummy -i nothing=1 --url {url}"),
        (69, Usual, "infer dummy --zeros --url 127.0.0.1:1"),
        (69, Usual, "infer --status --url 127.0.0.1:1"),
        (0, Usual, "pipeline show config.json sound"),
        (1, Usual, "pipeline show missing.json"),
        (1, Usual, "pipeline show good.json"),
        (64, Usual, "pipeline show config.json nobody"),
        (0, Usual, "pipeline check config.json sound"),
        (1, Usual, "pipeline check config.json"),
        (2, Bare, "pipeline check config.json sound"),
        (64, Usual, "pipeline check config.json nobody"),
        (0, Usual, "pipeline run config.json sound --zeros"),
        (1, Usual, "pipeline run config.json wrong --zeros"),
        (64, Usual, "pipeline run config.json nobody --zeros"),
        (64, Usual, "pipeline run config.json sound"),
        (72, Bare, "pipeline run config.json sound --zeros"),
        (0, Usual, "pipeline new chain pair {dummy} -o new.json"),
        (1, Usual, "pipeline new chain pair {dummy} -o new.json"),
        (64, Usual, "pipeline new chain dummy {dummy}"),
        (72, Bare, "pipeline new chain pair {dummy}"),
        (0, Usual, "pipeline new --custom-node crop node"),
        (1, Usual, "pipeline new --custom-node crop node"),
        (0, Usual, "graph show two"),
        (1, Usual, "graph show missing"),
        (64, Usual, "graph show"),
        (0, Usual, "graph check two"),
        (1, Usual, "graph check faulty"),
        (64, Usual, "graph check"),
        (0, Usual, "graph run two -i a=1"),
        (1, Usual, "graph run faulty -i in=1"),
        (64, Usual, "graph run two -i nothing=1"),
        (0, Usual, "graph new echo"),
        (1, Usual, "graph new echo"),
        (64, Usual, "graph new 1echo"),
        (72, Bare, "graph new looked --model {dummy}"),
        (0, Usual, "graph stubs --into packages"),
        (1, Usual, "graph stubs --into missing"),
        (64, Usual, "graph stubs --nonsense"),
        (0, Usual, "setup"),
        (64, Usual, "setup --nonsense"),
        (72, Bare, "setup --python /nonexistent"),
        (0, Usual, "completions bash"),
        (64, Usual, "completions nonsense"),
        (64, Usual, "nonsense"),
    ];
    let mut wrong = Vec::new();
    for (code, place, line) in table {
        let line = names.iter().fold(line.to_owned(), |line, (name, text)| {
            line.replace(name, text)
        });
        let run = run(case.path(), place, &line);
        if run.code != Some(code) {
            wrong.push(format!("{line}: expected {code}, found {}", run.failure()));
        }
        // Whoever fails has nothing half on stdout, and says why.
        let is_reported_so = line.contains("check") || line.contains("graph run");
        // The log of a server is its output.
        let is_data = !is_reported_so && !line.starts_with("serve --config_path");
        if code != 0 && is_data && (!run.stdout.is_empty() || run.stderr.is_empty()) {
            wrong.push(format!(
                "{line}: stdout {:?}, {}",
                run.text(),
                run.failure()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Help and version are output like any other: a full disk is an error, and a closed pipe is none.
#[test]
fn help_that_cannot_be_written_is_reported() {
    for line in [
        "--help",
        "--version",
        "",
        "help",
        "infer --help",
        "serve --version",
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (stdout, expected) in [
            (
                Stdio::from(full),
                "exit 1\nerror: cannot write the output\n  caused by: No space left on device (os error 28)\n",
            ),
            (Stdio::from(closed), "exit 0\n"),
        ] {
            let mut command = cli::command();
            command.args(line.split_whitespace());
            command.stdout(stdout).stderr(Stdio::piped());
            let output = command.spawn().unwrap().wait_with_output().unwrap();
            let run = Run {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: String::from_utf8(output.stderr).unwrap(),
            };
            assert_eq!(run.failure(), expected, "ovms {line}");
        }
    }
}
