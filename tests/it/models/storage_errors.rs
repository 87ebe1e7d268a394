//! Cloud storage that is unreachable, refuses, stalls, or sends wrong data.

use std::{
    fs,
    net::TcpListener,
    sync::LazyLock,
    time::{Duration, Instant},
};

use ovms::model::storage::StorageError;

use crate::support::{
    cloud::{Lab, Script, answer, listing, object, reported},
    emulator::{Emulator, http},
};

/// Access keys of an emulator with authentication.
struct Keys {
    id: String,
    secret: String,
}

/// An emulator of S3 with one object, and a user with read access.
static DOOR: LazyLock<(Emulator, Keys)> = LazyLock::new(|| {
    let emulator = Emulator::s3_with_a_door(5).kept();
    emulator.s3_call("PUT", "/models", b"");
    emulator.s3_call("PUT", "/models/dummy/1/m.onnx", b"model");
    let iam = |body: &str| {
        let headers = "Content-Type: application/x-www-form-urlencoded\r\nAuthorization: \
                       AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request\r\n";
        let (status, answer) = http(emulator.port, "POST", "/", headers, body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let version = "Version=2010-05-08&UserName=reader";
    iam(&format!("Action=CreateUser&{version}"));
    let key = iam(&format!("Action=CreateAccessKey&{version}"));
    let policy = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A\
                  %22Allow%22%2C%22Action%22%3A%22s3%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
    iam(&format!(
        "Action=PutUserPolicy&{version}&PolicyName=read&PolicyDocument={policy}"
    ));
    let element = |name: &str| {
        let (_, after) = key.split_once(&format!("<{name}>")).unwrap();
        after.split_once('<').unwrap().0.to_owned()
    };
    let keys = Keys {
        id: element("AccessKeyId"),
        secret: element("SecretAccessKey"),
    };
    (emulator, keys)
});

/// Replaces ports and the emulator's own words.
fn redact(text: &str, port: u16) -> String {
    text.replace(&format!(":{port}"), ":[port]")
}

/// Starts an S3 server that accepts one access key only.
fn with_a_doorman(id: &'static str) -> Script {
    Script::new(move |head| {
        if !head.contains(&format!("Credential={id}/")) {
            let refusal =
                "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
            answer("403 Forbidden", "", refusal)
        } else if head.starts_with("GET /models?") {
            listing(&[("dummy/1/m.onnx", 5, "\"a\"")])
        } else {
            object("model", 5, "\"a\"")
        }
    })
}

#[tokio::test]
async fn credentials_decide_who_gets_in() {
    let (emulator, keys) = &*DOOR;
    let endpoint = format!("127.0.0.1:{}", emulator.port);
    let list = async |endpoint: &str, id: &str, secret: &str| {
        let lab = Lab::new(&[
            ("S3_ENDPOINT", endpoint),
            ("AWS_ACCESS_KEY_ID", id),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ]);
        match lab.list("s3://models/dummy").await {
            Ok(versions) => format!("{} version", versions.len()),
            Err(error) => reported(&error),
        }
    };
    let doorman = with_a_doorman("id");
    let closed = format!("127.0.0.1:{}", doorman.port);
    let all = [
        list(&endpoint, &keys.id, &keys.secret).await,
        list(&endpoint, &keys.id, "wrong").await,
        list(&endpoint, "AKIASTRANGER", &keys.secret).await,
        list(&closed, "other", "secret").await,
        list(&closed, "", "").await,
        list(&closed, "id", "").await,
    ]
    .join("\n");
    insta::assert_snapshot!(all, @r"
    1 version
    access to s3://models/dummy is denied to these credentials: the server answered 403 SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided. Check your key and signing method.
    hint: check the key and the secret; the credentials need the right to list the bucket and to read its objects
    access to s3://models/dummy is denied to these credentials: the server answered 403 InvalidAccessKeyId: The AWS Access Key Id you provided does not exist in our records.
    hint: check the key and the secret; the credentials need the right to list the bucket and to read its objects
    access to s3://models/dummy is denied to these credentials: the server answered 403 AccessDenied: Access Denied
    hint: check the bucket's name; the credentials need the right to list the bucket and to read its objects
    access to s3://models/dummy is denied without credentials: the server answered 403 AccessDenied: Access Denied
    hint: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE
    the credentials for s3://models/dummy cannot be used: `AWS_ACCESS_KEY_ID` is set and `AWS_SECRET_ACCESS_KEY` is not
    ");
}

#[tokio::test]
async fn a_profile_gives_the_keys() {
    let (emulator, keys) = &*DOOR;
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    let profile = format!(
        "[models]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        keys.id, keys.secret
    );
    fs::write(home.path().join(".aws/credentials"), profile).unwrap();
    let lab = Lab::new(&[
        ("S3_ENDPOINT", &format!("127.0.0.1:{}", emulator.port)),
        ("HOME", &home.path().display().to_string()),
        ("AWS_PROFILE", "models"),
    ]);
    assert_eq!(lab.list("s3://models/dummy").await.unwrap().len(), 1);
}

#[tokio::test]
async fn keys_that_are_renewed_in_their_file_are_used() {
    let doorman = with_a_doorman("renewed");
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".aws")).unwrap();
    let write = |id: &str| {
        let profile =
            format!("[models]\naws_access_key_id = {id}\naws_secret_access_key = secret\n");
        fs::write(home.path().join(".aws/credentials"), profile).unwrap();
    };
    write("expired");
    let lab = Lab::new(&[
        ("S3_ENDPOINT", &format!("127.0.0.1:{}", doorman.port)),
        ("HOME", &home.path().display().to_string()),
        ("AWS_PROFILE", "models"),
    ]);
    let storage = lab.open("s3://models/dummy").await;
    for _ in 0..2 {
        let refused = storage.survey().await.unwrap_err();
        assert!(
            matches!(
                refused,
                StorageError::Denied {
                    anonymous: false,
                    ..
                }
            ),
            "{refused}"
        );
    }
    write("renewed");
    let versions = storage.survey().await.unwrap().versions;
    let copy = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(fs::read(copy.join("m.onnx")).unwrap(), b"model");
}

#[tokio::test]
async fn the_machine_is_asked_who_it_is_after_nobody_was_let_in() {
    let doorman = with_a_doorman("machine");
    let machine = Script::new(|head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = match path {
            "/latest/api/token" => "token",
            "/latest/meta-data/iam/security-credentials/" => "role",
            _ => {
                r#"{"Code":"Success","AccessKeyId":"machine","SecretAccessKey":"secret","Token":"","Expiration":"2100-01-01T00:00:00Z","LastUpdated":"2026-01-01T00:00:00Z","Type":"AWS-HMAC"}"#
            }
        };
        answer("200 OK", "", body)
    });
    let lab = Lab::new(&[
        ("S3_ENDPOINT", &format!("127.0.0.1:{}", doorman.port)),
        (
            "AWS_EC2_METADATA_SERVICE_ENDPOINT",
            &format!("http://127.0.0.1:{}", machine.port),
        ),
    ]);
    let storage = lab.open("s3://models/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    let copy = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(fs::read(copy.join("m.onnx")).unwrap(), b"model");
}

#[tokio::test]
async fn a_machine_without_identity_is_not_waited_for() {
    let doorman = with_a_doorman("machine");
    // Takes connections and says nothing, as some firewalls do.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let metadata = format!("http://{}", silent.local_addr().unwrap());
    // The real address: nobody is there in a test, or somebody who gives us nothing.
    for metadata in [metadata.as_str(), "http://169.254.169.254"] {
        let lab = Lab::new(&[
            ("S3_ENDPOINT", &format!("127.0.0.1:{}", doorman.port)),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata),
        ]);
        let started = Instant::now();
        let refused = lab.list("s3://models/dummy").await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(4));
        assert!(matches!(
            refused,
            StorageError::Denied {
                anonymous: true,
                ..
            }
        ));
    }
}

