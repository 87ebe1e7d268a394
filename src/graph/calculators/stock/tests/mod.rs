//! Tests of calculators, by themselves and combined.

pub(super) mod fake;
mod graphs;
pub(super) mod harness;

use super::{all, find};

#[test]
fn names_are_sorted_and_found() {
    let names: Vec<&str> = all().iter().map(|factory| factory.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
    for name in names {
        assert_eq!(find(name).unwrap().name, name);
        assert!(name.ends_with("Calculator"), "{name}");
    }
    assert!(find("NoCalculator").is_none());
}

#[test]
fn all_say_what_they_do() {
    for factory in all() {
        let about = factory.about;
        assert!(
            about.ends_with('.') && about.len() < 100,
            "{}: {about}",
            factory.name
        );
    }
}
