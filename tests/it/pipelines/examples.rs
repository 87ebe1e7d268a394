//! Example pipelines of the fixtures, each run once without a server.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    cli::{self, Run},
    fixture,
    infer::write_npy,
    nodes::{compiled, floats},
    repository,
};

/// Copies an example and builds its libraries, as its Makefile does.
fn example(name: &str, sources: &[&str]) -> TempDir {
    let folder = repository::folder();
    let config = fixture("pipelines").join(name).join("config.json");
    fs::copy(config, folder.path().join("config.json")).unwrap();
    symlink(fixture("models"), folder.path().join("models")).unwrap();
    for source in sources {
        let (stem, _) = source.split_once('.').unwrap();
        let library = folder.path().join(format!("lib{stem}.so"));
        fs::copy(compiled(source), library).unwrap();
    }
    folder
}

fn run(folder: &TempDir, args: &[&str]) -> Run {
    let config = folder.path().join("config.json");
    let head = ["pipeline", "run", config.to_str().unwrap()];
    cli::ovms(head.iter().chain(args))
}

/// Returns the number of runs of each node, and the shapes of the outputs.
fn counts_and_shapes(run: &Run) -> (BTreeMap<String, usize>, Value) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let nodes = report["nodes"].as_array().unwrap().iter();
    let counts = nodes.map(|node| {
        let name = node["name"].as_str().unwrap().to_owned();
        (name, node["runs"].as_array().unwrap().len())
    });
    let outputs = report["outputs"].as_array().unwrap().iter();
    let shapes = outputs.map(|output| {
        let name = output["name"].as_str().unwrap().to_owned();
        (name, output["shape"].clone())
    });
    (counts.collect(), shapes.collect())
}

fn counted<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    let named = counts.map(|(name, count)| (name.to_owned(), count));
    named.into()
}

#[test]
fn a_recogniser_runs_for_each_line_of_a_page() {
    let folder = example("ocr", &["ocr_crops.cpp"]);
    let page = format!("image=@{}", fixture("images/ocr_page.png").display());
    let run = run(&folder, &["ocr", "-i", &page, "--output", "json"]);
    let (counts, shapes) = counts_and_shapes(&run);
    assert_eq!(
        counts,
        counted([("detector", 1), ("lines", 1), ("recogniser", 12)])
    );
    assert_eq!(
        shapes,
        json!({"chars": [12, 1, 80, 71], "boxes": [12, 1, 4]})
    );
}

#[test]
fn a_page_without_lines_is_reported() {
    let folder = example("ocr", &["ocr_crops.cpp"]);
    let run = run(&folder, &["ocr", "--zeros"]);
    assert_eq!(run.code, Some(1), "{}", run.text());
    let expected = "Pipeline execution aborted due to no content from custom node";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[test]
fn parts_of_faces_are_gathered_from_the_inside_out() {
    let folder = example("faces", &["faces.c", "dominant.cpp"]);
    let image = folder.path().join("image.npy");
    write_npy(&image, &floats(&[1, 448, 896], &vec![1.0; 448 * 896]));
    let image = format!("image=@{}", image.display());
    let ask = |name| run(&folder, &[name, "-i", &image, "--output", "json"]);

    let (counts, shapes) = counts_and_shapes(&ask("faces"));
    let inner = [("detector", 1), ("landmarks", 4), ("part", 12), ("mood", 4)];
    assert_eq!(counts, counted(inner));
    assert_eq!(shapes, json!({"boxes": [4, 1, 4], "moods": [4, 1, 50]}));

    let (counts, shapes) = counts_and_shapes(&ask("company"));
    let mut outer = counted(inner);
    outer.insert("all".to_owned(), 1);
    assert_eq!(counts, outer);
    assert_eq!(shapes, json!({"dominant": [1, 1], "mean": [1, 50]}));
}
