//! Reading of the file: rights, credentials, and each error at its place.

use std::{fs, path::Path};

use super::{AuthFileError, AuthRules, AuthTerms, KeyDigest};
use crate::auth::{ApiKey, Right};

const WITH_CA: AuthTerms = AuthTerms {
    has_client_ca: true,
    plain_port: None,
};

fn parse(text: &str) -> Result<AuthRules, AuthFileError> {
    AuthRules::parse(text.as_bytes(), Path::new("auth.toml"), WITH_CA)
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
fn the_key_of_the_client_is_distinguished_from_the_lines_of_the_file() {
    let key = ApiKey::generate().unwrap();
    let whole = format!("{}\n\n{}", key.text(), identity(""));
    let said = refused(&whole);
    let expected = "found an API key itself (the first line that `ovms key new` prints is the key, which is for the client \
                    alone: remove it here, and keep the lines from [[identity]] on)";
    assert!(said.ends_with(expected), "{said}");
    assert!(
        said.contains("auth.toml:1:") && !said.contains(key.text()),
        "{said}"
    );
    let below = format!("{}\n{}", identity(""), key.text());
    assert!(refused(&below).contains("found an API key itself (the first line"));
    // Others are errors of the format.
    assert!(refused("word\n").contains("key with no value"));
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
    auth.toml:5:13: nothing that is served fits `x?` (served are `resnet`, `ocr-v1`; it counts once a servable is added whose name fits)
    ");
    let hint = |served: &[String]| rules.unserved(served).pop().unwrap().hint.unwrap();
    let end = "; it counts once a servable is added whose name fits";
    assert_eq!(hint(&[]), format!("nothing is served{end}"));
    assert_eq!(hint(&["m".to_owned()]), format!("`m` is served{end}"));
    let many: Vec<String> = (1..=8).map(|number| format!("m{number}")).collect();
    let shown = "served are `m1`, `m2`, `m3`, `m4`, `m5`, and 3 more";
    assert_eq!(hint(&many), format!("{shown}{end}"));
}

#[test]
fn a_key_that_is_spelt_wrongly_has_the_near_one_beside_it() {
    for (text, near) in [
        (
            identity("infr = [\"m\"]"),
            "auth.toml:4:1: unknown field `infr`, expected one of `name`",
        ),
        (identity("infr = [\"m\"]"), " (did you mean `infer`?)"),
        (
            "[[identities]]\nname = \"a\"\n".to_owned(),
            " (did you mean `identity`?)",
        ),
        (
            identity("limits = { request_per_second = 1 }"),
            " (did you mean `requests_per_second`?)",
        ),
        (
            "[[jwt]]\nisuer = \"x\"\n".to_owned(),
            " (did you mean `issuer`?)",
        ),
    ] {
        let said = refused(&text);
        assert!(said.contains(near), "{said}");
    }
    let said = refused(&identity("zzz = 1"));
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn a_byte_that_is_no_text_has_a_place() {
    let bytes = b"[[identity]]\nname = \"caf\xE9\"\n";
    let refused = AuthRules::parse(bytes, Path::new("auth.toml"), WITH_CA).unwrap_err();
    insta::assert_snapshot!(refused, @"cannot use --auth auth.toml: auth.toml:2:12: found the byte 0xE9, expected text in UTF-8 (save the file as UTF-8; names that are not ASCII may be in another encoding)");
}

#[test]
fn a_key_set_that_cannot_be_used_says_where_another_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.toml");
    let text = "[[jwt]]\nissuer = \"x\"\naudience = \"ovms\"\njwks = \"keys.json\"\n[[identity]]\nname = \"a\"\n\
                tokens = [{ subject = \"*\" }]\ninfer = [\"*\"]\n";
    fs::write(&path, text).unwrap();
    let refused = || {
        let refused = AuthRules::read(&path, WITH_CA).unwrap_err().to_string();
        let (_, error) = refused.split_once("auth.toml: ").unwrap();
        error.replace(&folder.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(refused(), @"DIR/auth.toml:4:8: cannot read the key set DIR/keys.json: No such file or directory (os error 2) (`jwks` is a file, from the folder of this one on, or the URL of the key set)");
    let keys = folder.path().join("keys.json");
    fs::write(&keys, "").unwrap();
    insta::assert_snapshot!(refused(), @"DIR/auth.toml:4:8: cannot use the key set DIR/keys.json: the key set is not JSON with a list of `keys`: EOF while parsing a value at line 1 column 0 (expected what the URL of the key set gives, such as `jwks_uri` at ISSUER/.well-known/openid-configuration)");
    fs::write(&keys, "{\"keys\":[]}").unwrap();
    assert!(refused().contains("(expected what the URL of the key set gives, "));
}

#[test]
fn identities_of_certificates_alone_are_nobody_on_a_plain_port() {
    let terms = AuthTerms {
        plain_port: Some("REST"),
        ..WITH_CA
    };
    let warnings = |text: &str, terms| {
        let rules = AuthRules::parse(text.as_bytes(), Path::new("auth.toml"), terms).unwrap();
        let warnings = rules.warnings().iter().map(ToString::to_string);
        warnings.collect::<Vec<_>>().join("\n")
    };
    let machine = "[[identity]]\nname = \"m\"\ncertificates = [\"m\"]\nadmin = true\n";
    insta::assert_snapshot!(warnings(machine, terms), @"auth.toml: all identities have only certificates, but the REST port has no TLS: it would recognize none of them (give --rest-tls as well, or keys to the identities that use this port)");
    assert_eq!(warnings(machine, WITH_CA), "");
    let other = identity("admin = true");
    assert_eq!(warnings(&format!("{machine}{other}"), terms), "");
}

#[test]
fn every_error_is_at_its_place() {
    insta::assert_snapshot!(refused(""), @"cannot use --auth auth.toml: auth.toml:1:1: found no [[identity]], so nobody could do anything (`ovms key new` makes a key, with the lines for this file)");
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
            "auth.toml:3:9: found a key that is not a SHA-256 digest",
            "auth.toml:3:14: found a key that is not a SHA-256 digest",
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
    let without = AuthRules::parse(
        certificate.as_bytes(),
        Path::new("auth.toml"),
        AuthTerms::default(),
    );
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
        Err(AuthFileError::Contents { .. })
    ));
    fs::remove_file(&path).unwrap();
    assert!(matches!(
        AuthRules::read(&path, WITH_CA),
        Err(AuthFileError::Read { .. })
    ));
}
