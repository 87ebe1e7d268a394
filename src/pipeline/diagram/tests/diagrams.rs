//! Diagrams of pipelines on a terminal.

use super::shapes;
use crate::draw::{Style, WIDTH, tests::trace, text};

fn drawn(pipeline: &str) -> String {
    text(&shapes::diagram(pipeline), Style::default())
}

#[test]
fn a_chain() {
    insta::assert_snapshot!(drawn(shapes::CHAIN));
}

#[test]
fn a_diamond() {
    insta::assert_snapshot!(drawn(shapes::DIAMOND));
}

#[test]
fn a_level_that_the_response_gathers() {
    insta::assert_snapshot!(drawn(shapes::GATHERED_BY_RESPONSE));
}

#[test]
fn a_level_that_a_node_gathers() {
    insta::assert_snapshot!(drawn(shapes::GATHERED_BY_NODE));
}

#[test]
fn a_level_in_another() {
    insta::assert_snapshot!(drawn(shapes::NESTED));
}

#[test]
fn a_fan() {
    insta::assert_snapshot!(drawn(shapes::FAN));
}

#[test]
fn a_split_request() {
    insta::assert_snapshot!(drawn(shapes::SPLIT_REQUEST));
}

#[test]
fn cycles_and_what_is_not_there() {
    insta::assert_snapshot!(drawn(shapes::BROKEN));
}

#[test]
fn models_and_libraries_that_are_not_there() {
    let image = drawn(shapes::MISSING);
    // Nobody has looked at the last one, which is no error.
    assert_eq!(image.matches("│ model far │").count(), 1, "{image}");
    insta::assert_snapshot!(image);
}

#[test]
fn ascii_only() {
    let style = Style {
        ascii: true,
        ..Style::default()
    };
    insta::assert_snapshot!(text(&shapes::diagram(shapes::NESTED), style));
}

#[test]
fn lines_lead_where_they_should() {
    for (name, diagram) in shapes::all().into_iter().chain(shapes::large()) {
        let image = text(&diagram, Style::default());
        let (seen, meant) = (trace::seen(&diagram), trace::meant(&diagram));
        assert!(seen.is_superset(&meant), "{name}\n{image}");
        assert!(seen == meant || name == "200 nodes", "{name}\n{image}");
        assert!(
            image.lines().all(|line| line.chars().count() <= WIDTH),
            "{image}"
        );
    }
}
