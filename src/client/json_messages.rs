//! Messages of the gRPC services as JSON, in the mapping that protobuf has for it.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};

use super::error::AnswerError;
use crate::proto::DESCRIPTORS;

/// The messages of all services.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the build script has compiled the descriptors")
});

/// Writes a message.
pub(super) fn to_json(name: &str, message: &impl Message) -> String {
    let message = DynamicMessage::decode(descriptor(name), message.encode_to_vec().as_slice());
    let message = message.expect("what was encoded with the same descriptor");
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::new(&mut out);
    let options = SerializeOptions::new().use_proto_field_name(true);
    let written = message.serialize_with_options(&mut json, &options);
    written.expect("messages have texts for keys");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Reads a message; fields that it does not have are passed over.
pub(super) fn from_json<T: Message + Default>(name: &str, json: &[u8]) -> Result<T, AnswerError> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(descriptor(name), &mut json, &options)
        .and_then(|message| json.end().map(|()| message))
        .map_err(AnswerError::decode)?
        .transcode_to()
        .map_err(AnswerError::decode)
}

fn descriptor(name: &str) -> MessageDescriptor {
    let descriptor = POOL.get_message_by_name(name);
    descriptor.expect("the descriptors have all messages of the services")
}
