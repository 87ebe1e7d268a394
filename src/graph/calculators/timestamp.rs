//! Timestamps of packets, including the special ones.
//!
//! The values are those of MediaPipe's `Timestamp`: a signed 64-bit number, of which the three
//! lowest and the three highest have a special meaning.

use std::fmt;

/// Parameter of requests and responses with the timestamp of their packets.
pub const TIMESTAMP: &str = "OVMS_MP_TIMESTAMP";

/// Timestamp of a packet, in the sender's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Unset timestamp.
    pub const UNSET: Self = Self(i64::MIN);
    /// Timestamp before all packets.
    pub const UNSTARTED: Self = Self(i64::MIN + 1);
    /// Timestamp of the only packet of a stream, before all others.
    pub const PRE_STREAM: Self = Self(i64::MIN + 2);
    /// Lowest ordinary timestamp.
    pub const MIN: Self = Self(i64::MIN + 3);
    /// Highest ordinary timestamp.
    pub const MAX: Self = Self(i64::MAX - 3);
    /// Timestamp of the only packet of a stream, after all others.
    pub const POST_STREAM: Self = Self(i64::MAX - 2);
    /// Bound below [`Timestamp::DONE`] only: no packet can follow.
    pub const ONE_OVER_POST_STREAM: Self = Self(i64::MAX - 1);
    /// Bound of a closed stream.
    pub const DONE: Self = Self(i64::MAX);

    /// Creates a timestamp from any number, including special ones.
    pub const fn new(value: i64) -> Self {
        Self(value)
    }

    /// Returns the number.
    pub const fn value(self) -> i64 {
        self.0
    }

    /// Returns whether it is an ordinary timestamp.
    pub fn is_ordinary(self) -> bool {
        Self::MIN <= self && self <= Self::MAX
    }

    /// Returns whether a packet may have it.
    pub fn is_allowed_in_stream(self) -> bool {
        Self::PRE_STREAM <= self && self <= Self::POST_STREAM
    }

    /// Returns the lowest timestamp allowed after a packet of this one: a bound.
    #[must_use]
    pub fn next_allowed(self) -> Self {
        if self == Self::PRE_STREAM || self >= Self::MAX {
            Self::ONE_OVER_POST_STREAM
        } else {
            Self(self.0 + 1)
        }
    }

    /// Returns the highest timestamp that is settled if this is the bound.
    #[must_use]
    pub fn settled(self) -> Self {
        match self {
            Self::DONE => Self::DONE,
            Self::ONE_OVER_POST_STREAM => Self::POST_STREAM,
            Self::POST_STREAM => Self::MAX,
            _ if self <= Self::MIN => Self::UNSTARTED,
            _ => Self(self.0 - 1),
        }
    }

    /// Shifts an ordinary timestamp, within their range; special ones stay unchanged.
    #[must_use]
    pub fn offset(self, by: i64) -> Self {
        if self.is_ordinary() {
            Self(self.0.saturating_add(by).clamp(Self::MIN.0, Self::MAX.0))
        } else {
            self
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::UNSET => "Timestamp::Unset()",
            Self::UNSTARTED => "Timestamp::Unstarted()",
            Self::PRE_STREAM => "Timestamp::PreStream()",
            Self::MIN => "Timestamp::Min()",
            Self::MAX => "Timestamp::Max()",
            Self::POST_STREAM => "Timestamp::PostStream()",
            Self::ONE_OVER_POST_STREAM => "Timestamp::OneOverPostStream()",
            Self::DONE => "Timestamp::Done()",
            Self(value) => return write!(f, "{value}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn bounds_follow_times() {
        assert_eq!(Timestamp::new(0).next_allowed(), Timestamp::new(1));
        assert_eq!(
            Timestamp::MAX.next_allowed(),
            Timestamp::ONE_OVER_POST_STREAM
        );
        assert_eq!(
            Timestamp::PRE_STREAM.next_allowed(),
            Timestamp::ONE_OVER_POST_STREAM,
            "nothing follows it"
        );
        for time in [-5, 0, 7] {
            let time = Timestamp::new(time);
            assert_eq!(time.next_allowed().settled(), time);
        }
        assert_eq!(Timestamp::PRE_STREAM.settled(), Timestamp::UNSTARTED);
        assert_eq!(Timestamp::DONE.settled(), Timestamp::DONE);
    }

    #[test]
    fn only_ordinary_times_move() {
        assert_eq!(Timestamp::MAX.offset(5), Timestamp::MAX);
        assert_eq!(Timestamp::new(3).offset(-4), Timestamp::new(-1));
        assert_eq!(Timestamp::POST_STREAM.offset(1), Timestamp::POST_STREAM);
    }

    #[test]
    fn special_times_have_names() {
        assert_eq!(Timestamp::UNSET.to_string(), "Timestamp::Unset()");
        assert_eq!(Timestamp::new(12).to_string(), "12");
    }
}