#[tokio::test]
async fn a_bucket_or_prefix_that_is_not_there_is_named() {
    let emulator = Emulator::shared_s3();
    emulator.s3_call("PUT", "/models", b"");
    let lab = Lab::s3(emulator.port);
    let missing = reported(&lab.list("s3://modles/dummy").await.unwrap_err());
    let empty = reported(&lab.list("s3://models/dumy").await.unwrap_err());
    insta::assert_snapshot!(format!("{missing}\n{empty}"), @r"
    bucket `modles` does not exist: the server answered 404 NoSuchBucket: The specified bucket does not exist
    The provided base path is invalid or doesn't exists - s3://models/dumy: there are no objects below it
    ");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_at_once() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let lab = Lab::s3(port);
    let started = Instant::now();
    let refused = lab.list("s3://models/dummy").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    insta::assert_snapshot!(redact(&reported(&refused), port), @r"
    cannot reach http://127.0.0.1:[port] for s3://models/dummy: Connection refused (os error 111)
    hint: check the address, and the proxies in https_proxy, http_proxy and no_proxy
    ");
}

#[tokio::test]
async fn a_server_that_never_answers_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut lab = Lab::s3(port);
    lab.options.limits.listing = Duration::from_secs(1);
    let started = Instant::now();
    let refused = lab.list("s3://models/dummy").await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(3));
    insta::assert_snapshot!(redact(&reported(&refused), port), @r"
    http://127.0.0.1:[port] did not answer for s3://models/dummy within 1 s
    hint: check the address, and the proxies in https_proxy, http_proxy and no_proxy
    ");
}

#[tokio::test]
async fn a_bucket_in_another_region_says_which() {
    let server = Script::new(|_| {
        let region = "x-amz-bucket-region: eu-west-1\r\n";
        answer("301 Moved Permanently", region, "<Error></Error>")
    });
    let refused = Lab::s3(server.port)
        .list("s3://models/dummy")
        .await
        .unwrap_err();
    insta::assert_snapshot!(reported(&refused), @r"
    bucket `models` is in region `eu-west-1`, not in `us-east-1`
    hint: set AWS_REGION=eu-west-1
    ");
}

#[tokio::test]
async fn a_failing_server_is_asked_again_and_then_reported() {
    let server =
        Script::new(|_| answer("503 Slow Down", "", "<Error><Code>SlowDown</Code></Error>"));
    let refused = Lab::s3(server.port)
        .list("s3://models/dummy")
        .await
        .unwrap_err();
    assert_eq!(server.requests().len(), 3);
    assert!(reported(&refused).contains("503"), "{}", reported(&refused));
}

#[tokio::test]
async fn names_that_lead_out_of_the_folder_are_refused() {
    let server = Script::new(|_| listing(&[("m/1/ok.onnx", 2, "a"), ("m/1/a\\..\\b", 1, "b")]));
    let lab = Lab::s3(server.port);
    let storage = lab.open("s3://models/m").await;
    let versions = storage.survey().await.unwrap().versions;
    let backslash = reported(&storage.fetch(&versions[0]).await.unwrap_err());
    let above = |name: &'static str| async move {
        let server = Script::new(move |_| listing(&[(name, 1, "a")]));
        let lab = Lab::s3(server.port);
        reported(&lab.list("s3://models/m").await.unwrap_err())
    };
    let all = [
        backslash,
        above("m/1/../../../etc/passwd").await,
        above("m/1//etc/passwd").await,
    ]
    .join("\n");
    insta::assert_snapshot!(all, @r"
    `1/a\..\b` in s3://models/m is refused: an object's name has to be a plain relative path
    `m/1/../../../etc/passwd` in s3://models/m is refused: an object's name has to be a plain relative path
    `m/1//etc/passwd` in s3://models/m is refused: an object's name has to be a plain relative path
    ");
    assert_eq!(lab.copies(), [""; 0]);
}

#[tokio::test]
async fn a_download_that_breaks_off_leaves_nothing() {
    let server = Script::new(|head| {
        if head.starts_with("GET /models?") {
            listing(&[("m/1/m.onnx", 1000, "\"a\"")])
        } else {
            object("half", 1000, "\"a\"")
        }
    });
    let mut lab = Lab::s3(server.port);
    lab.options.limits.retries = 0;
    let storage = lab.open("s3://models/m").await;
    let versions = storage.survey().await.unwrap().versions;
    let refused = storage.fetch(&versions[0]).await.unwrap_err();
    insta::assert_snapshot!(reported(&refused), @"the download of `m/1/m.onnx` was interrupted after 4 of 1000 bytes: end of file before message length reached");
    assert_eq!(lab.copies(), [""; 0]);
}

#[tokio::test]
async fn a_download_that_breaks_off_once_goes_on_where_it_was() {
    let server = Script::new(|head| {
        if head.starts_with("GET /models?") {
            listing(&[("m/1/m.onnx", 8, "\"a\"")])
        } else if head.to_lowercase().contains("\nrange: bytes=4-") {
            let range = "ETag: \"a\"\r\nContent-Range: bytes 4-7/8\r\n\
                         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
            answer("206 Partial Content", range, "half")
        } else {
            object("one ", 8, "\"a\"")
        }
    });
    let mut lab = Lab::s3(server.port);
    let versions = lab.list("s3://models/m").await.unwrap();
    // However long it has taken: the limit of listings is none of downloads.
    lab.options.limits.listing = Duration::ZERO;
    let storage = lab.open("s3://models/m").await;
    let copy = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(fs::read(copy.join("m.onnx")).unwrap(), b"one half");
}

#[tokio::test]
async fn a_download_that_stalls_ends() {
    let server = Script::new(|head| {
        if head.starts_with("GET /models?") {
            listing(&[("m/1/m.onnx", 4, "\"a\"")])
        } else {
            // Without a length the end is not known, and the listener is busy with nothing else.
            std::thread::sleep(Duration::from_secs(3));
            Vec::new()
        }
    });
    let mut lab = Lab::s3(server.port);
    lab.options.limits.silence = Duration::from_millis(300);
    lab.options.limits.retries = 0;
    let storage = lab.open("s3://models/m").await;
    let versions = storage.survey().await.unwrap().versions;
    let refused = storage.fetch(&versions[0]).await.unwrap_err();
    assert!(
        matches!(refused, StorageError::TimedOut { .. }),
        "{refused}"
    );
    assert_eq!(lab.copies(), [""; 0]);
}

#[tokio::test]
async fn an_object_that_changes_under_the_download_is_not_used() {
    let server = Script::new(|head| {
        if head.starts_with("GET /models?") {
            listing(&[("m/1/m.onnx", 4, "\"a\"")])
        } else {
            object("newer", 5, "\"b\"")
        }
    });
    let lab = Lab::s3(server.port);
    let storage = lab.open("s3://models/m").await;
    let versions = storage.survey().await.unwrap().versions;
    let refused = storage.fetch(&versions[0]).await.unwrap_err();
    assert!(matches!(refused, StorageError::Changed { .. }), "{refused}");
    assert_eq!(lab.copies(), [""; 0]);
}

#[tokio::test]
async fn too_much_is_refused() {
    let server = Script::new(|_| listing(&[("m/1/a", 4, "a"), ("m/1/b", 4, "b")]));
    let mut lab = Lab::s3(server.port);
    lab.options.limits.bytes = 7;
    let storage = lab.open("s3://models/m").await;
    let versions = storage.survey().await.unwrap().versions;
    let large = reported(&storage.fetch(&versions[0]).await.unwrap_err());
    lab.options.limits.objects = 1;
    let many = reported(&lab.list("s3://models/m").await.unwrap_err());
    insta::assert_snapshot!(format!("{large}\n{many}"), @r"
    s3://models/m/1 has 8 bytes; at most 7 are downloaded
    there are more than 1 objects in s3://models/m
    hint: is this the folder of one model, with its version folders?
    ");
}

#[tokio::test]
async fn file_shares_are_refused_with_the_way_out() {
    let refused = Lab::new(&[]).list("azfs://share/models").await.unwrap_err();
    insta::assert_snapshot!(reported(&refused), @r"
    The provided base path is invalid or doesn't exists - azfs://share/models: Azure file shares are not supported
    hint: copy the models to a blob container and name it as az://container/path
    ");
}

#[tokio::test]
async fn proxies_of_the_environment_are_used() {
    let proxy = Script::new(|head| {
        if head.starts_with("CONNECT") {
            answer("502 Bad Gateway", "", "")
        } else {
            listing(&[("m/1/m.onnx", 4, "a")])
        }
    });
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let list = async |variables: &[(&str, &str)]| {
        let mut all = vec![("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        all.extend_from_slice(variables);
        Lab::new(&all).list("s3://models/m").await
    };
    let endpoint = ("S3_ENDPOINT", "http://storage.invalid:9000");
    let listed = list(&[endpoint, ("http_proxy", &url)]).await.unwrap();
    assert_eq!(listed.len(), 1);
    let [request] = &proxy.requests()[..] else {
        panic!("{:?}", proxy.requests());
    };
    assert!(
        request.starts_with("GET http://storage.invalid:9000/models?"),
        "{request}"
    );
    // Amazon's own servers, which are reached by TLS.
    let refused = list(&[("https_proxy", &url)]).await.unwrap_err();
    assert!(
        matches!(refused, StorageError::Unreachable { .. }),
        "{}",
        reported(&refused)
    );
    assert_eq!(
        proxy.requests()[1],
        "CONNECT s3.us-east-1.amazonaws.com:443 HTTP/1.1"
    );
    let count = proxy.requests().len();
    let direct = [endpoint, ("http_proxy", &url), ("no_proxy", ".invalid")];
    assert!(list(&direct).await.is_err());
    assert_eq!(proxy.requests().len(), count);
}
