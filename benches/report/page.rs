//! The page of results: blocks between two comments, each of which is replaced as a whole.

/// End marker of a block.
const END: &str = "<!-- end -->";

/// Name of the block with the sources, date and machine.
pub(crate) const RUN: &str = "run";

fn begin(name: &str) -> String {
    format!("<!-- bench: {name} -->")
}

/// Returns the page with a block replaced; `None` if it has no block of that name.
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
