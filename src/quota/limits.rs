//! The numbers that bound a client.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use strum::{EnumCount, VariantNames};

use crate::byte_size::{ByteSize, ByteText};

/// One of the limits, by the name that files and metrics have for it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    strum::Display,
    strum::IntoStaticStr,
    EnumCount,
    VariantNames,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum ClientLimit {
    /// Requests in a second.
    RequestsPerSecond,
    /// Requests in flight.
    ConcurrentRequests,
    /// Bytes of requests and responses in flight.
    BytesInFlight,
    /// Open streams.
    Streams,
    /// Live sequences.
    Sequences,
}

/// Limits of a client; none for what is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLimits {
    /// Requests that it may send in a second, on average. Messages of streams count as requests.
    pub requests_per_second: Option<RequestRate>,
    /// Requests that it may send at once, after a pause; as many as in a second unless given.
    pub burst: Option<NonZeroU32>,
    /// Requests in flight, those that wait included, and streams not.
    pub concurrent_requests: Option<NonZeroU32>,
    /// Bytes of its requests and responses that the server holds.
    pub bytes_in_flight: Option<ByteCount>,
    /// Open streams.
    pub streams: Option<NonZeroU32>,
    /// Live sequences that it has begun, on this server.
    pub sequences: Option<NonZeroU32>,
}

impl ClientLimits {
    /// Checks that the numbers go together.
    ///
    /// # Errors
    ///
    /// Fails if they do not.
    pub fn check(&self) -> Result<(), ClientLimitsError> {
        match (self.burst, self.requests_per_second) {
            (Some(_), None) => Err(ClientLimitsError::BurstAlone),
            _ => Ok(()),
        }
    }

    /// Returns the time after which a client that has sent as many requests at once as it may could do so again.
    pub fn recovery(&self) -> Duration {
        let rate = self.requests_per_second;
        rate.map_or(Duration::ZERO, |rate| {
            let burst = self.burst.unwrap_or_else(|| rate.burst());
            rate.period().saturating_mul(burst.get())
        })
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientLimitsError {
    /// A part is no name with a value.
    #[error("expected NAME=NUMBER, got `{0}`")]
    Form(String),
    /// Unknown limit.
    #[error("there is no limit `{0}`; expected one of {names}", names = names())]
    Unknown(String),
    /// A limit is there twice.
    #[error("`{0}` is there twice")]
    Twice(String),
    /// A value is none of the limit.
    #[error("{name}: expected {expected}, got `{value}`")]
    Value {
        /// The limit.
        name: String,
        /// Values that it takes.
        expected: &'static str,
        /// Value that was given.
        value: String,
    },
    /// A burst of any rate means nothing.
    #[error("burst needs requests_per_second")]
    BurstAlone,
}

fn names() -> String {
    let mut names = ClientLimit::VARIANTS.to_vec();
    names.insert(1, "burst");
    names.join(", ")
}

/// Text of a flag: `requests_per_second=100,burst=200`. A hyphen counts as `_`.
impl FromStr for ClientLimits {
    type Err = ClientLimitsError;

    fn from_str(text: &str) -> Result<Self, ClientLimitsError> {
        const COUNT: &str = "a whole number from 1 to 4294967295";
        let mut limits = Self::default();
        for part in text.split(',').map(str::trim) {
            let form = || ClientLimitsError::Form(part.to_owned());
            let (given, value) = part.split_once('=').ok_or_else(form)?;
            let name = given.trim().replace('-', "_");
            let value = value.trim();
            let wrong = |expected| ClientLimitsError::Value {
                name: name.clone(),
                expected,
                value: value.to_owned(),
            };
            let count = || value.parse::<NonZeroU32>().map_err(|_| wrong(COUNT));
            let place = match name.as_str() {
                "burst" => &mut limits.burst,
                "concurrent_requests" => &mut limits.concurrent_requests,
                "streams" => &mut limits.streams,
                "sequences" => &mut limits.sequences,
                "requests_per_second" => {
                    let rate = value.parse().map_err(|_| wrong(RequestRate::FORM))?;
                    if limits.requests_per_second.replace(rate).is_some() {
                        return Err(ClientLimitsError::Twice(name));
                    }
                    continue;
                }
                "bytes_in_flight" => {
                    let bytes = value.parse().map_err(|_| wrong(ByteCount::FORM))?;
                    if limits.bytes_in_flight.replace(bytes).is_some() {
                        return Err(ClientLimitsError::Twice(name));
                    }
                    continue;
                }
                _ => return Err(ClientLimitsError::Unknown(given.to_owned())),
            };
            if place.replace(count()?).is_some() {
                return Err(ClientLimitsError::Twice(name));
            }
        }
        limits.check()?;
        Ok(limits)
    }
}

/// Requests in a second, in thousandths, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct RequestRate(NonZeroU32);

/// A number that is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", RequestRate::FORM)]
pub struct RequestRateError;

impl RequestRate {
    const FORM: &str = "requests in a second: a number from 0.001 to 1000000";

    /// Returns the time from one request to the next.
    pub fn period(self) -> Duration {
        Duration::from_secs(1000) / self.0.get()
    }

    /// Returns the requests of a second, one at least.
    pub fn burst(self) -> NonZeroU32 {
        NonZeroU32::new(self.0.get() / 1000).unwrap_or(NonZeroU32::MIN)
    }
}

impl TryFrom<f64> for RequestRate {
    type Error = RequestRateError;

    fn try_from(rate: f64) -> Result<Self, RequestRateError> {
        let is_known = (0.001..=1e6).contains(&rate);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is within the bounds"
        )]
        let thousandths = is_known.then_some((rate * 1000.0).round() as u32);
        thousandths
            .and_then(NonZeroU32::new)
            .map(Self)
            .ok_or(RequestRateError)
    }
}

