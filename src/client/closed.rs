//! Connections that were closed while a request was on them, as distinct from those that never were.

use std::{error::Error, io};

use super::{
    address::Address,
    error::{BoxError, ClientError},
};

impl ClientError {
    /// Makes the error of a connection that has failed when a request was sent over it.
    pub(super) fn broken(address: Address, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        match was_closed(&*source) {
            true => Self::Closed { address, source },
            false => Self::Unreachable { address, source },
        }
    }
}

/// Returns whether an error says that the other end closed the connection, or the stream of the request. One that
/// cannot be made, or whose bytes are of another protocol, has another error.
pub(super) fn was_closed(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    let mut is_canceled = false;
    while let Some(error) = cause {
        let reason = reason(error);
        match reason {
            Some(Reason::Closed) => return true,
            Some(Reason::Other) => return false,
            Some(Reason::Canceled) => is_canceled = true,
            None => {}
        }
        // One that is within an error of the system is none of its causes.
        let inner = error.downcast_ref::<io::Error>();
        cause = match inner.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    is_canceled
}

/// Reason of a failed connection, as far as one error shows it.
enum Reason {
    Closed,
    /// End before the request was sent; why is up to the cause, if there is one.
    Canceled,
    Other,
}

fn reason(error: &(dyn Error + 'static)) -> Option<Reason> {
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return error.is_connect().then_some(Reason::Other);
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return match error {
            error if error.is_incomplete_message() || error.is_closed() => Some(Reason::Closed),
            error if error.is_parse() => Some(Reason::Other),
            error if error.is_canceled() => Some(Reason::Canceled),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        if let Some(error) = error.get_io() {
            return Some(of_system(error));
        }
        let is_ended = error.is_remote() && (error.is_go_away() || error.is_reset());
        return Some(match is_ended {
            true => Reason::Closed,
            false => Reason::Other,
        });
    }
    let error = error.downcast_ref::<io::Error>()?;
    match of_system(error) {
        Reason::Closed => Some(Reason::Closed),
        // What is inside decides.
        _ if error.get_ref().is_some() => None,
        other => Some(other),
    }
}

fn of_system(error: &io::Error) -> Reason {
    use io::ErrorKind as K;
    match error.kind() {
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof => {
            Reason::Closed
        }
        _ => Reason::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use crate::client::{Address, Api, ClientError};

    fn text(error: io::Error) -> String {
        let address = Address::parse("models:1", Api::KserveGrpc).unwrap();
        ClientError::broken(address, error).to_string()
    }

    #[test]
    fn what_was_closed_is_not_what_was_never_there() {
        use io::ErrorKind as K;
        for kind in [K::ConnectionReset, K::BrokenPipe, K::UnexpectedEof] {
            assert_eq!(
                text(kind.into()),
                "the connection to models:1 was closed before the answer came"
            );
            let inner = io::Error::other(io::Error::from(kind));
            assert!(text(inner).contains("was closed"), "{kind}");
        }
        for error in [
            io::Error::from(K::ConnectionRefused),
            io::Error::other("not found"),
            io::Error::new(K::InvalidData, "a frame of something else"),
        ] {
            assert_eq!(text(error), "no server answers at models:1");
        }
    }
}
