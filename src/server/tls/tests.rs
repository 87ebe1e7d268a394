//! Reading of the files, alone and together.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::{Loaded, ServerTls, TlsProtocol};
use crate::{
    config::{ClientAuth, TlsSettings, TlsVersion},
    error::chain,
};

/// Writes a certificate and its key to a folder, and returns the settings that name them.
fn written(folder: &Path, years: (i32, i32)) -> TlsSettings {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = date_time_ymd(years.0, 1, 1);
    params.not_after = date_time_ymd(years.1, 1, 1);
    let key = KeyPair::generate().unwrap();
    let (cert, key_path) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&cert, params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(&key_path, key.serialize_pem()).unwrap();
    TlsSettings {
        cert,
        key: key_path,
        client_ca: None,
        client_auth: ClientAuth::Off,
        min_version: TlsVersion::V12,
        grpc: true,
        rest: true,
        management: false,
    }
}

#[test]
fn a_pair_is_read_and_one_of_two_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let settings = written(folder.path(), (2024, 4000));
    let tls = ServerTls::open(&settings).unwrap();
    assert_eq!(tls.facts().names, ["localhost"]);
    let other = KeyPair::generate().unwrap();
    fs::write(&settings.key, other.serialize_pem()).unwrap();
    let refused = chain(&ServerTls::open(&settings).unwrap_err());
    let cert = settings.cert.display();
    let expected = format!("the key is not that of the certificate in {cert}");
    assert!(refused.ends_with(&expected), "{refused}");
}

#[test]
fn authorities_of_clients_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = written(folder.path(), (2024, 4000));
    settings.client_ca = Some(settings.cert.clone());
    for (auth, resumes) in [
        (ClientAuth::Off, true),
        (ClientAuth::Optional, false),
        (ClientAuth::Required, false),
    ] {
        settings.client_auth = auth;
        let tls = ServerTls::open(&settings).unwrap();
        for protocol in [TlsProtocol::Grpc, TlsProtocol::Http] {
            let config = tls.config(protocol);
            // A certificate that has expired since would not be looked at again.
            let (keeps, tickets) = (
                config.session_storage.can_cache(),
                config.send_tls13_tickets,
            );
            assert_eq!((keeps, tickets > 0), (resumes, resumes), "{auth:?}");
        }
    }
    settings.client_ca = Some(settings.key.clone());
    let refused = chain(&ServerTls::open(&settings).unwrap_err());
    assert!(refused.contains("--tls-client-ca"), "{refused}");
}

#[test]
fn an_expired_one_may_start_and_is_no_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let settings = written(folder.path(), (2020, 2021));
    let tls = ServerTls::open(&settings).unwrap();
    assert!(tls.facts().days_left(SystemTime::now()) < 0);
    let at = |seconds| {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let loaded = Loaded::read(&settings).unwrap().in_time(&settings, now);
        loaded.map(drop).map_err(|error| chain(&error))
    };
    assert!(at(1_600_000_000).is_ok());
    let refused = at(1_700_000_000).unwrap_err();
    assert!(
        refused.contains("has expired: it was valid until 2021-01-01T00:00:00Z"),
        "{refused}"
    );
    let refused = at(1_500_000_000).unwrap_err();
    assert!(
        refused.contains("is not valid before 2020-01-01T00:00:00Z"),
        "{refused}"
    );
}
