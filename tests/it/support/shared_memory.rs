//! Shared memory objects as clients make them, and tensors in them.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use ovms::proto::kserve::{
    InferParameter, SystemSharedMemoryRegisterRequest, infer_parameter::ParameterChoice,
};
use tonic::Status;

use super::grpc::Grpc;

/// Prefix of the keys of tests.
pub(crate) const PREFIX: &str = "/ovms_it_";

/// Flag that allows them.
pub(crate) const ON: [&str; 2] = ["--shared_memory", PREFIX];

/// A shared memory object, which is unlinked on drop.
pub(crate) struct Object {
    pub(crate) key: String,
    pub(crate) path: PathBuf,
}

impl Object {
    /// Makes an object.
    pub(crate) fn new(contents: &[u8]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let key = format!("{PREFIX}{}_{count}", std::process::id());
        let path = PathBuf::from(format!("/dev/shm{key}"));
        fs::write(&path, contents).expect("/dev/shm can be written");
        Self { key, path }
    }

    /// Returns the contents.
    pub(crate) fn contents(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the object is there")
    }

    /// Makes it shorter or longer.
    pub(crate) fn truncate(&self, length: u64) {
        let file = OpenOptions::new().write(true).open(&self.path);
        let file = file.expect("the object is there");
        file.set_len(length).expect("the length is allowed");
    }

    /// Registers all of it.
    pub(crate) fn register(&self, grpc: &Grpc, name: &str) {
        let length = self.contents().len() as u64;
        register(grpc, name, &self.key, 0, length).expect("it can be registered");
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // A test may have unlinked it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Registers part of an object.
pub(crate) fn register(
    grpc: &Grpc,
    name: &str,
    key: &str,
    offset: u64,
    byte_size: u64,
) -> Result<(), Status> {
    let request = SystemSharedMemoryRegisterRequest {
        name: name.to_owned(),
        key: key.to_owned(),
        offset,
        byte_size,
    };
    let mut client = grpc.client.clone();
    let answer = grpc.wait(async move { client.system_shared_memory_register(request).await });
    answer.map(drop)
}

/// Makes the parameters of a tensor in a region.
pub(crate) fn placed(region: &str, offset: i64, size: i64) -> HashMap<String, InferParameter> {
    let of = |choice| InferParameter {
        parameter_choice: Some(choice),
    };
    let mut parameters = HashMap::from([
        (
            "shared_memory_region".to_owned(),
            of(ParameterChoice::StringParam(region.to_owned())),
        ),
        (
            "shared_memory_byte_size".to_owned(),
            of(ParameterChoice::Int64Param(size)),
        ),
    ]);
    if offset != 0 {
        let offset = of(ParameterChoice::Int64Param(offset));
        parameters.insert("shared_memory_offset".to_owned(), offset);
    }
    parameters
}
