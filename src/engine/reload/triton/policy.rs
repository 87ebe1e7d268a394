//! `version_policy` of a `config.pbtxt`: the versions that are served.

use crate::{config::VersionPolicy, graph::OutlineField};

/// The setting.
pub(super) const POLICY: &str = "version_policy";

/// The kinds of policies.
const KINDS: [&str; 3] = ["latest", "all", "specific"];

/// Returns the policy that a file has, if there is one.
///
/// # Errors
///
/// Fails with the place, and with what was found and expected there, if it is none.
pub(super) fn read(fields: &[OutlineField]) -> Result<Option<VersionPolicy>, String> {
    let mut found: Option<(&OutlineField, &str)> = None;
    for field in fields {
        if let Some(value) = field.value().filter(|_| field.path == POLICY) {
            return Err(wrong(field, POLICY, value, "a message such as { all { } }"));
        }
        let Some(kind) = within(field, POLICY) else {
            continue;
        };
        // What is further in has the kind in front.
        if kind.contains('.') {
            continue;
        }
        if !KINDS.contains(&kind) {
            let expected = format!("one of {}", KINDS.join(", "));
            return Err(wrong(field, POLICY, kind, &expected));
        }
        match found {
            Some((_, first)) if first != kind => {
                let both = format!("{kind} beside {first}");
                return Err(wrong(field, POLICY, &both, "one of them"));
            }
            _ => found = Some((field, kind)),
        }
    }
    let Some((field, kind)) = found else {
        return Ok(None);
    };
    let path = format!("{POLICY}.{kind}");
    let mut latest = VersionPolicy::default();
    let mut versions = Vec::new();
    for (field, name) in fields
        .iter()
        .filter_map(|it| Some((it, within(it, &path)?)))
    {
        match (kind, name) {
            // None at all stands for the usual number there.
            ("latest", "num_versions") => match numbers(field, 0)?[..] {
                [] | [0] => {}
                [count, ..] => {
                    latest = VersionPolicy::Latest(usize::try_from(count).unwrap_or(usize::MAX));
                }
            },
            ("specific", "versions") => versions.extend(numbers(field, 1)?),
            _ => {
                let expected = match kind {
                    "latest" => "num_versions",
                    "specific" => "versions",
                    _ => "nothing in it",
                };
                return Err(wrong(field, &path, name, expected));
            }
        }
    }
    match kind {
        "latest" => Ok(Some(latest)),
        "all" => Ok(Some(VersionPolicy::All)),
        _ if versions.is_empty() => Err(wrong(
            field,
            &path,
            "no versions",
            "some, such as versions: [1, 3]",
        )),
        _ => Ok(Some(VersionPolicy::Specific(versions))),
    }
}

/// Returns the whole numbers of a field, which are not less than this.
fn numbers(field: &OutlineField, least: i64) -> Result<Vec<i64>, String> {
    let numbers = field.values.iter().map(|value| {
        let number: Option<i64> = value.parse().ok();
        let expected = || format!("a whole number from {least}");
        let number = number.filter(|number| *number >= least);
        number.ok_or_else(|| wrong(field, &field.path, value, &expected()))
    });
    numbers.collect()
}

/// Returns the path of a field below another one.
fn within<'a>(field: &'a OutlineField, outer: &str) -> Option<&'a str> {
    field.path.strip_prefix(outer)?.strip_prefix('.')
}

/// Returns the error of what stands at the place of a field.
fn wrong(field: &OutlineField, path: &str, found: &str, expected: &str) -> String {
    let (line, column) = field.place;
    format!("{line}:{column}: {path}: found {found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::{config::VersionPolicy, graph::outline};

    fn policy(text: &str) -> Result<Option<VersionPolicy>, String> {
        read(&outline(&format!("version_policy {{ {text} }}")).unwrap())
    }

    #[test]
    fn policies_are_read() {
        for (text, expected) in [
            ("latest { num_versions: 2 }", Some(VersionPolicy::Latest(2))),
            ("latest { }", Some(VersionPolicy::Latest(1))),
            ("latest { num_versions: 0 }", Some(VersionPolicy::Latest(1))),
            ("all { }", Some(VersionPolicy::All)),
            ("all: { }", Some(VersionPolicy::All)),
            (
                "specific { versions: [ 3, 1 ] }",
                Some(VersionPolicy::Specific(vec![3, 1])),
            ),
            (
                "specific: { versions: 2 versions: 4 }",
                Some(VersionPolicy::Specific(vec![2, 4])),
            ),
            ("", None),
        ] {
            assert_eq!(policy(text), Ok(expected), "{text}");
        }
        assert_eq!(read(&outline("name: 'm'").unwrap()), Ok(None));
    }

    #[test]
    fn what_is_no_policy_has_its_place() {
        let fail = |text| policy(text).unwrap_err();
        let errors = [
            fail("newest { }"),
            fail("latest { num_versions: two }"),
            fail("latest { num_versions: -1 }"),
            fail("latest { versions: 2 }"),
            fail("latest { }\nall { }"),
            fail("all { versions: 1 }"),
            fail("specific { }"),
            fail("specific {\n  versions: [ 1, -2 ] }"),
            read(&outline("version_policy: 'all'").unwrap()).unwrap_err(),
        ];
        insta::assert_snapshot!(errors.join("\n"), @"
        1:18: version_policy: found newest, expected one of latest, all, specific
        1:27: version_policy.latest.num_versions: found two, expected a whole number from 0
        1:27: version_policy.latest.num_versions: found -1, expected a whole number from 0
        1:27: version_policy.latest: found versions, expected num_versions
        2:1: version_policy: found all beside latest, expected one of them
        1:24: version_policy.all: found versions, expected nothing in it
        1:18: version_policy.specific: found no versions, expected some, such as versions: [1, 3]
        2:3: version_policy.specific.versions: found -2, expected a whole number from 1
        1:1: version_policy: found all, expected a message such as { all { } }
        ");
    }
}
