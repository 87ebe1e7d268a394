//! Calculators of the C++ server that are deliberately not included.

/// Returns the purpose of a calculator that is deliberately not included.
pub fn absent(name: &str) -> Option<&'static str> {
    Some(match name {
        "EmbeddingsCalculator" | "EmbeddingsCalculatorOV" => "embeddings",
        "HttpLLMCalculator" => "large language models",
        "ImageGenCalculator" => "image generation",
        "RerankCalculator" | "RerankCalculatorOV" => "reranking",
        "S2tCalculator" => "speech recognition",
        "T2sCalculator" => "speech generation",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::all, absent};

    #[test]
    fn what_is_left_out_is_found_and_not_there() {
        assert_eq!(absent("RerankCalculatorOV"), Some("reranking"));
        for factory in all() {
            assert_eq!(absent(factory.name), None);
        }
    }
}
