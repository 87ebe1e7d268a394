//! The page that a run is written to: blocks between two comments, each of which is replaced whole.

/// Behind a block.
const END: &str = "<!-- end -->";

/// The name of the block that says what was measured, when and on what.
pub(crate) const RUN: &str = "run";

fn begin(name: &str) -> String {
    format!("<!-- bench: {name} -->")
}

/// Returns the page with another block of a name; `None` if it has none of that name.
pub(crate) fn replaced(page: &str, name: &str, block: &str) -> Option<String> {
    let begin = begin(name);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{begin}\n{block}\n{END}{after}"))
}

/// Returns the blocks of a page by their names.
pub(crate) fn blocks(page: &str) -> Vec<(&str, &str)> {
    page.split("<!-- bench: ")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once(" -->")?;
            let (block, _) = rest.split_once(END)?;
            Some((name, block.trim()))
        })
        .collect()
}
