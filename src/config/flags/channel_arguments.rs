//! The arguments of `grpc_channel_arguments`: how they are read, and values of them that let no call pass.

use super::FlagError;
use crate::config::settings::{ChannelArgument, ServerSettings};

/// Bytes of headers, as HTTP/2 counts them, that nearly every call has without metadata of its own: its path, its types, and
/// the name of its client.
const LEAST_METADATA: i32 = 512;

/// Reads `k=v,k=v`.
///
/// # Errors
///
/// Fails at an item without exactly one `=`.
pub(super) fn read(text: &str) -> Result<Vec<(String, ChannelArgument)>, FlagError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',')
        .map(|item| {
            let (key, value) = item
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or_else(|| FlagError::ChannelArguments(text.to_owned()))?;
            let value = value.trim();
            let value = value.parse().map_or_else(
                |_| ChannelArgument::Text(value.to_owned()),
                ChannelArgument::Int,
            );
            Ok((key.trim().to_owned(), value))
        })
        .collect()
}

/// Returns warnings of arguments with which a server that has gRPC answers no call, or no inference. They are taken all
/// the same, as by the library that they come from.
pub(super) fn warnings(settings: &ServerSettings) -> Vec<String> {
    let flags = &settings.flags;
    if settings.port.is_none() && flags.grpc_unix_socket.is_none() {
        return Vec::new();
    }
    // The last of several counts.
    let number = |wanted: &str| {
        let mut given = settings.grpc_channel_arguments.iter().rev();
        given.find_map(|(name, value)| match value {
            ChannelArgument::Int(number) if name == wanted => Some(*number),
            _ => None,
        })
    };
    let mut warnings = Vec::new();
    let mut warn = |name: &str, is_unfit: fn(i32) -> bool, what: &str| {
        if let Some(number) = number(name).filter(|number| is_unfit(*number)) {
            warnings.push(format!("grpc_channel_arguments: {name}={number} {what}"));
        }
    };
    if flags.grpc_max_concurrent_streams.is_none() {
        let what = "lets no gRPC call pass: a connection may have none at once";
        warn("grpc.max_concurrent_streams", |number| number == 0, what);
    }
    let what = "refuses gRPC calls: most have about 500 bytes of headers";
    let is_small = |number| (0..LEAST_METADATA).contains(&number);
    warn("grpc.max_metadata_size", is_small, what);
    let what = "refuses every gRPC message that is not empty, and so all inferences";
    warn(
        "grpc.max_receive_message_length",
        |number| number == 0,
        what,
    );
    warnings
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, flags::Flags};

    /// Returns the warnings of a start with these arguments, and other flags.
    fn warned(arguments: &str, set: impl FnOnce(&mut Flags)) -> Vec<String> {
        let mut flags = Flags {
            model_name: Some("m".to_owned()),
            model_path: Some("m".into()),
            port: 9000,
            grpc_channel_arguments: Some(arguments.to_owned()),
            ..Flags::default()
        };
        set(&mut flags);
        let config = Config::from_flags(flags, &Default::default());
        config.unwrap().warnings
    }

    #[test]
    fn values_that_let_no_call_pass_are_warned_of() {
        let all = "grpc.max_concurrent_streams=0,grpc.max_metadata_size=511,grpc.max_receive_message_length=0";
        insta::assert_snapshot!(warned(all, |_| {}).join("\n"), @"
        grpc_channel_arguments: grpc.max_concurrent_streams=0 lets no gRPC call pass: a connection may have none at once
        grpc_channel_arguments: grpc.max_metadata_size=511 refuses gRPC calls: most have about 500 bytes of headers
        grpc_channel_arguments: grpc.max_receive_message_length=0 refuses every gRPC message that is not empty, and so all inferences
        ");
        let by_flag = |flags: &mut Flags| flags.grpc_max_concurrent_streams = Some(7);
        assert_eq!(warned(all, by_flag).len(), 2);
        let without_grpc = |flags: &mut Flags| (flags.port, flags.rest_port) = (0, 8000);
        assert!(warned(all, without_grpc).is_empty());
        let good = "grpc.max_concurrent_streams=1,grpc.max_metadata_size=512,grpc.max_receive_message_length=-1";
        assert!(warned(good, |_| {}).is_empty());
        let unlimited = "grpc.max_metadata_size=-1,grpc.max_concurrent_streams=-1";
        assert!(warned(unlimited, |_| {}).is_empty());
        let last = "grpc.max_concurrent_streams=0,grpc.max_concurrent_streams=4,grpc.max_metadata_size=small";
        assert!(warned(last, |_| {}).is_empty());
    }
}
