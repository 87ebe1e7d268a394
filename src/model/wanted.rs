//! Selection of the versions to serve.

use crate::config::VersionPolicy;

/// Chooses from versions in rising order; returns them in rising order.
pub fn choose(policy: &VersionPolicy, existing: &[i64]) -> Vec<i64> {
    match policy {
        VersionPolicy::All => existing.to_vec(),
        VersionPolicy::Latest(count) => existing[existing.len().saturating_sub(*count)..].to_vec(),
        VersionPolicy::Specific(wanted) => existing
            .iter()
            .copied()
            .filter(|number| wanted.contains(number))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::config::VersionPolicy;

    #[test]
    fn policies_choose_from_what_exists() {
        let existing = [1, 3, 10];
        assert_eq!(choose(&VersionPolicy::All, &existing), existing);
        assert_eq!(choose(&VersionPolicy::default(), &existing), [10]);
        assert_eq!(choose(&VersionPolicy::Latest(2), &existing), [3, 10]);
        assert_eq!(choose(&VersionPolicy::Latest(9), &existing), existing);
        assert_eq!(
            choose(&VersionPolicy::Specific(vec![10, 2, 1]), &existing),
            [1, 10]
        );
        assert!(choose(&VersionPolicy::All, &[]).is_empty());
    }
}