impl FromStr for RequestRate {
    type Err = RequestRateError;

    fn from_str(text: &str) -> Result<Self, RequestRateError> {
        text.parse::<f64>()
            .map_err(|_| RequestRateError)?
            .try_into()
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0.get()) / 1000.0).fmt(f)
    }
}

/// A number of bytes, never 0: a number, or a text with a unit of 1024s, such as `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "ByteText")]
pub struct ByteCount(ByteSize);

/// A text that is no number of bytes, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", ByteCount::FORM)]
pub struct ByteCountError;

impl ByteCount {
    const FORM: &str =
        "bytes: a whole number above 0, with an optional unit K, M, or G (powers of 1024)";

    /// Returns the number.
    pub fn get(self) -> usize {
        self.0.get()
    }
}

impl FromStr for ByteCount {
    type Err = ByteCountError;

    fn from_str(text: &str) -> Result<Self, ByteCountError> {
        match text.parse::<ByteSize>() {
            Ok(size) if size.get() > 0 => Ok(Self(size)),
            _ => Err(ByteCountError),
        }
    }
}

impl TryFrom<ByteText> for ByteCount {
    type Error = ByteCountError;

    fn try_from(text: ByteText) -> Result<Self, ByteCountError> {
        match ByteSize::try_from(text) {
            Ok(size) if size.get() > 0 => Ok(Self(size)),
            _ => Err(ByteCountError),
        }
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientLimits, String> {
        text.parse()
            .map_err(|error: ClientLimitsError| error.to_string())
    }

    #[test]
    fn a_flag_has_names_and_numbers() {
        let limits = read("requests-per-second=0.5, burst=20,bytes_in_flight=64M,streams=4");
        let limits = limits.unwrap();
        let rate = limits.requests_per_second.unwrap();
        assert_eq!(
            (rate.period(), rate.burst().get()),
            (Duration::from_secs(2), 1)
        );
        assert_eq!(rate.to_string(), "0.5");
        assert_eq!(limits.burst, NonZeroU32::new(20));
        assert_eq!(limits.recovery(), Duration::from_secs(40));
        assert_eq!(limits.bytes_in_flight.unwrap().get(), 64 << 20);
        assert_eq!(limits.streams, NonZeroU32::new(4));
        assert_eq!((limits.sequences, limits.concurrent_requests), (None, None));
    }

    #[test]
    fn errors_say_what_is_expected() {
        let errors = [
            "",
            "streams",
            "stream=1",
            "streams=0",
            "streams=-1",
            "streams=1,streams=2",
            "bytes_in_flight=0",
            "bytes_in_flight=1T",
            "bytes_in_flight=99999999999G",
            "burst=3",
        ];
        let errors: Vec<_> = errors.iter().map(|text| read(text).unwrap_err()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r#"
expected NAME=NUMBER, got ``
expected NAME=NUMBER, got `streams`
there is no limit `stream`; expected one of requests_per_second, burst, concurrent_requests, bytes_in_flight, streams, sequences
streams: expected a whole number from 1 to 4294967295, got `0`
streams: expected a whole number from 1 to 4294967295, got `-1`
`streams` is there twice
bytes_in_flight: expected bytes: a whole number above 0, with an optional unit K, M, or G (powers of 1024), got `0`
bytes_in_flight: expected bytes: a whole number above 0, with an optional unit K, M, or G (powers of 1024), got `1T`
bytes_in_flight: expected bytes: a whole number above 0, with an optional unit K, M, or G (powers of 1024), got `99999999999G`
burst needs requests_per_second
"#);
    }
}
