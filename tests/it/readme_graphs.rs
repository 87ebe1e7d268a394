//! The first graph of `README.md` works as it stands, and so do the commands of `ovms graph`.

use std::{fs, process::Command};

use crate::support::cli;

const README: &str = include_str!("../../README.md");

/// Returns the lines of an indented block that begins with this comment, without the indentation.
fn indented(begin: &str) -> String {
    let (_, block) = README
        .split_once(&format!("    # {begin}\n"))
        .expect("the block is there");
    let lines = block.lines().map_while(|line| line.strip_prefix("    "));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns a fenced block that begins with this comment.
fn fenced(begin: &str) -> &'static str {
    let (_, block) = README
        .split_once(&format!("# {begin}\n"))
        .expect("the block is there");
    block.split_once("\n```").expect("it ends").0
}

#[test]
fn the_first_graph_gives_back_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let echo = folder.path().join("echo");
    fs::create_dir(&echo).unwrap();
    fs::write(echo.join("model.py"), fenced("echo/model.py")).unwrap();
    fs::write(echo.join("graph.pbtxt"), indented("echo/graph.pbtxt")).unwrap();
    let ran = cli::ovms(["graph", "run", echo.to_str().unwrap(), "-i", "in=[1,2,3]"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.text().contains("out: FP32"), "{}", ran.text());
}

#[test]
fn the_commands_of_graphs_say_what_the_readme_says() {
    let (_, block) = README.split_once("$ ovms graph new shout").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let block = format!("$ ovms graph new shout{block}");
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for part in block.split("$ ovms ").skip(1) {
        let (command, told) = part.split_once('\n').unwrap_or((part, ""));
        let ran = Command::new(env!("CARGO_BIN_EXE_ovms"))
            .args(command.split_whitespace())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "ovms {command}: {ran:?}");
        for line in told.lines().filter(|line| !line.starts_with('…')) {
            assert!(stdout.contains(line.trim()), "ovms {command}: {stdout}");
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}
