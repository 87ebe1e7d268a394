//! Completions end to end: real shells at a terminal, and a real server.

use std::{fs, io::Write, net::TcpListener, sync::LazyLock};

use crate::support::{
    Server,
    checks::{dummy, file, sound},
    cli, model,
    pipelines::Config,
    shells::{Shell, WITHIN},
    tools,
};

/// A server of servables with names of all kinds.
static SERVED: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "add"]);
    for name in ["a:b", "it's $HOME", "two words", "ta/lk", "run `id`;$(id)"] {
        config.model(name, &model("dummy"));
    }
    config.serve_kept(&[])
});

/// Typed lines, and the resulting arguments of the program.
const TYPED: [(&str, &str); 25] = [
    // Names, odd ones as one word.
    ("ovms infer du\t", "[infer][dummy]"),
    ("ovms infer a:\t", "[infer][a:b]"),
    ("ovms infer it\t", "[infer][it's $HOME]"),
    ("ovms infer tw\t", "[infer][two words]"),
    ("ovms infer 'tw\t", "[infer][two words]"),
    ("ovms infer \"it\t", "[infer][it's $HOME]"),
    ("ovms infer ta\t", "[infer][ta/lk]"),
    ("ovms infer ru\t", "[infer][run `id`;$(id)]"),
    ("ovms infer \"ru\t", "[infer][run `id`;$(id)]"),
    (
        "ovms infer --api kserve-grpc --top 3 du\t",
        "[infer][--api][kserve-grpc][--top][3][dummy]",
    ),
    // Inputs, with no space after the equals sign, and none that is given already.
    ("ovms infer dummy -i \t7", "[infer][dummy][-i][b=7]"),
    (
        "ovms infer add --input=inp\t2=5",
        "[infer][add][--input=input2=5]",
    ),
    (
        "ovms infer add -i input1=1 -i \t3",
        "[infer][add][-i][input1=1][-i][input2=3]",
    ),
    // Outputs and versions.
    (
        "ovms infer dummy --output-name \t",
        "[infer][dummy][--output-name][a]",
    ),
    (
        "ovms infer dummy --model-version \t",
        "[infer][dummy][--model-version][1]",
    ),
    // What the program knows itself: flags, values, files.
    ("ovms infer dummy --zer\t", "[infer][dummy][--zeros]"),
    ("ovms -q infer du\t", "[-q][infer][dummy]"),
    (
        "ovms serve --target_device GP\t",
        "[serve][--target_device][GPU]",
    ),
    (
        "ovms serve --target-dev\tGP\t",
        "[serve][--target-device][GPU]",
    ),
    ("ovms serve --log_level=DE\t", "[serve][--log_level=DEBUG]"),
    (
        "ovms --error-format json infer du\t",
        "[--error-format][json][infer][dummy]",
    ),
    ("ovms man pipeline sh\t", "[man][pipeline][show]"),
    (
        "ovms infer dummy -i b=@ima\t",
        "[infer][dummy][-i][b=@image.png]",
    ),
    (
        "ovms serve --config_path conf\t",
        "[serve][--config_path][config.json]",
    ),
    // Names of a file.
    (
        "ovms pipeline show conf\tso\t",
        "[pipeline][show][config.json][sound]",
    ),
];

fn completes(shell: &'static str) {
    let Some(shell) = Shell::new(shell) else {
        return;
    };
    fs::write(shell.folder().join("image.png"), "").unwrap();
    let pipelines = file(&[dummy()], &[], &[sound("sound"), sound("other")]);
    fs::write(shell.folder().join("config.json"), pipelines).unwrap();
    let url = format!("127.0.0.1:{}", SERVED.port);
    let got = shell.got(&url, &TYPED.map(|(typed, _)| typed));
    for ((typed, expected), got) in TYPED.iter().zip(got) {
        assert_eq!(got, *expected, "{typed:?}");
    }
}

/// Checks completion of names without a server: the word stays, and nothing is printed.
fn says_nothing(shell: &'static str) {
    let Some(shell) = Shell::new(shell) else {
        return;
    };
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    fs::write(shell.folder().join("broken.json"), "{").unwrap();
    let lines = [
        "ovms infer du\t".to_owned(),
        format!("ovms infer --url {silent} du\t"),
        "ovms infer dummy --output-name ou\t".to_owned(),
        "ovms infer --no-such-flag du\t".to_owned(),
        "ovms pipeline show broken.json xyz\t".to_owned(),
    ];
    let shown = shell.show("127.0.0.1:1", &lines);
    // Asking twice for one key would take twice as long.
    assert_eq!(shell.asked(), lines.len());
    for (typed, shown) in lines.iter().zip(shown) {
        let (before, got) = shown.rsplit_once("GOT").unwrap();
        let words: Vec<&str> = typed.split_whitespace().skip(1).collect();
        assert_eq!(got, format!("[{}]]END", words.join("][")), "{typed:?}");
        for word in [
            "error",
            "panicked",
            "refused",
            "caused by",
            "command not found",
        ] {
            assert!(!before.contains(word), "{typed:?}: {before}");
        }
    }
}

#[test]
fn bash_completes_names_flags_and_files() {
    completes("bash");
}

#[test]
fn zsh_completes_names_flags_and_files() {
    completes("zsh");
}

#[test]
fn fish_completes_names_flags_and_files() {
    completes("fish");
}

#[test]
fn bash_says_nothing_where_there_is_nothing_to_ask() {
    says_nothing("bash");
}

#[test]
fn zsh_says_nothing_where_there_is_nothing_to_ask() {
    says_nothing("zsh");
}

#[test]
fn fish_says_nothing_where_there_is_nothing_to_ask() {
    says_nothing("fish");
}

#[test]
fn fish_shows_what_it_knows_about_names() {
    let Some(shell) = Shell::new("fish") else {
        return;
    };
    let server = Server::shared("dummy");
    let url = format!("127.0.0.1:{}", server.port);
    let fish = tools::find("fish").unwrap();
    let listed = |line: &str| {
        let mut command = shell.command(&fish, &url);
        command.env("OVMS_COMPLETE_MS", WITHIN);
        command.arg("-c").arg(format!("complete -C '{line}'"));
        cli::run(&mut command).text()
    };
    assert_eq!(listed("ovms infer "), "dummy\t1 READY\n");
    assert_eq!(listed("ovms infer dummy -i "), "b=\tFP32 [1,10]\n");
    assert_eq!(
        listed("ovms infer dummy --output-name="),
        "--output-name=a\tFP32 [1,10]\n"
    );
}

#[test]
fn the_script_of_power_shell_is_one() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("pwsh"));
    let Some(shell) = programs.find(|program| program.is_file()) else {
        // Not `eprintln`, which is kept back for tests that pass.
        let line = "skipped: completions of PowerShell: no pwsh here, and no package for it\n";
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    };
    let mut command = std::process::Command::new(shell);
    let parse = "$errors = $null; [void][System.Management.Automation.Language.Parser]::ParseFile(\
                 $args[0], [ref]$null, [ref]$errors); $errors; exit $errors.Count";
    command.args(["-NoProfile", "-Command", parse, "completions/ovms.ps1"]);
    let run = cli::run(command.current_dir(env!("WORKSPACE_ROOT")));
    assert_eq!(run.code, Some(0), "{}{}", run.text(), run.stderr);
}
