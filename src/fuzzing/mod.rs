//! Fuzz targets: every parser that sees bytes of others, with the properties that hold whatever the bytes are.
//!
//! A target is a function beside its parser, in a file `fuzz.rs` of that folder; those that need nothing but public
//! functions are in [`files`]. All of them have these properties in common: no panic, no more memory than in
//! proportion to the input, and errors that blame the sender. Each has its own besides, such as that what is
//! read can be written, and is the same when it is read again.
//!
//! The module is there in tests, which run each target for a moment, and in the fuzzer (`fuzz/main.rs`),
//! which runs one for as long as one likes.

mod files;
#[cfg(test)]
mod seeds;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use allocation_counter::AllocationInfo;

use crate::{
    budget::Budget,
    error::{Error, ErrorKind, Result},
    request::{Data, Declared, InferRequest},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, strings::Strings},
};

/// Budget of a target that is charged for what it reads.
pub(crate) const BUDGET: usize = 4 << 20;

/// A parser with its properties.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Name, which is also that of its folder in `fuzz/corpus`.
    pub name: &'static str,
    check: fn(&[u8]),
    /// Bytes of memory for each byte of input.
    factor: usize,
    /// Bytes of memory besides.
    base: usize,
}

impl FuzzTarget {
    /// Returns the target of a name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Returns the names of all targets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TARGETS.iter().map(|target| target.name)
    }

    /// Gives the parser one input.
    ///
    /// # Panics
    ///
    /// Panics if a property does not hold.
    pub fn run(&self, data: &[u8]) {
        let limit = self.base + self.factor * data.len();
        // The first run also has what is made once.
        if self.memory(data) > limit {
            let memory = self.memory(data);
            assert!(
                memory <= limit,
                "{} took {memory} bytes of memory for {} of input; expected {limit} at most",
                self.name,
                data.len()
            );
        }
    }

    /// Runs it; returns the most bytes of memory that it had at once.
    fn memory(&self, data: &[u8]) -> usize {
        let mut outcome = Ok(());
        let used = allocation_counter::measure(|| {
            outcome = catch_unwind(AssertUnwindSafe(|| (self.check)(data)));
        });
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        usize::try_from(used.bytes_max).unwrap_or(usize::MAX)
    }
}

/// Declares the targets, and a test of each.
macro_rules! targets {
    ($($name:ident: $check:path, $factor:literal, $base:expr;)*) => {
        /// All targets.
        const TARGETS: &[FuzzTarget] = &[$(FuzzTarget {
            name: stringify!($name),
            check: $check,
            factor: $factor,
            base: $base,
        }),*];

        #[cfg(test)]
        mod each {
            $(#[test]
            fn $name() {
                super::tests::run_bounded(stringify!($name));
            })*
        }
    };
}

/// Memory of a parser for small things, whatever it reads.
const SMALL: usize = 64 << 10;

// The parser, the bytes of memory for each byte of input, and those besides.
targets! {
    addresses: crate::client::fuzz::addresses, 64, SMALL;
    certificates: crate::tls::fuzz::certificates, 64, SMALL;
    client_answers: crate::client::fuzz::answers, 64, SMALL;
    client_inputs: crate::client::input::fuzz::piped, 64, SMALL;
    config: files::config, 512, 1 << 20;
    generate_json: crate::frontends::kserve::fuzz::generate, 160, SMALL;
    grpc_messages: crate::frontends::fuzz::messages, 64, BUDGET;
    grpc_queries: crate::frontends::fuzz::queries, 64, SMALL;
    gzip: crate::frontends::fuzz::gzip, 64, BUDGET;
    http1_heads: crate::server::fuzz::heads, 8, SMALL;
    http2_frames: crate::server::fuzz::frames, 64, SMALL;
    http_headers: crate::frontends::fuzz::headers, 64, SMALL;
    identities: crate::auth::fuzz::identities, 1024, 1 << 20;
    images: files::images, 16, 2 * BUDGET;
    kserve_grpc: crate::frontends::kserve::fuzz::grpc, 1024, BUDGET;
    kserve_json: crate::frontends::kserve::fuzz::json, 160, SMALL;
    model_xml: crate::model::fuzz::xml, 256, SMALL;
    npy: files::npy, 64, SMALL;
    npz: files::npz, 64, 4 * BUDGET;
    paths: crate::frontends::tfs::fuzz::paths, 64, SMALL;
    pbtxt: files::pbtxt, 4096, 4 << 20;
    redis_answers: crate::store::fuzz::answers, 256, SMALL;
    shared_memory_keys: crate::shared_memory::fuzz::keys, 16, SMALL;
    snapshots: crate::model::fuzz::snapshots, 256, SMALL;
    storage_paths: crate::model::storage::fuzz::paths, 64, SMALL;
    store_files: crate::store::fuzz::records, 64, SMALL;
    strings: files::strings, 64, SMALL + BUDGET;
    tfs_grpc: crate::frontends::tfs::fuzz::grpc, 1024, BUDGET;
    tfs_json: crate::frontends::tfs::fuzz::json, 160, SMALL;
    tokens: crate::auth::fuzz::tokens, 256, SMALL;
    wav: crate::client::input::fuzz::wav, 64, SMALL;
}

