//! Reading of the file: rights, credentials, and each error at its place.

use std::{fs, path::Path};

use super::{AuthFileError, AuthRules, AuthTerms, KeyDigest};
use crate::auth::Right;

const WITH_CA: AuthTerms = AuthTerms {
    has_client_ca: true,
};

fn parse(text: &str) -> Result<AuthRules, AuthFileError> {
    AuthRules::parse(text, Path::new("auth.toml"), WITH_CA)
}

fn refused(text: &str) -> String {
    parse(text)
        .unwrap_err()
        .to_string()
        .replace("; auth.toml", "\nauth.toml")
}

fn identity(more: &str) -> String {
    format!(
        "[[identity]]\nname = \"a\"\nkeys = [\"{}\"]\n{more}\n",
        KeyDigest::of(b"a")
    )
}

#[test]
fn identities_have_what_the_file_gives_them() {
    let text = format!(
        "open_health = false\nmax_failures_per_minute = 5\n{}\n[[identity]]\nname = \"b\"\n\
         certificates = [\"B.example\", \"spiffe://x/y\"]\nmetadata = [\"m\"]\nadmin = true\n",
        identity("infer = [\"resnet*\", \"m\"]\nmetrics = true")
    );
    let rules = parse(&text).unwrap();
    assert!(!rules.open_health);
    assert_eq!((rules.max_failures, rules.count()), (5, 2));
    let one = rules.of_key(&KeyDigest::of(b"a")).unwrap();
    assert!(one.may_infer("resnet50") && one.may_infer("m") && !one.may_infer("x"));
    // The same unless it is given.
    assert!(one.may_describe("resnet50") && !one.may_describe("x"));
    assert!(one.may(Right::Metrics) && !one.may(Right::Admin) && !one.may(Right::Dashboard));
    let names = ["x".to_owned(), "b.EXAMPLE".to_owned()];
    let other = rules.of_certificate(&names).unwrap();
    assert_eq!(other.name(), "b");
    // URIs have case, and hosts have none.
    let uri = |name: &str| rules.of_certificate(&[name.to_owned()]).is_some();
    assert!(uri("spiffe://x/y") && !uri("spiffe://x/Y"));
    assert!(!other.may_infer("m") && other.may_describe("m") && other.may(Right::Admin));
    assert!(rules.of_key(&KeyDigest::of(b"b")).is_none());
    assert!(rules.of_certificate(&names[..1]).is_none());
    assert!(rules.warnings().is_empty());
}

#[test]
fn the_usual_values_are_safe() {
    let rules = parse(&identity("metadata = []")).unwrap();
    let one = rules.of_key(&KeyDigest::of(b"a")).unwrap();
    assert!(rules.open_health && rules.max_failures == 60);
    assert!(!one.may_infer("m") && !one.may_describe("m") && !one.may(Right::Admin));
    insta::assert_snapshot!(rules.warnings()[0], @"auth.toml:1:1: identity `a` has no rights (give it some of infer, metadata, metrics, admin, and dashboard)");
}

