//! Calculators of the C++ server that are deliberately not included.

/// Names of the calculators and their purpose in graphs.
const ABSENT: [(&str, &str); 8] = [
    ("EmbeddingsCalculator", "embeddings"),
    ("EmbeddingsCalculatorOV", "embeddings"),
    ("HttpLLMCalculator", "large language models"),
    ("ImageGenCalculator", "image generation"),
    ("RerankCalculator", "reranking"),
    ("RerankCalculatorOV", "reranking"),
    ("S2tCalculator", "speech recognition"),
    ("T2sCalculator", "speech generation"),
];

/// Returns the purpose of a calculator that is deliberately not included.
#[must_use]
pub fn absent(name: &str) -> Option<&'static str> {
    let found = ABSENT.binary_search_by_key(&name, |(known, _)| known);
    found.ok().map(|place| ABSENT[place].1)
}

#[cfg(test)]
mod tests {
    use super::{super::find, ABSENT, absent};

    #[test]
    fn what_is_left_out_is_found_and_not_there() {
        assert!(ABSENT.is_sorted());
        for (name, what) in ABSENT {
            assert_eq!(absent(name), Some(what));
            assert!(find(name).is_none(), "{name}");
        }
        assert_eq!(absent("PassThroughCalculator"), None);
    }
}
