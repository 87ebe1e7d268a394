//! What `README.md` says is so: its commands run, its flags and exit codes are those of the
//! program, and the links of all documents lead somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    Server,
    cli::{self, Run, ovms},
    infer::{tensor, write_npy},
    nodes::compiled,
    repository,
    server::{free_ports, on},
};

const README: &str = include_str!("../../README.md");

const SUBCOMMANDS: [&str; 5] = ["setup", "serve", "infer", "pipeline", "graph"];

/// The subcommands of `ovms pipeline`, which have flags of their own.
const OF_PIPELINES: [&str; 4] = ["show", "check", "run", "new"];

/// Those of `ovms graph`.
const OF_GRAPHS: [&str; 5] = ["new", "check", "show", "run", "stubs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A piece of code in the text.
#[derive(Debug)]
struct Code {
    text: String,
    /// The subcommand that its section is about.
    section: Option<&'static str>,
    /// Tells a command of a console block from a word in a sentence.
    is_command: bool,
}

impl Code {
    /// Finds every piece of code in the text.
    fn all() -> Vec<Self> {
        README
            .split("\n## ")
            .flat_map(|section| {
                let about = SUBCOMMANDS
                    .into_iter()
                    .find(|name| section.starts_with(&format!("ovms {name}\n")));
                let blocks = section.split("\n```");
                blocks.enumerate().flat_map(move |(index, block)| {
                    // Outside and inside of a fence take turns.
                    let texts = match (index % 2, block.strip_prefix("console\n")) {
                        (0, _) => words(block),
                        (_, Some(block)) => commands(block),
                        (_, None) => Vec::new(),
                    };
                    texts.into_iter().map(move |text| Self {
                        text,
                        section: about,
                        is_command: index % 2 == 1,
                    })
                })
            })
            .collect()
    }

    /// Finds the subcommand that the flags belong to; `None` if the code is none of ours.
    fn subcommand(&self) -> Option<&'static str> {
        let own = match self.text.split_once(' ') {
            Some(("ovms", rest)) => rest,
            _ if self.text.starts_with("--") => return self.section,
            _ => return None,
        };
        let first = own.split_whitespace().next()?;
        if first.starts_with("--") {
            return Some("serve");
        }
        SUBCOMMANDS.into_iter().find(|name| *name == first)
    }
}

/// Returns the code between backticks.
fn words(text: &str) -> Vec<String> {
    let pieces = text.split('`').skip(1).step_by(2);
    pieces.map(|piece| piece.replace('\n', " ")).collect()
}

/// Returns the commands of a console block without their comments.
fn commands(block: &str) -> Vec<String> {
    let block = block.replace("\\\n", " ");
    let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
    commands
        .map(|command| match command.split_once("  #") {
            Some((command, _)) => command.trim_end().to_owned(),
            None => command.to_owned(),
        })
        .collect()
}

/// Returns the commands that have a text in them.
fn commands_with(text: &str) -> Vec<String> {
    let found: Vec<_> = Code::all()
        .into_iter()
        .filter(|code| code.is_command && code.text.contains(text))
        .map(|code| code.text)
        .collect();
    assert!(!found.is_empty(), "README.md has no command with {text}");
    found
}

/// Returns the names of the flags in a text.
fn flags(text: &str) -> BTreeSet<String> {
    let is_of_flag = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    text.split(|c| !is_of_flag(c))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(str::to_owned)
        .collect()
}

/// Makes a command fit for a test: ports of its own, and no long loads.
fn shortened(command: &str, (port, rest_port): (u16, u16)) -> String {
    let mut words = Vec::new();
    for word in command.split(' ') {
        match words.last().map(String::as_str) {
            Some("--duration") => words.push("200ms".to_owned()),
            _ => words.push(word.replace("localhost:8000", &format!("localhost:{rest_port}"))),
        }
    }
    if command.starts_with("ovms infer ") {
        let own = if command.contains("-rest") {
            rest_port
        } else {
            port
        };
        words.push(format!("--url 127.0.0.1:{own}"));
    }
    words.join(" ")
}