#[test]
fn patterns_that_fit_nothing_are_found() {
    let rules = parse(&identity(
        "infer = [\"resnt\", \"ocr*\", \"*\"]\nmetadata = [\"x?\"]",
    ))
    .unwrap();
    let served = ["resnet".to_owned(), "ocr-v1".to_owned()];
    let found: Vec<String> = rules
        .unserved(&served)
        .iter()
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(found.join("\n"), @"
    auth.toml:4:10: nothing that is served fits `resnt` (did you mean `resnet`?)
    auth.toml:5:13: nothing that is served fits `x?`
    ");
}

#[test]
fn every_error_is_at_its_place() {
    insta::assert_snapshot!(refused(""), @"cannot use --auth auth.toml: auth.toml:1:1: found no [[identity]], so that nobody could do anything (`ovms key new` makes a key, with the lines for this file)");
    let says = |text: &str, expected: &[&str]| {
        let refused = refused(text);
        let found = expected.iter().all(|it| refused.contains(it));
        assert!(found, "{expected:?}: {refused}");
        assert_eq!(refused.lines().count(), expected.len(), "{refused}");
    };
    says("[[identity]\n", &["auth.toml:1:"]);
    says("[[identity]]\nname = 1\n", &["auth.toml:2:8: "]);
    says(
        &identity("infers = [\"m\"]"),
        &["auth.toml:4:1: unknown field `infers`"],
    );
    says(
        &identity("admin = \"yes\""),
        &["auth.toml:4:9: invalid type: a text, expected a boolean"],
    );
    says(
        &identity("infer = \"*\""),
        &["auth.toml:4:9: invalid type: a text, expected a list"],
    );
    says(
        &identity("limits = { requests_per_second = \"ten\" }"),
        &["invalid type: a text, expected a number"],
    );
    says(
        "[[identity]]\nname = \"\"\nkeys = [\"x\", \"sha256:12\"]\ninfer = [\"[\"]\n[[identity]]\nname = \"b\"\n",
        &[
            "auth.toml:2:8: found a name that is empty",
            "auth.toml:3:9: found a key that is no SHA-256",
            "auth.toml:3:14: found a key that is no SHA-256",
            "auth.toml:4:10: found a pattern that cannot be read",
            "identity `b` has no keys, certificates, or tokens",
        ],
    );
    says(
        &[identity(""), identity("")].concat(),
        &["found the name `a` twice", "found a key twice"],
    );
    says(
        "[[jwt]]\nissuer = \"\"\naudience = \"\"\njwks = \"http://id.example/keys\"\n[[jwt]]\nissuer = \"x\"\n\
         audience = \"ovms\"\njwks = \"nonexistent.json\"\n[[identity]]\nname = \"a\"\n\
         tokens = [{ subject = \"a\" }, { issuer = \"y\", subject = \"a\" }, { issuer = \"x\" }]\n",
        &[
            "auth.toml:2:10: found an empty issuer",
            "auth.toml:3:12: found an empty audience",
            "auth.toml:4:8: found a key set that is fetched in the clear",
            "auth.toml:8:8: cannot read the key set nonexistent.json",
            "found a token without its issuer",
            "found the issuer `y` that no [[jwt]] has",
            "found a token without subject and claims",
        ],
    );
    says(
        "[[identity]]\nname = \"a\"\ntokens = [{ subject = \"a\" }]\n",
        &["found tokens, and no [[jwt]] that says whose (add [[jwt]] with"],
    );
    let certificate = "[[identity]]\nname = \"a\"\ncertificates = [\"a.example\"]\n";
    let without = AuthRules::parse(certificate, Path::new("auth.toml"), AuthTerms::default());
    let without = without.unwrap_err().to_string();
    let expected = "auth.toml:3:17: found certificates, and the server does not verify any (give --tls-client-ca";
    assert!(without.contains(expected), "{without}");
}

#[test]
fn no_key_is_repeated() {
    let key = "ovms_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
    for text in [
        format!("[[identity]]\nname = \"a\"\nkeys = [\"{key}\"]\n"),
        format!("[[identity]]\nname = \"a\"\nkeys = \"{key}\"\n"),
        format!("[[identity]]\n{key} = 1\n"),
        format!("[[identity]]\nname = \"a\"\nkeys = [\"x{}\"]\n", &key[5..]),
        format!("[[identity]]\nname = \"a\"\nkeys = \"{}\"\n", &key[5..]),
    ] {
        let error = refused(&text);
        assert!(!error.contains(&key[5..]), "{error}");
    }
    let error = refused(&format!("[[identity]]\nname = \"a\"\nkeys = [\"{key}\"]\n"));
    assert!(
        error.contains(&KeyDigest::of(key.as_bytes()).to_string()),
        "{error}"
    );
}

#[test]
fn the_file_has_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.toml");
    fs::write(&path, "#".repeat(2 << 20)).unwrap();
    assert!(matches!(
        AuthRules::read(&path, WITH_CA),
        Err(AuthFileError::Size(_))
    ));
    fs::write(&path, b"\xFF").unwrap();
    assert!(matches!(
        AuthRules::read(&path, WITH_CA),
        Err(AuthFileError::Read { .. })
    ));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        AuthRules::read(&path, WITH_CA),
        Err(AuthFileError::Read { .. })
    ));
}
