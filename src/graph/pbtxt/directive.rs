//! Comment directive of a graph file for the number of pooled instances.

use crate::graph::plan::PoolSize;

/// Name of the directive.
const NAME: &str = "OVMS_GRAPH_QUEUE_MAX_SIZE";

/// Directive of a file.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::graph) struct Directive {
    /// Position of its value, in bytes.
    pub(in crate::graph) at: usize,
    /// Parsed value, or its text if invalid.
    pub(in crate::graph) size: Result<PoolSize, String>,
    /// Position of a second directive, which is ignored.
    pub(in crate::graph) again: Option<usize>,
}

/// Finds the directive of a file: a line that is a comment, `# OVMS_GRAPH_QUEUE_MAX_SIZE: 4`.
pub(in crate::graph) fn directive(text: &str) -> Option<Directive> {
    let mut found: Option<Directive> = None;
    for line in text.split_inclusive('\n') {
        let comment = line.trim_start().strip_prefix('#');
        let named = comment.and_then(|comment| comment.trim_start().strip_prefix(NAME));
        let value = named.and_then(|rest| rest.trim_start().strip_prefix(':'));
        let Some(value) = value.map(str::trim) else {
            continue;
        };
        // Both are slices of the same text.
        let at = value.as_ptr() as usize - text.as_ptr() as usize;
        match &mut found {
            None => {
                found = Some(Directive {
                    at,
                    size: size(value).ok_or_else(|| value.to_owned()),
                    again: None,
                });
            }
            Some(first) => first.again = first.again.or(Some(at)),
        }
    }
    found
}

fn size(value: &str) -> Option<PoolSize> {
    if value == "AUTO" {
        return Some(PoolSize::Auto);
    }
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The value is capped at the number of processors anyway, so it cannot be too large.
    Some(match value.parse().unwrap_or(usize::MAX) {
        0 => PoolSize::Off,
        size => PoolSize::Fixed(size),
    })
}

#[cfg(test)]
mod tests {
    use super::directive;
    use crate::graph::plan::PoolSize;

    #[test]
    fn values_are_numbers_or_auto() {
        let size = |text: &str| directive(text).map(|found| found.size);
        for (text, expected) in [
            ("# OVMS_GRAPH_QUEUE_MAX_SIZE: 4", PoolSize::Fixed(4)),
            ("a\n\t#OVMS_GRAPH_QUEUE_MAX_SIZE :AUTO\r\nb", PoolSize::Auto),
            ("#  OVMS_GRAPH_QUEUE_MAX_SIZE:0  \n", PoolSize::Off),
            (
                "#OVMS_GRAPH_QUEUE_MAX_SIZE:99999999999999999999999",
                PoolSize::Fixed(usize::MAX),
            ),
        ] {
            assert_eq!(size(text), Some(Ok(expected)), "{text:?}");
        }
        for bad in ["-1", "many", "", "4 # four", "+4", "1.5", "auto"] {
            let text = format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: {bad}\n");
            assert_eq!(size(&text), Some(Err(bad.to_owned())), "{bad:?}");
        }
    }

    #[test]
    fn only_lines_of_comment_count() {
        for text in [
            "node { } # OVMS_GRAPH_QUEUE_MAX_SIZE: 4",
            "name: \"# OVMS_GRAPH_QUEUE_MAX_SIZE: 4\"",
            "# OVMS_GRAPH_QUEUE_MAX_SIZE_X: 4",
            "# see OVMS_GRAPH_QUEUE_MAX_SIZE: 4",
            "# OVMS_GRAPH_QUEUE_MAX_SIZE 4",
        ] {
            assert_eq!(directive(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_first_counts() {
        let text = "# OVMS_GRAPH_QUEUE_MAX_SIZE: 4\n# OVMS_GRAPH_QUEUE_MAX_SIZE: 5\n";
        let found = directive(text).unwrap();
        assert_eq!(found.size, Ok(PoolSize::Fixed(4)));
        assert_eq!(found.again, Some(text.len() - 2));
        assert_eq!(found.at, 29);
    }
}
