//! `docs/graphs.md` lists every calculator with the words that the program has for it. With `UPDATE_DOCS=1` the list is
//! written.

use std::{collections::BTreeMap, env, fs};

use ovms::graph::calculators;

/// The manual's page.
const PAGE: &str = concat!(env!("WORKSPACE_ROOT"), "/docs/graphs.md");

/// The head of the table.
const HEAD: &str = "| calculator | what it does |\n|---|---|\n";

/// Returns the names of a family, as in `Split{Float, Int}Vector`, and before it the one without such a word.
fn joined(names: &[&str]) -> String {
    let [first, .., last] = names else {
        return format!("`{}`", names[0]);
    };
    let same = |(a, b): &(char, char)| a == b;
    let before = first.chars().zip(last.chars()).take_while(same).count();
    let mut after = first.chars().rev().zip(last.chars().rev());
    let after = after.by_ref().take_while(same).count();
    // Words begin with a capital letter.
    let after = first[first.len() - after..].trim_start_matches(|c: char| c.is_lowercase());
    let before = first[..before].trim_end_matches(|c: char| c.is_uppercase());
    let word = |name: &&str| name.len() > before.len() + after.len();
    let words = names.iter().copied().filter(word);
    let words = words.map(|name| &name[before.len()..name.len() - after.len()]);
    let words = words.collect::<Vec<_>>().join(", ");
    let family = format!("`{before}{{{words}}}{after}`");
    match names.iter().all(word) {
        true => family,
        false => format!("`{before}{after}`, {family}"),
    }
}

#[test]
fn the_page_lists_every_calculator() {
    let mut by_purpose: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for factory in calculators::all() {
        by_purpose
            .entry(factory.about)
            .or_default()
            .push(factory.name);
    }
    let rows = by_purpose.iter().map(|(about, names)| {
        let about = about.trim_end_matches('.');
        let (first, rest) = about.split_at(1);
        format!("| {} | {}{rest} |\n", joined(names), first.to_lowercase())
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(HEAD).expect("the table is there");
    let end = rest.lines().take_while(|line| line.starts_with('|'));
    let end = end.map(|line| line.len() + 1).sum::<usize>();
    let (found, after) = rest.split_at(end);
    let wanted = rows.concat();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PAGE, [before, HEAD, &wanted, after].concat()).unwrap();
    } else {
        assert_eq!(found, wanted, "UPDATE_DOCS=1 sets it right");
    }
}

#[test]
fn families_are_one_name() {
    assert_eq!(joined(&["GateCalculator"]), "`GateCalculator`");
    let family = ["SplitFloatVector", "SplitIntVector"];
    assert_eq!(joined(&family), "`Split{Float, Int}Vector`");
    let family = ["FloatSize", "IntSize", "Size"];
    assert_eq!(joined(&family), "`Size`, `{Float, Int}Size`");
}
