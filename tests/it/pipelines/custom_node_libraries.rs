//! Libraries of custom nodes: opened, refused, and kept in the process.

use std::{fs, path::Path, process::Command};

use ovms::{
    custom_node::{HEADER, Library, LibraryError, Node},
    tensor::Tensor,
};

use crate::support::{
    fixture,
    nodes::{compile, compiled, compiled_with, numbers},
    repository,
};

const FUNCTIONS: [&str; 6] = [
    "initialize",
    "deinitialize",
    "execute",
    "getInputsInfo",
    "getOutputsInfo",
    "release",
];

fn refused(path: &Path) -> LibraryError {
    Library::open("lib", path).err().unwrap()
}

/// Returns the identity of a library of `who.c`.
fn who(path: &Path) -> i32 {
    let library = Library::open("who", path).unwrap();
    let node = Node::initialize(&library, []).unwrap();
    let outputs = node.execute(&[]).unwrap();
    let answer: &Tensor = ovms::tensor::named(&outputs, "who").unwrap();
    numbers(answer, i32::from_le_bytes)[0]
}

/// Returns whether a file is mapped into this process.
fn is_mapped(path: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(path.to_str().unwrap())
}

#[test]
fn each_missing_function_is_reported() {
    for function in FUNCTIONS {
        let path = compiled_with("who.c", &[&format!("-DWITHOUT_{function}")]);
        let error = refused(&path);
        assert!(matches!(error, LibraryError::Symbol { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("Failed to load library name: lib with error: ")
                && text.ends_with(&format!("undefined symbol: {function}")),
            "{text}"
        );
        assert!(!is_mapped(&path), "{function}");
    }
}

#[test]
fn the_interface_before_handles_is_refused() {
    let error = refused(&compiled("old_interface.c"));
    assert!(matches!(error, LibraryError::Symbol { .. }), "{error}");
    assert!(error.to_string().ends_with("undefined symbol: initialize"));
}

#[test]
fn what_is_no_library_is_reported() {
    let folder = repository::folder();
    let text = folder.path().join("text.so");
    fs::write(&text, "not a library").unwrap();
    let pipe = folder.path().join("pipe.so");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let mut said = String::new();
    for path in [
        &folder.path().join("missing.so"),
        &text,
        &pipe,
        folder.path(),
    ] {
        let error = refused(path);
        assert!(matches!(error, LibraryError::Open { .. }), "{error}");
        said += &format!("{error}\n").replace(folder.path().to_str().unwrap(), "<folder>");
    }
    insta::assert_snapshot!(said, @"
    Library name: lib failed to open base_path: <folder>/missing.so with error: <folder>/missing.so: cannot open shared object file: No such file or directory
    Library name: lib failed to open base_path: <folder>/text.so with error: <folder>/text.so: file too short
    Library name: lib failed to open base_path: <folder>/pipe.so with error: <folder>/pipe.so: not a regular file
    Library name: lib failed to open base_path: <folder> with error: <folder>: not a regular file
    ");
}

#[test]
fn a_library_that_is_cut_short_is_refused() {
    let whole = fs::read(compiled("who.c")).unwrap();
    let folder = repository::folder();
    // Sections with what is for debuggers come last; nobody misses them here.
    let mut refusals = 0;
    for length in (0..whole.len()).step_by(whole.len() / 64) {
        let path = folder.path().join(format!("cut{length}.so"));
        fs::write(&path, &whole[..length]).unwrap();
        match Library::open("cut", &path) {
            Ok(library) => drop(library),
            Err(LibraryError::Open { reason, .. }) if reason.contains("ends early") => {
                refusals += 1;
            }
            Err(error) => assert!(length < 64, "{length}: {error}"),
        }
    }
    assert!(refusals > 10, "{refusals}");
}

#[test]
fn paths_do_not_go_up() {
    let library = compiled("who.c");
    let folder = library.parent().unwrap();
    let file = library.file_name().unwrap();
    for up in [
        folder.join("../custom_nodes").join(file),
        Path::new("..").join(file),
        folder.join(".."),
    ] {
        let error = refused(&up);
        assert_eq!(
            error.to_string(),
            format!("Path {} escape with .. is forbidden.", up.display())
        );
    }
    // Dots in a name are none.
    let dotted = repository::folder();
    let path = dotted.path().join("..who..so");
    fs::copy(&library, &path).unwrap();
    assert!(Library::open("dotted", &path).is_ok());
}

#[test]
fn the_systems_libraries_are_not_searched() {
    let error = refused(Path::new("libc.so.6"));
    assert!(matches!(error, LibraryError::Open { .. }), "{error}");
    assert!(error.to_string().contains("./libc.so.6"), "{error}");
}

#[test]
fn functions_are_looked_up_when_they_are_called() {
    // It calls an undefined symbol, if asked to.
    let library = Library::open("hollow", &compiled_with("who.c", &["-DHOLLOW"])).unwrap();
    assert!(Node::initialize(&library, []).is_ok());
}

#[test]
fn libraries_do_not_call_each_other() {
    let [one, two] = ["-DWHO=1", "-DWHO=2"].map(|who| compiled_with("who.c", &[who]));
    let held = Library::open("held", &one).unwrap();
    let _node = Node::initialize(&held, []).unwrap();
    assert_eq!(who(&two), 2);
    assert_eq!(who(&one), 1);
}

#[test]
fn one_file_has_several_names() {
    let path = compiled("who.c");
    let [one, two] = ["one", "two"].map(|name| Library::open(name, &path).unwrap());
    assert_eq!((one.name(), two.name()), ("one", "two"));
    assert_eq!(one.path(), path);
    let node = Node::initialize(&two, []).unwrap();
    drop(one);
    assert!(node.execute(&[]).is_ok());
}

#[test]
fn a_library_stays_once_a_node_was_made_of_it() {
    let folder = repository::folder();
    let path = folder.path().join("libstays.so");
    fs::copy(compiled("who.c"), &path).unwrap();
    let unused = Library::open("unused", &path).unwrap();
    assert!(is_mapped(&path));
    drop(unused);
    assert!(!is_mapped(&path));
    assert_eq!(who(&path), 1);
    assert!(is_mapped(&path));
}

#[test]
fn a_file_that_was_refused_can_be_replaced() {
    let folder = repository::folder();
    let path = folder.path().join("libwho.so");
    fs::copy(compiled_with("who.c", &["-DWITHOUT_release"]), &path).unwrap();
    assert!(matches!(refused(&path), LibraryError::Symbol { .. }));
    let better = folder.path().join("better.so");
    fs::copy(compiled("who.c"), &better).unwrap();
    fs::rename(&better, &path).unwrap();
    assert_eq!(who(&path), 1);
}

#[test]
fn the_header_is_c_and_cpp_with_the_layout_of_the_interface() {
    compile("layout.c", &["-Werror", "-fsyntax-only"]);
    compile("layout.c", &["-x", "c++", "-Werror", "-fsyntax-only"]);
    for function in FUNCTIONS {
        assert!(HEADER.contains(&format!("int {function}(")), "{function}");
    }
}

#[test]
fn every_fixture_is_used() {
    let root = Path::new(env!("WORKSPACE_ROOT"));
    let folders = [
        "tests/conformance/pipelines",
        "tests/it/models",
        "tests/it/pipelines",
        "tests/it/support",
        "tests/clients",
        "fixtures",
        "fixtures/custom_nodes",
    ];
    let files = folders.iter().flat_map(|folder| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        entries.filter_map(|entry| fs::read_to_string(entry.unwrap().path()).ok())
    });
    let users: Vec<String> = files.collect();
    for entry in fs::read_dir(fixture("custom_nodes")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // In a test, or behind `library` in a sheet.
        let uses = [format!("\"{name}\""), format!(" {name}\n")];
        let is_used = |user: &String| uses.iter().any(|used| user.contains(used));
        assert!(users.iter().any(is_used), "{name}");
    }
}
