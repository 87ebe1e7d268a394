//! `ovms pipeline new`: files are written completely or not at all.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use crate::{
    pipelines::new::{models, pipeline, run_in, shown},
    support::{cli::Run, repository},
};

/// Runs the program with a limit on file size, in blocks of 512 bytes; writes beyond it fail.
fn limited(folder: &Path, blocks: u32, args: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_ovms")]);
    run_in(folder, shell, args)
}

/// Returns the names of the entries of a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_custom_node_is_written_whole_or_not_at_all() {
    let folder = repository::folder();
    let head = ["new", "--custom-node", "mine"];
    let new = |more: &[&str]| limited(folder.path(), 10, &[&head, more].concat());
    // The header fits, the source does not.
    insta::assert_snapshot!(shown(&new(&["nodes/a"])), @"
    exit 1
    error: cannot write nodes/a/mine.cpp
      caused by: File too large (os error 27)
    ");
    assert!(
        names(folder.path()).is_empty(),
        "{:?}",
        names(folder.path())
    );

    // A file to be replaced, and a folder in the place of the next.
    let place = folder.path().join("nodes");
    fs::create_dir_all(place.join("config.json")).unwrap();
    fs::write(place.join("Makefile"), "mine").unwrap();
    let args = [&head[..], &["nodes", "--force"]].concat();
    insta::assert_snapshot!(shown(&pipeline(folder.path(), &args)), @"
    exit 1
    error: cannot write nodes/config.json
      caused by: Is a directory (os error 21)
    ");
    assert_eq!(names(&place), ["Makefile", "config.json"]);
    assert_eq!(fs::read_to_string(place.join("Makefile")).unwrap(), "mine");
}

#[test]
fn a_file_that_cannot_be_replaced_stays_as_it_was() {
    let folder = models();
    let place = folder.path().join("configs");
    fs::create_dir(&place).unwrap();
    let (path, link) = (place.join("p.json"), place.join("link.json"));
    fs::write(&path, "mine").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("p.json", &link).unwrap();
    let args = |file| ["new", "chain", "p", "models/line", "-o", file, "--force"];
    let run = limited(folder.path(), 1, &args("configs/p.json"));
    insta::assert_snapshot!(shown(&run), @"
    exit 1
    error: cannot write configs/p.json
      caused by: File too large (os error 27)
    ");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(names(&place), ["link.json", "p.json"]);

    // What a link leads to is replaced, and keeps its rights.
    let run = pipeline(folder.path(), &args("configs/link.json"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(link.is_symlink());
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("// A pipeline")
    );
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    // What is no file is written to.
    let run = pipeline(folder.path(), &args("/dev/null"));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!Path::new("/dev/null").is_file());
}
