//! Settings of gRPC connections from `--grpc-channel-arguments`. The names are those of the C++ server's
//! gRPC library; those without a counterpart here are named in the log and have no effect.

use std::time::Duration;

use super::inline_calls::InlineCalls;
use crate::config::{ChannelArgument, ServerSettings};

/// Calls that one connection may have in flight at once.
const STREAMS: u32 = 128;

/// Time without traffic after which a connection is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Time that it has to answer that.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of the headers of a call in bytes, as HTTP/2 counts them; that of gRPC's own libraries.
const MAX_METADATA: u32 = 8 << 10;

/// The settings of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel {
    streams: u32,
    keepalive: Option<Duration>,
    keepalive_timeout: Duration,
    metadata: u32,
    /// Age beyond which a connection takes no more calls, so that clients connect anew.
    pub(super) age: Option<Duration>,
}

impl Channel {
    /// Reads the settings of a server.
    pub(super) fn of(settings: &ServerSettings) -> Self {
        let channel = Self::new(&settings.grpc_channel_arguments);
        match settings.flags.grpc_max_concurrent_streams {
            // Said by a flag of its own.
            Some(streams) => Self { streams, ..channel },
            None => channel,
        }
    }

    /// Reads the arguments.
    fn new(arguments: &[(String, ChannelArgument)]) -> Self {
        let mut channel = Self {
            streams: STREAMS,
            keepalive: Some(KEEPALIVE),
            keepalive_timeout: KEEPALIVE_TIMEOUT,
            metadata: MAX_METADATA,
            age: None,
        };
        for (name, value) in arguments {
            if !channel.take(name, value) {
                tracing::info!("--grpc-channel-arguments: {name} has no effect");
            }
        }
        channel
    }

    fn take(&mut self, name: &str, value: &ChannelArgument) -> bool {
        let ChannelArgument::Int(number) = *value else {
            return false;
        };
        // The library means "none" by the largest number, and by anything below zero.
        let number = u32::try_from(number).ok().filter(|_| number != i32::MAX);
        let time = number.map(|number| Duration::from_millis(number.into()));
        match name {
            "grpc.max_concurrent_streams" => self.streams = number.unwrap_or(u32::MAX),
            "grpc.keepalive_time_ms" => self.keepalive = time,
            "grpc.keepalive_timeout_ms" => {
                self.keepalive_timeout = time.unwrap_or(KEEPALIVE_TIMEOUT);
            }
            "grpc.max_connection_age_ms" => self.age = time,
            "grpc.max_metadata_size" => self.metadata = number.unwrap_or(MAX_METADATA),
            // Used by `message_size`.
            "grpc.max_receive_message_length" => {}
            _ => return false,
        }
        true
    }

    /// Sets a connection up.
    pub(super) fn set(&self, builder: &mut hyper::server::conn::http2::Builder<InlineCalls>) {
        builder
            .max_concurrent_streams(self.streams)
            .keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive_timeout)
            .max_header_list_size(self.metadata);
    }

    /// Returns the longest header block that is read: what is too large for the list, but not by
    /// far, is refused by its stream, and more ends the connection.
    pub(super) fn max_block(&self) -> usize {
        4 * self.metadata.max(MAX_METADATA) as usize
    }
}

/// Returns the most bytes of a gRPC message: the usual limit, or less if the arguments say so.
pub(super) fn message_size(arguments: &[(String, ChannelArgument)], usual: usize) -> usize {
    let given = arguments
        .iter()
        .rev()
        .find_map(|(name, value)| match value {
            ChannelArgument::Int(bytes) if name == "grpc.max_receive_message_length" => {
                usize::try_from(*bytes).ok()
            }
            _ => None,
        });
    given.map_or(usual, |given| given.min(usual))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Channel, message_size};
    use crate::config::ChannelArgument::{Int, Text};

    #[test]
    fn arguments_with_a_counterpart_are_taken() {
        let arguments = [
            ("grpc.max_concurrent_streams", Int(7)),
            ("grpc.keepalive_time_ms", Int(1500)),
            ("grpc.keepalive_timeout_ms", Text("soon".to_owned())),
            ("grpc.max_connection_age_ms", Int(i32::MAX)),
            ("grpc.max_receive_message_length", Int(100)),
            ("grpc.lb_policy_name", Text("x".to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        assert_eq!(
            Channel::new(&arguments),
            Channel {
                streams: 7,
                keepalive: Some(Duration::from_millis(1500)),
                ..Channel::new(&[])
            }
        );
        assert_eq!(message_size(&arguments, 1000), 100);
        assert_eq!(message_size(&arguments, 10), 10);
        assert_eq!(message_size(&[], 1000), 1000);
    }
}
