//! Comment directive of a graph file for the number of pooled instances.

use crate::graph::file::PoolSize;

/// Name of the directive.
const NAME: &str = "OVMS_GRAPH_QUEUE_MAX_SIZE";

/// Finds the directives of a file, of which the first counts: lines that are comments,
/// `# OVMS_GRAPH_QUEUE_MAX_SIZE: 4`. Returns the position of each value, in bytes, and the value.
pub(in crate::graph) fn directives(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').filter_map(|line| {
        let comment = line.trim_start().strip_prefix('#')?;
        let named = comment.trim_start().strip_prefix(NAME)?;
        let value = named.trim_start().strip_prefix(':')?.trim();
        // Both are slices of the same text.
        Some((value.as_ptr() as usize - text.as_ptr() as usize, value))
    })
}

/// Parses the value of a directive.
pub(in crate::graph) fn pool_size(value: &str) -> Option<PoolSize> {
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
    use super::{directives, pool_size};
    use crate::graph::file::PoolSize;

    #[test]
    fn values_are_numbers_or_auto() {
        let size = |text: &str| directives(text).next().map(|(_, value)| pool_size(value));
        for (text, expected) in [
            ("# OVMS_GRAPH_QUEUE_MAX_SIZE: 4", PoolSize::Fixed(4)),
            ("a\n\t#OVMS_GRAPH_QUEUE_MAX_SIZE :AUTO\r\nb", PoolSize::Auto),
            ("#  OVMS_GRAPH_QUEUE_MAX_SIZE:0  \n", PoolSize::Off),
            (
                "#OVMS_GRAPH_QUEUE_MAX_SIZE:99999999999999999999999",
                PoolSize::Fixed(usize::MAX),
            ),
        ] {
            assert_eq!(size(text), Some(Some(expected)), "{text:?}");
        }
        for bad in ["-1", "many", "", "4 # four", "+4", "1.5", "auto"] {
            let text = format!("# OVMS_GRAPH_QUEUE_MAX_SIZE: {bad}\n");
            assert_eq!(size(&text), Some(None), "{bad:?}");
            assert_eq!(directives(&text).next().map(|(_, value)| value), Some(bad));
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
            assert_eq!(directives(text).next(), None, "{text:?}");
        }
    }

    #[test]
    fn all_are_found() {
        let text = "# OVMS_GRAPH_QUEUE_MAX_SIZE: 4\n# OVMS_GRAPH_QUEUE_MAX_SIZE: 5\n";
        let found: Vec<_> = directives(text).collect();
        assert_eq!(found, [(29, "4"), (text.len() - 2, "5")]);
    }
}
