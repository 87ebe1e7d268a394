//! Facts of a certificate that people read, and its time.

use std::{fmt, net::IpAddr, time::SystemTime};

use rustls::pki_types::CertificateDer;
use x509_cert::{
    Certificate,
    der::{self, DateTime, Decode as _},
    ext::pkix::{BasicConstraints, SubjectAltName, name::GeneralName},
};

/// A certificate's owner, authority, names, and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Its owner, in the form of RFC 4514; empty if only its names say it.
    pub subject: String,
    /// Its authority, in the same form.
    pub issuer: String,
    /// Host names and addresses that it is for.
    pub names: Vec<String>,
    /// Indicates that it is marked as one of an authority.
    pub is_authority: bool,
    /// Its first moment, in UTC.
    pub not_before: DateTime,
    /// Its last moment, in UTC.
    pub not_after: DateTime,
}

impl CertificateFacts {
    /// Days before its end from which on a certificate is warned of.
    pub const WARN_DAYS: i64 = 14;

    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// Fails if it is no X.509 certificate.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, der::Error> {
        let certificate = Certificate::from_der(certificate)?;
        let fields = certificate.tbs_certificate();
        let names = fields.get_extension::<SubjectAltName>();
        // A list that cannot be read is nothing that an error would help with.
        let names = names.ok().flatten().map(|(_, names)| names.0);
        let constraints = fields.get_extension::<BasicConstraints>();
        let constraints = constraints
            .ok()
            .flatten()
            .map(|(_, constraints)| constraints);
        let validity = fields.validity();
        Ok(Self {
            is_authority: constraints.is_some_and(|it| it.ca),
            subject: fields.subject().to_string(),
            issuer: fields.issuer().to_string(),
            names: names.into_iter().flatten().filter_map(name).collect(),
            not_before: validity.not_before.to_date_time(),
            not_after: validity.not_after.to_date_time(),
        })
    }

    /// Returns why clients refuse it as that of a server, whoever has signed it; `None` if nothing is in the way.
    pub fn unfit(&self) -> Option<String> {
        let authority = (self.is_authority).then_some("is marked as a CA certificate (CA:TRUE)");
        let nameless = (self.names.is_empty()).then_some("has no subject alternative names");
        let reasons: Vec<&str> = authority.into_iter().chain(nameless).collect();
        (!reasons.is_empty()).then(|| {
            format!(
                "{}, so that clients such as `ovms infer` refuse it",
                reasons.join(" and ")
            )
        })
    }

    /// Next step for a certificate that clients refuse.
    pub const UNFIT_HINT: &str = "make one with `openssl req -x509 … -addext subjectAltName=DNS:HOST \
        -addext basicConstraints=critical,CA:FALSE`";

    /// Returns whether it is used before its time.
    pub fn is_early(&self, now: SystemTime) -> bool {
        now < self.not_before.to_system_time()
    }

    /// Returns the days that are left of its time, rounded down; negative once it is over.
    pub fn days_left(&self, now: SystemTime) -> i64 {
        const DAY: i64 = 24 * 60 * 60;
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
        };
        let end = seconds(self.not_after.to_system_time());
        end.saturating_sub(seconds(now)).div_euclid(DAY)
    }
}

impl fmt::Display for CertificateFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.subject[..], &self.names[..]) {
            ("", []) => f.write_str("a certificate without a name")?,
            ("", names) => f.write_str(&names.join(", "))?,
            (subject, []) => f.write_str(subject)?,
            (subject, names) => write!(f, "{subject} ({})", names.join(", "))?,
        }
        write!(f, ", of {}, until {}", self.issuer, self.not_after)
    }
}

/// Returns all names of a certificate that clients are known by: hosts, addresses, URIs, and those of mail (RFC 5280,
/// 4.2.1.6). Its subject is none of them.
pub(crate) fn subject_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let read = Certificate::from_der(certificate).ok();
    let names = read.and_then(|read| {
        let names = read.tbs_certificate().get_extension::<SubjectAltName>();
        Some(names.ok()??.1.0)
    });
    let names = names.into_iter().flatten();
    let names = names.filter_map(|it| match it {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.to_string()),
        GeneralName::Rfc822Name(name) => Some(name.to_string()),
        of_host => name(of_host),
    });
    names.collect()
}

/// Returns a name as a URL has it, if it is one of a host.
fn name(name: GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
            Some(v4.or_else(|_| v6()).ok()?.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType, date_time_ymd,
    };

    use super::{CertificateFacts, subject_names};

    #[test]
    fn clients_have_other_names_too() {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "root");
        let uri = SanType::URI("spiffe://example/camera".try_into().unwrap());
        let mail = SanType::Rfc822Name("ann@example".try_into().unwrap());
        params.subject_alt_names = vec![uri, mail];
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let names = subject_names(made.der());
        assert_eq!(names, ["spiffe://example/camera", "ann@example"]);
        assert!(subject_names(&b"x".to_vec().into()).is_empty());
    }

    #[test]
    fn what_clients_refuse_is_reported() {
        let unfit = |names: &[&str], is_ca| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.is_ca = is_ca;
            let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            CertificateFacts::read(made.der()).unwrap().unfit()
        };
        let authority = || IsCa::Ca(BasicConstraints::Unconstrained);
        assert_eq!(unfit(&["localhost"], IsCa::NoCa), None);
        assert_eq!(unfit(&["localhost"], IsCa::ExplicitNoCa), None);
        let reasons = [
            unfit(&["localhost"], authority()),
            unfit(&[], IsCa::NoCa),
            unfit(&[], authority()),
        ];
        let reasons: Vec<String> = reasons.into_iter().map(Option::unwrap).collect();
        insta::assert_snapshot!(reasons.join("\n"), @"
        is marked as a CA certificate (CA:TRUE), so that clients such as `ovms infer` refuse it
        has no subject alternative names, so that clients such as `ovms infer` refuse it
        is marked as a CA certificate (CA:TRUE) and has no subject alternative names, so that clients such as `ovms infer` refuse it
        ");
    }

    #[test]
    fn facts_are_read_and_days_are_counted() {
        let names = [
            "models.example".to_owned(),
            "10.0.0.1".to_owned(),
            "::1".to_owned(),
        ];
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(2024, 1, 1);
        params.not_after = date_time_ymd(2024, 3, 1);
        params.distinguished_name.push(DnType::CommonName, "models");
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let facts = CertificateFacts::read(made.der()).unwrap();
        assert_eq!(facts.names, ["models.example", "10.0.0.1", "::1"]);
        assert_eq!(subject_names(made.der()), facts.names);
        assert_eq!(facts.not_before.to_string(), "2024-01-01T00:00:00Z");
        insta::assert_snapshot!(facts, @"CN=models (models.example, 10.0.0.1, ::1), of CN=models, until 2024-03-01T00:00:00Z");
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_709_251_200);
        let hour = Duration::from_secs(3600);
        assert_eq!(facts.days_left(end - 24 * hour), 1);
        assert_eq!(facts.days_left(end - 23 * hour), 0);
        assert_eq!(facts.days_left(end + hour), -1);
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_704_067_200);
        assert!(facts.is_early(begin - Duration::from_secs(1)));
        assert!(!facts.is_early(begin));
        assert!(CertificateFacts::read(&b"no certificate".to_vec().into()).is_err());
    }
}