/// Runs a command in a shell, with the program of this build as `ovms`.
fn shell(command: &str, folder: &Path) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_ovms"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("PATH", path);
    cli::run(shell.current_dir(folder))
}

/// Runs the commands that name a model, from the folder of the project.
fn run_all(model: &str, server: &Server) {
    run_all_in(root(), model, server);
}

/// Runs the commands that name a model.
fn run_all_in(folder: &Path, model: &str, server: &Server) {
    for command in commands_with(model) {
        let command = shortened(&command, (server.port, server.rest_port));
        let run = shell(&command, folder);
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
        if command.starts_with("curl ") {
            let answer: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
            assert_eq!(answer.get("error"), None, "{command}");
        } else {
            assert_ne!(run.text(), "", "{command}");
        }
    }
}

#[test]
fn the_commands_on_the_demo_run() {
    let serve = commands_with("--demo").remove(0);
    let ports = free_ports();
    let mut command = cli::command();
    command.args(serve.split(' ').skip(1)).args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    run_all(" classifier", &server);
    run_all("/classifier", &server);
}

#[test]
fn the_commands_on_dummy_run() {
    let server = Server::start("dummy");
    run_all(" dummy", &server);
    run_all("/dummy", &server);
}

#[test]
fn the_commands_on_sequences_run() {
    let server = serve_as_told("vad");
    let folder = repository::folder();
    std::os::unix::fs::symlink(root().join("fixtures"), folder.path().join("fixtures")).unwrap();
    for name in ["first.npy", "next.npy", "last.npy"] {
        write_npy(&folder.path().join(name), &tensor(&[1, 512], &[0.0; 512]));
    }
    run_all_in(folder.path(), "infer vad", &server);
    assert!(folder.path().join("results/prob.npy").exists());
}

#[test]
fn the_answers_on_sequences_are_those_that_are_shown() {
    let server = serve_as_told("total");
    for command in commands_with("/total:predict") {
        let (_, shown) = README
            .split_once(command.split("-d").last().unwrap().trim())
            .expect("it is from there");
        let shown = shown.trim_start().lines().next().unwrap();
        let run = shell(
            &shortened(&command, (server.port, server.rest_port)),
            root(),
        );
        assert_eq!(run.text().trim_end(), shown, "{command}");
    }
}

/// The picture in the text is what the program draws.
#[test]
fn the_picture_of_a_pipeline_is_that_which_is_shown() {
    let folder = repository::folder();
    let fixtures = folder.path().join("fixtures");
    let example = fixtures.join("pipelines/ocr");
    fs::create_dir_all(&example).unwrap();
    let config = root().join("fixtures/pipelines/ocr/config.json");
    fs::copy(config, example.join("config.json")).unwrap();
    std::os::unix::fs::symlink(root().join("fixtures/models"), example.join("models")).unwrap();
    let library = example.join("libocr_crops.so");
    fs::copy(compiled("ocr_crops.cpp"), library).unwrap();
    for command in commands_with("pipelines/ocr") {
        let run = shell(&format!("LC_ALL=C.UTF-8 {command}"), folder.path());
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
        let shown = format!("$ {command}\n{}", run.text());
        assert!(README.contains(&shown), "{shown}");
    }
}

/// Serves a model with the command that is told, on other ports.
fn serve_as_told(name: &str) -> Server {
    let told = commands_with(&format!("serve --model_name {name} ")).remove(0);
    let (flags, _) = told.split_once(" --port").expect("the ports are told");
    let ports = free_ports();
    let mut command = cli::command();
    command.args(flags.split(' ').skip(1)).args(on(ports));
    let server = Server::spawn(command.current_dir(root()), ports);
    server.wait_ready();
    server
}

/// Models that are not here are told to be missing, and no flag is.
#[test]
fn the_other_commands_are_understood() {
    let folder = repository::folder();
    for command in commands_with(" resnet")
        .into_iter()
        .chain(commands_with(" adder"))
    {
        let (port, rest_port) = free_ports();
        let command = shortened(&command, (port, rest_port))
            .replace("--port 9000", &format!("--port {port}"))
            .replace("--rest_port 8000", &format!("--rest_port {rest_port}"));
        let run = shell(&command, folder.path());
        let serves = command.starts_with("ovms serve ");
        // A file that is missing is found before the server is.
        let expected: &[i32] = if serves { &[1] } else { &[1, 69] };
        let code = run.code.unwrap();
        assert!(expected.contains(&code), "{command}: {}", run.failure());
        if code == 1 {
            let text = &run.stderr;
            assert!(
                text.contains("No such file or directory"),
                "{command}: {text}"
            );
        }
    }
}

