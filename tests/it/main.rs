//! Integration tests: the real program, the real runtime, real sockets.
//!
//! Tests that need the runtime find it through `OPENVINO_INSTALL_DIR`, which `make test` sets, or
//! wherever `ovms setup` finds one; without it they fail with a message.
#![expect(
    clippy::unwrap_used,
    reason = "all of this is tests, which may fail so"
)]

mod aside;
mod attacks;
mod cli;
mod graphs;
mod models;
mod ops;
mod pipelines;
mod protocol;
mod sequences;
mod support;
mod tree;

#[test]
fn every_file_is_in_the_list_of_its_folder() {
    let root = std::path::Path::new(concat!(env!("WORKSPACE_ROOT"), "/tests/it"));
    let mut folders = vec![(root.to_owned(), "main.rs")];
    while let Some((folder, list)) = folders.pop() {
        let listed = std::fs::read_to_string(folder.join(list)).unwrap();
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let module = match name.strip_suffix(".rs") {
                Some(_) if name == list => continue,
                Some(module) => module,
                None if path.join("mod.rs").exists() => {
                    folders.push((path.clone(), "mod.rs"));
                    &name
                }
                None => continue,
            };
            let is_listed = |line: &str| line.ends_with(&format!("mod {module};"));
            assert!(
                listed.lines().any(is_listed),
                "{} is not compiled",
                path.display()
            );
        }
    }
}