/// Asserts that an error blames the sender, in words.
pub(crate) fn check_error(error: &Error) {
    assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    assert!(!error.message().is_empty());
}

/// Asserts what is said of the inputs of a request, whoever has decoded it: as many elements as are counted, in as many
/// bytes as these take.
pub(crate) fn check_request(request: &InferRequest) {
    for input in &request.inputs {
        let (Declared::Known(dtype), Data::Values { count, bytes }) =
            (&input.datatype, &input.data)
        else {
            continue;
        };
        let found = match dtype.size() {
            Some(size) => bytes.len() == count * size,
            None => Strings::new(bytes.clone()).is_ok_and(|strings| strings.count() == *count),
        };
        assert!(found, "{}: {count} of {dtype}", input.name);
    }
    if let Err(error) = request.bound_strings(16) {
        check_error(&error);
    }
}

/// Asserts what is said of a request that was decoded or refused, and of what a model takes of it.
pub(crate) fn check_decoded(decoded: Result<InferRequest>, budget: &Budget) {
    match decoded {
        Ok(request) => {
            check_request(&request);
            check_tensors(&servable(), request);
        }
        Err(error) => check_error(&error),
    }
    assert_eq!(budget.charged(), 0);
}

/// Decodes what a model takes of a request, as each protocol has it done.
pub(crate) fn check_tensors(info: &ServableInfo, request: InferRequest) {
    use crate::{model::check, tensor::images::PixelLimit};
    let budget = Budget::new(BUDGET);
    match check::check(info, request, PixelLimit(1 << 12), &budget) {
        Ok(work) => assert_eq!(work.inputs.len(), info.inputs.len()),
        Err(error) => check_error(&error),
    }
    assert_eq!(budget.charged(), 0);
}

/// Returns what a model takes whose inputs are of all kinds that are read in a way of their own.
pub(crate) fn servable() -> ServableInfo {
    let input = |name: &str, dtype, dims: &[Dim]| TensorInfo {
        name: name.to_owned(),
        dtype,
        is_open: false,
        shape: PartialShape(dims.to_vec()),
        layout: Layout::unspecified(dims.len()),
        port: 0,
    };
    let inputs = vec![
        input(
            "image",
            DataType::U8,
            &[Dim::Any, Dim::Any, Dim::Any, Dim::Any],
        ),
        input("numbers", DataType::F32, &[Dim::Any, Dim::Fixed(2)]),
        input("texts", DataType::String, &[Dim::Any]),
    ];
    ServableInfo::new(inputs, Vec::new())
}

/// Returns the same with one of the inputs, which need not be named then.
pub(crate) fn servable_of_one(kind: u8) -> ServableInfo {
    let mut info = servable();
    let kept = usize::from(kind) % info.inputs.len();
    info.inputs = vec![info.inputs.swap_remove(kept)];
    info
}

/// Asserts that what was decoded takes no more memory than it was charged for, and half as much again while lists grow, which
/// have their old room for a moment.
pub(crate) fn check_charge(used: &AllocationInfo, charged: usize) {
    let held = used.bytes_current.unsigned_abs();
    let (peak, charged) = (used.bytes_max, charged as u64);
    assert!(
        held <= charged && peak <= charged + charged / 2,
        "{held} bytes are held, {peak} at most; {charged} are charged"
    );
}

/// Takes the first byte off an input, which chooses among several ways to read the rest.
pub(crate) fn choice(data: &[u8]) -> (u8, &[u8]) {
    data.split_first()
        .map_or((0, data), |(first, rest)| (*first, rest))
}

/// Takes the first line off an input.
pub(crate) fn line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (b"", data),
    }
}
