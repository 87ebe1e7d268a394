//! Pickled objects, which run code when they are read: no input of the program is one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{Server, cli, repository};

/// Writes an array of NumPy whose one element would make a file when it is unpickled.
fn evil(folder: &Path, made: &Path) -> PathBuf {
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
    let padded = format!("{header:<117}\n");
    let length = u16::try_from(padded.len()).unwrap();
    let object = format!("cposix\nsystem\n(S'touch {}'\ntR.", made.display());
    let file = [
        &b"\x93NUMPY\x01\0"[..],
        &length.to_le_bytes(),
        padded.as_bytes(),
        object.as_bytes(),
    ];
    let path = folder.join("evil.npy");
    fs::write(&path, file.concat()).unwrap();
    path
}

#[test]
fn arrays_of_objects_are_refused_and_not_run() {
    let server = Server::shared("dummy");
    let folder = repository::folder();
    let made = folder.path().join("made");
    let npy = evil(folder.path(), &made);
    let url = format!("localhost:{}", server.port);
    for argument in [
        format!("b=@{}", npy.display()),
        format!("@{}", npy.display()),
    ] {
        let run = cli::ovms(["infer", "dummy", "--url", &url, "-i", &argument]);
        assert_ne!(run.code, Some(0), "{}", run.stderr);
        assert!(
            run.stderr.contains("found elements of type `|O`"),
            "{}",
            run.stderr
        );
    }
    assert!(!made.exists());
}

/// Modules of Python that run code of what they read.
const UNSAFE: [&str; 5] = ["pickle", "marshal", "shelve", "dill", "yaml"];

#[test]
fn the_package_of_handlers_reads_nothing_that_runs() {
    let root = Path::new(env!("WORKSPACE_ROOT"));
    let mut folders = vec![root.join("pyovms/python"), root.join("pyovms/src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            seen += 1;
            for module in UNSAFE {
                for way in [format!("import {module}"), format!("from {module} ")] {
                    assert!(!text.contains(&way), "{}: {way}", path.display());
                }
            }
        }
    }
    assert!(seen > 10, "{seen}");
}
