//! Model repositories in Azure Blob Storage, on an emulator, and in Google Cloud Storage.
//!
//! No emulator of Google Cloud Storage in a package registry supports the XML API, which lists
//! buckets. It equals that of S3 with other credentials, so moto's server stands in for it, and
//! the requests are checked.

use std::{
    fs,
    net::TcpListener,
    process::Command,
    sync::LazyLock,
    time::{Duration, Instant},
};

use ovms::model::storage::StorageError;

use crate::support::{
    cloud::{Lab, reported},
    emulator::{Emulator, python},
    relay::Relay,
};

/// Account key of every Azure emulator.
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The emulator of Azure, where each test has a container of its own.
static AZURE: LazyLock<Emulator> = LazyLock::new(|| Emulator::azure().kept());

fn azure(port: u16, key: &str) -> Lab {
    let account = "devstoreaccount1";
    let key = if key.is_empty() {
        String::new()
    } else {
        format!("AccountKey={key};")
    };
    let text =
        format!("AccountName={account};{key}BlobEndpoint=http://127.0.0.1:{port}/{account};");
    Lab::new(&[("AZURE_STORAGE_CONNECTION_STRING", &text)])
}

#[tokio::test]
async fn azure_lists_and_downloads() {
    let emulator = &AZURE;
    emulator.azure_put("listed", None);
    emulator.azure_put("listed/dummy/1/saved_model.pb", Some(b"one"));
    emulator.azure_put("listed/dummy/1/variables/a b%41.index", Some(b"index"));
    emulator.azure_put("listed/dummy/3/m.onnx", Some(b"three"));
    let lab = azure(emulator.port, AZURE_KEY);
    let storage = lab.open("az://listed/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    let numbers: Vec<i64> = versions.iter().map(|version| version.number).collect();
    assert_eq!(numbers, [1, 3]);
    let copy = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(fs::read(copy.join("saved_model.pb")).unwrap(), b"one");
    let index = copy.join("variables/a b%41.index");
    assert_eq!(fs::read(index).unwrap(), b"index");
    emulator.azure_put("listed/dummy/3/m.onnx", Some(b"newer"));
    let changed = storage.survey().await.unwrap().versions;
    assert_eq!(changed[0].identity, versions[0].identity);
    assert_ne!(changed[1].identity, versions[1].identity);
    let refused = storage.fetch(&versions[1]).await.unwrap_err();
    assert!(matches!(refused, StorageError::Changed { .. }), "{refused}");
}

#[tokio::test]
async fn azure_refuses_in_words() {
    let emulator = &AZURE;
    emulator.azure_put("models", None);
    let list = async |key: &str, path: &str| {
        let refused = azure(emulator.port, key).list(path).await.unwrap_err();
        // The end of the message is the request's number and time.
        let reported = reported(&refused).replace(&emulator.port.to_string(), "[port]");
        reported
            .lines()
            .map(|line| line.split(" RequestId").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let all = [
        list(AZURE_KEY, "az://modles/dummy").await,
        list("d3Jvbmc=", "az://models/dummy").await,
        list("", "az://models/dummy").await,
        list("not base64", "az://models/dummy").await,
        reported(&Lab::new(&[]).list("az://models").await.unwrap_err()),
    ]
    .join("\n");
    insta::assert_snapshot!(all, @r"
    bucket `modles` does not exist: the server answered 404 ContainerNotFound: The specified container does not exist.
    access to az://models/dummy is denied to these credentials: the server answered 403 AuthorizationFailure: Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly including the signature.
    hint: check the key and the secret; the credentials need the right to list the bucket and to read its objects
    access to az://models/dummy is denied without credentials: the server answered 403 AuthorizationFailure: Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly including the signature.
    hint: set AZURE_STORAGE_CONNECTION_STRING with a key or a signature in it
    the credentials for az://models/dummy cannot be used: they are not of the right form: Invalid symbol 32, offset 3.
    the credentials for az://models cannot be used: no storage account is named
    hint: set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT for a public container
    ");
}

/// Writes the key file of a fictitious service account.
fn service_account() -> tempfile::NamedTempFile {
    const MAKE: &str = "
import json, sys
from cryptography.hazmat.primitives import serialization as s
from cryptography.hazmat.primitives.asymmetric import rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
pem = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()).decode()
account = {'type': 'service_account', 'private_key_id': 'k', 'client_email': 'a@b.example',
           'private_key': pem}
json.dump(account, open(sys.argv[1], 'w'))
";
    let file = tempfile::NamedTempFile::new().unwrap();
    let made = Command::new(python())
        .args(["-c", MAKE])
        .arg(file.path())
        .status();
    assert!(made.unwrap().success());
    file
}

#[tokio::test]
async fn google_lists_and_downloads_with_the_token_of_a_service_account() {
    let emulator = Emulator::shared_s3();
    emulator.s3_call("PUT", "/google", b"");
    emulator.s3_call("PUT", "/google/dummy/2/m.onnx", b"two");
    let relay = Relay::to(emulator.port);
    let account = service_account();
    let lab = Lab::new(&[
        (
            "STORAGE_EMULATOR_HOST",
            &format!("127.0.0.1:{}", relay.port),
        ),
        (
            "GOOGLE_APPLICATION_CREDENTIALS",
            &account.path().display().to_string(),
        ),
    ]);
    let storage = lab.open("gs://google/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    assert_eq!(versions[0].number, 2);
    let copy = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(fs::read(copy.join("m.onnx")).unwrap(), b"two");
    let sent = String::from_utf8_lossy(&relay.sent()).to_lowercase();
    let tokens = sent
        .lines()
        .filter_map(|line| line.strip_prefix("authorization: bearer "))
        // Header, claims and signature.
        .filter(|token| token.split('.').count() == 3)
        .count();
    assert_eq!(tokens, 2, "{sent}");
}

#[tokio::test]
async fn google_is_asked_without_credentials_if_there_are_none() {
    let emulator = Emulator::shared_s3();
    emulator.s3_call("PUT", "/public", b"");
    emulator.s3_call("PUT", "/public/dummy/2/m.onnx", b"two");
    let relay = Relay::to(emulator.port);
    let host = format!("http://127.0.0.1:{}", relay.port);
    let lab = Lab::new(&[("STORAGE_EMULATOR_HOST", &host)]);
    assert_eq!(lab.list("gs://public/dummy").await.unwrap().len(), 1);
    let sent = String::from_utf8_lossy(&relay.sent()).to_lowercase();
    assert!(!sent.contains("authorization"), "{sent}");
    let refused = lab.list("gs://pubic/dummy").await.unwrap_err();
    assert_eq!(refused.to_string(), "bucket `pubic` does not exist");
}

#[tokio::test]
async fn bad_credentials_of_google_are_reported_before_anything_is_asked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), r#"{"type":"external_account"}"#).unwrap();
    let path = file.path().display().to_string();
    let lab = Lab::new(&[("GOOGLE_APPLICATION_CREDENTIALS", &path)]);
    let refused = lab.list("gs://models/dummy").await.unwrap_err();
    insta::assert_snapshot!(reported(&refused).replace(&path, "[file]"), @"the credentials for gs://models/dummy cannot be used: they are not of the right form: unknown variant `external_account`, expected `service_account` or `authorized_user` at line 1 column 26");
}

#[tokio::test]
async fn no_cloud_is_waited_for_long() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let started = Instant::now();
    let google = Lab::new(&[("STORAGE_EMULATOR_HOST", &format!("127.0.0.1:{port}"))]);
    let refused = google.list("gs://models/dummy").await.unwrap_err();
    assert!(matches!(refused, StorageError::Unreachable { .. }));
    let refused = azure(port, AZURE_KEY).list("az://models/dummy").await;
    assert!(matches!(refused, Err(StorageError::Unreachable { .. })));
    assert!(started.elapsed() < Duration::from_secs(5));
}
