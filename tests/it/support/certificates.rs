//! Certificates of tests, in a folder of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// A day in seconds.
const DAY: i64 = 24 * 60 * 60;

/// An authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A folder with `ca.pem`, and pairs that are written to it.
pub(crate) struct Certificates {
    pub(crate) folder: TempDir,
    pub(crate) authority: Authority,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// Returns its certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let made = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new("test authority"),
        };
        fs::write(made.path("ca.pem"), &made.authority.pem).unwrap();
        made
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes `NAME.pem` and `NAME.key` of this machine, valid for so many days from now on, or until so
    /// many days ago.
    pub(crate) fn write(&self, name: &str, days: i32) {
        self.write_of(&self.authority, name, days);
    }

    /// Writes those of another authority.
    pub(crate) fn write_of(&self, authority: &Authority, name: &str, days: i32) {
        let length = i64::from(days.unsigned_abs()) * DAY;
        // An hour more, so that the number of whole days does not depend on the moment.
        let until = match days < 0 {
            true => -length,
            false => length + DAY / 24,
        };
        self.write_between(authority, name, -length - DAY, until);
    }

    /// Writes one that is an authority itself, without the names of a server.
    pub(crate) fn write_nameless_authority(&self, name: &str) {
        let made = Authority::new("localhost");
        replace(
            &self.path(&format!("{name}.key")),
            &made.issuer.key().serialize_pem(),
        );
        replace(&self.path(&format!("{name}.pem")), &made.pem);
    }

    /// Writes those that are valid from so many seconds from now on.
    pub(crate) fn write_later(&self, name: &str, seconds: i64) {
        self.write_between(&self.authority, name, seconds, 90 * DAY);
    }

    /// Writes those that are valid between two moments, in seconds from now on.
    fn write_between(&self, authority: &Authority, name: &str, since: i64, until: i64) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = date_time_ymd(1970, 1, 1) + now.unwrap();
        let at = |seconds: i64| {
            let distance = Duration::from_secs(seconds.unsigned_abs());
            match seconds < 0 {
                true => now - distance,
                false => now + distance,
            }
        };
        (params.not_before, params.not_after) = (at(since), at(until));
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &authority.issuer).unwrap();
        replace(&self.path(&format!("{name}.key")), &key.serialize_pem());
        replace(&self.path(&format!("{name}.pem")), &made.pem());
    }

    /// Returns the flags of a server with the pair of a name.
    pub(crate) fn server(&self, name: &str) -> [String; 4] {
        [
            "--tls_cert".to_owned(),
            self.text(&format!("{name}.pem")),
            "--tls_key".to_owned(),
            self.text(&format!("{name}.key")),
        ]
    }
}

/// Writes a file in the place of another one, whole.
fn replace(path: &Path, text: &str) {
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}