#[test]
fn every_command_is_of_a_kind_that_is_run() {
    for code in Code::all().iter().filter(|code| code.is_command) {
        let text = &code.text;
        let models = [
            "classifier",
            "dummy",
            "resnet",
            "adder",
            "vad",
            "total",
            "pipelines/ocr",
            "shout",
            "--demo",
        ];
        let is_run = models.iter().any(|model| text.contains(model));
        assert!(is_run || text == "ovms setup", "nothing runs `{text}`");
    }
}

#[test]
fn every_flag_is_in_the_help() {
    let known: BTreeMap<&str, BTreeSet<String>> = SUBCOMMANDS
        .into_iter()
        .map(|name| {
            let help = match name {
                "pipeline" => OF_PIPELINES
                    .map(|of| ovms([name, of, "--help"]).text())
                    .concat(),
                "graph" => OF_GRAPHS
                    .map(|of| ovms([name, of, "--help"]).text())
                    .concat(),
                name => ovms([name, "--help"]).text(),
            };
            (name, flags(&help))
        })
        .collect();
    let mut seen = 0;
    for code in Code::all() {
        let Some(subcommand) = code.subcommand() else {
            continue;
        };
        for flag in flags(&code.text) {
            seen += 1;
            assert!(
                known[subcommand].contains(&flag),
                "`{}`: `ovms {subcommand} --help` has no `{flag}`",
                code.text
            );
        }
    }
    assert!(seen > 40, "{seen} flags are found");
}

/// Flags of other sections and of other programs would escape the test above.
#[test]
fn every_flag_is_shown_with_its_subcommand() {
    for code in Code::all() {
        let is_of_another = ["cargo ", "curl "]
            .iter()
            .any(|program| code.text.starts_with(program));
        let has_flags = !flags(&code.text).is_empty();
        assert!(
            !has_flags || is_of_another || code.subcommand().is_some(),
            "whose flags are in `{}`?",
            code.text
        );
    }
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let (_, table) = README.split_once("\nExit codes, ").unwrap();
    let documented: BTreeSet<u8> = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| row.split('|').nth(1)?.trim().parse().ok())
        .collect();
    let (_, codes) = include_str!("../../commands/error.rs")
        .split_once("fn code(self) -> u8 {")
        .unwrap();
    let codes: BTreeSet<u8> = codes
        .lines()
        .take_while(|line| *line != "}")
        .filter_map(|line| line.split_once("=> ")?.1.strip_suffix(',')?.parse().ok())
        .collect();
    assert!(codes.len() > 3, "{codes:?}");
    assert_eq!(documented, codes);
}

#[test]
fn every_target_of_make_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let indented = README
        .lines()
        .filter_map(|line| line.strip_prefix("    make "));
    let all = Code::all();
    let inline = all
        .iter()
        .filter_map(|code| code.text.strip_prefix("make "));
    let mut seen = 0;
    for target in indented.chain(inline) {
        let target = target.split_whitespace().next().unwrap();
        seen += 1;
        assert!(
            makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:"))),
            "the Makefile has no target {target}"
        );
    }
    assert!(seen > 2);
}

#[test]
fn links_lead_to_files() {
    let mut documents: Vec<PathBuf> =
        vec![root().join("README.md"), root().join("fixtures/README.md")];
    let docs = fs::read_dir(root().join("docs")).unwrap().flatten();
    documents.extend(
        docs.map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md")),
    );
    let mut faults = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1) {
            let (target, _) = link.split_once(')').unwrap();
            let path = target.split('#').next().unwrap();
            let is_elsewhere = path.is_empty() || path.contains("://");
            if !is_elsewhere && !document.with_file_name(path).exists() {
                faults.push(format!("{} has a link to {target}", document.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
