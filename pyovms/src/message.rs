//! Messages between a server and a worker.

use prost::{Message, Oneof};

use crate::memory::Place;

/// Version of the messages: a worker of another one is refused.
pub const VERSION: u32 = 2;

/// Tensors of at most so many bytes are within their message, others in shared memory.
pub const MAX_INLINE: usize = 16 << 10;

/// Maximum number of bytes of all tensors of a message, as [`Tensor::most_bytes`] has them; half of what is read as one.
pub const MAX_TENSORS: usize = 128 << 20;

/// A message of the server.
#[derive(Clone, PartialEq, Message)]
pub struct ToWorker {
    /// Contents.
    #[prost(oneof = "Order", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub order: Option<Order>,
    /// Blocks of the worker's memory that the server has released.
    #[prost(message, repeated, tag = "15")]
    pub freed: Vec<Place>,
}

/// Contents of a message of a server.
#[derive(Clone, PartialEq, Oneof)]
pub enum Order {
    /// Load a handler.
    #[prost(message, tag = "1")]
    Load(Load),
    /// Create the state of an instance.
    #[prost(message, tag = "2")]
    Open(Instance),
    /// Call `execute`.
    #[prost(message, tag = "3")]
    Execute(Execute),
    /// Go on with a generator.
    #[prost(message, tag = "4")]
    Next(Next),
    /// Close a generator.
    #[prost(message, tag = "5")]
    CloseGenerator(Numbered),
    /// Destroy the state of an instance.
    #[prost(message, tag = "6")]
    Close(Instance),
    /// Release an object.
    #[prost(message, tag = "7")]
    Release(Numbered),
    /// Finalize a handler.
    #[prost(message, tag = "8")]
    Finalize(Instance),
    /// Map memory, whose descriptor comes with the message.
    #[prost(message, tag = "9")]
    Arena(Arena),
    /// Skip the calls of a line that have not begun. No others follow.
    #[prost(message, tag = "10")]
    Abandon(Numbered),
}

impl Order {
    /// Returns the line of the order: those of one run one after the other. 0 is none.
    pub fn line(&self) -> u64 {
        match self {
            Self::Execute(call) => call.line,
            Self::Close(call) => call.instance,
            Self::Abandon(line) => line.number,
            _ => 0,
        }
    }
}

/// A message of a worker.
#[derive(Clone, PartialEq, Message)]
pub struct FromWorker {
    /// Contents.
    #[prost(oneof = "Report", tags = "1, 2, 3, 4, 5")]
    pub report: Option<Report>,
    /// Blocks of the server's memory that the worker has released.
    #[prost(message, repeated, tag = "15")]
    pub freed: Vec<Place>,
}

/// Contents of a message of a worker.
#[derive(Clone, PartialEq, Oneof)]
pub enum Report {
    /// The worker is ready.
    #[prost(message, tag = "1")]
    Hello(Hello),
    /// A call has ended.
    #[prost(message, tag = "2")]
    Done(Done),
    /// A generator has given a set, or ended.
    #[prost(message, tag = "3")]
    Set(Set),
    /// Map memory, whose descriptor comes with the message.
    #[prost(message, tag = "4")]
    Arena(Arena),
    /// Log an exception for which no call fails.
    #[prost(message, tag = "5")]
    Log(Log),
}

/// Memory that the sender has made, and takes blocks from.
#[derive(Clone, PartialEq, Message)]
pub struct Arena {
    /// Number, unique among those of the sender.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// Length in bytes; 0 when it has ended, and without a descriptor then.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

/// A thing with a number: a generator, an object, or a line.
#[derive(Clone, PartialEq, Message)]
pub struct Numbered {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub number: u64,
}

/// The handler of a node, to be loaded.
#[derive(Clone, PartialEq, Message)]
pub struct Load {
    /// Number of the call.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// Number that the node has from now on.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    /// Name of the node.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Path of the handler file.
    #[prost(bytes = "vec", tag = "4")]
    pub path: Vec<u8>,
    /// Names of the inputs.
    #[prost(string, repeated, tag = "5")]
    pub inputs: Vec<String>,
    /// Names of the outputs, and what becomes of them.
    #[prost(message, repeated, tag = "6")]
    pub outputs: Vec<Output>,
    /// Parameters of the configuration, where nodes have any.
    #[prost(message, optional, tag = "7")]
    pub params: Option<Params>,
    /// Requests a look at the class alone, without an object of it.
    #[prost(bool, tag = "8")]
    pub inspect: bool,
}

/// An output of a node.
#[derive(Clone, PartialEq, Message)]
pub struct Output {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Indicates that the server wants the contents.
    #[prost(bool, tag = "2")]
    pub contents: bool,
    /// Indicates that another node of the worker may get the object.
    #[prost(bool, tag = "3")]
    pub object: bool,
}

/// Parameters of a node.
#[derive(Clone, PartialEq, Message)]
pub struct Params {
    /// Keys and values.
    #[prost(message, repeated, tag = "1")]
    pub pairs: Vec<Pair>,
}

/// A parameter.
#[derive(Clone, PartialEq, Message)]
pub struct Pair {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A call that is about a node, and perhaps an instance of it.
#[derive(Clone, PartialEq, Message)]
pub struct Instance {
    /// Number of the call.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// Number of the node.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    /// Number of the instance, whose state is meant.
    #[prost(uint64, tag = "3")]
    pub instance: u64,
}

/// A call of `execute`.
#[derive(Clone, PartialEq, Message)]
pub struct Execute {
    /// Number of the call; that of the generator, if it gives one.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// Number of the node.
    #[prost(uint32, tag = "2")]
    pub node: u32,
    /// Number of the instance with the state; 0 for none.
    #[prost(uint64, tag = "3")]
    pub instance: u64,
    /// Indicates that all inputs of the node are there.
    #[prost(bool, tag = "4")]
    pub complete: bool,
    /// The inputs.
    #[prost(message, repeated, tag = "5")]
    pub inputs: Vec<Tensor>,
    /// Sets that a generator may give at once; 0 where there may be none.
    #[prost(uint32, tag = "6")]
    pub credits: u32,
    /// Number of the instance whose calls run one after the other, until one of them raises; 0 if they may run beside
    /// each other.
    #[prost(uint64, tag = "7")]
    pub line: u64,
    /// Header of W3C Trace Context for what the handler calls; empty if the request is not traced.
    #[prost(string, tag = "8")]
    pub traceparent: String,
    /// The header beside it; mostly empty.
    #[prost(string, tag = "9")]
    pub tracestate: String,
}

/// Leave for a generator to go on.
#[derive(Clone, PartialEq, Message)]
pub struct Next {
    /// Number of the generator.
    #[prost(uint64, tag = "1")]
    pub generator: u64,
    /// Sets that it may give in addition.
    #[prost(uint32, tag = "2")]
    pub credits: u32,
}

/// A tensor.
#[derive(Clone, PartialEq, Message)]
pub struct Tensor {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Datatype: a name of KServe, or any text.
    #[prost(string, tag = "2")]
    pub datatype: String,
    /// Shape, as declared.
    #[prost(int64, repeated, tag = "3")]
    pub shape: Vec<i64>,
    /// Indicates that the bytes are elements of the datatype in this shape.
    #[prost(bool, tag = "4")]
    pub typed: bool,
    /// Number of the object that it is; 0 for none.
    #[prost(uint64, tag = "5")]
    pub object: u64,
    /// Place of the bytes.
    #[prost(oneof = "Contents", tags = "6, 7")]
    pub contents: Option<Contents>,
}

impl Tensor {
    /// Returns the most bytes that it has in its message, which are few but for very long names, datatypes, and shapes.
    pub fn most_bytes(&self) -> usize {
        const LENGTH: usize = 10;
        const REST: usize = 128;
        let inline = match &self.contents {
            Some(Contents::Inline(bytes)) => bytes.len(),
            _ => 0,
        };
        self.name.len() + self.datatype.len() + LENGTH * self.shape.len() + inline + REST
    }
}

/// Place of the bytes of a tensor.
#[derive(Clone, PartialEq, Oneof)]
pub enum Contents {
    /// Bytes within the message.
    #[prost(bytes = "bytes", tag = "6")]
    Inline(bytes::Bytes),
    /// Bytes in shared memory.
    #[prost(message, tag = "7")]
    Shared(Place),
}

/// A worker that is ready.
#[derive(Clone, PartialEq, Message)]
pub struct Hello {
    /// [`VERSION`] of its package.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Version of Python, such as `3.11.2`.
    #[prost(string, tag = "2")]
    pub python: String,
    /// Folder of its installation or environment.
    #[prost(string, tag = "3")]
    pub prefix: String,
    /// Search path for packages.
    #[prost(string, repeated, tag = "4")]
    pub path: Vec<String>,
}

/// The end of a call.
#[derive(Clone, PartialEq, Message)]
pub struct Done {
    /// Number of the call.
    #[prost(uint64, tag = "1")]
    pub call: u64,
    /// Outcome of the call.
    #[prost(oneof = "Outcome", tags = "2, 3, 4, 5, 6, 7, 8")]
    pub outcome: Option<Outcome>,
}

/// Outcome of a call.
#[derive(Clone, PartialEq, Oneof)]
pub enum Outcome {
    /// The call returned outputs; none, if it may.
    #[prost(message, tag = "2")]
    Outputs(Outputs),
    /// The call gave a generator.
    #[prost(message, tag = "3")]
    Generator(Numbered),
    /// The call raised an exception.
    #[prost(message, tag = "4")]
    Raised(Raised),
    /// The handler is loaded.
    #[prost(message, tag = "5")]
    Loaded(Loaded),
    /// The file has no class of that name.
    #[prost(message, tag = "6")]
    NoClass(Empty),
    /// The class has no `execute`.
    #[prost(message, tag = "7")]
    NoExecute(Empty),
    /// The call is done.
    #[prost(message, tag = "8")]
    Ended(Empty),
}

/// Message without fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Empty {}

/// Outputs of a call.
#[derive(Clone, PartialEq, Message)]
pub struct Outputs {
    /// The tensors, in the order of the list.
    #[prost(message, repeated, tag = "1")]
    pub tensors: Vec<Tensor>,
}

/// An exception, or a result that breaks the rules for results.
#[derive(Clone, PartialEq, Message)]
pub struct Raised {
    /// Type, such as `ValueError`.
    #[prost(string, tag = "1")]
    pub kind: String,
    /// Message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Traceback, as Python formats it; empty if no code raised it.
    #[prost(string, tag = "3")]
    pub traceback: String,
    /// Line of the handler file where it passed, from 1; 0 if it did not.
    #[prost(uint32, tag = "4")]
    pub line: u32,
}

/// A handler that is loaded.
#[derive(Clone, PartialEq, Message)]
pub struct Loaded {
    /// Indicates that the class has `create_state`.
    #[prost(bool, tag = "1")]
    pub stateful: bool,
    /// Indicates that `execute` is a generator function.
    #[prost(bool, tag = "2")]
    pub generates: bool,
    /// Methods that cannot be called as they are.
    #[prost(message, repeated, tag = "3")]
    pub misfits: Vec<Misfit>,
    /// Methods whose names are nearly those that the server calls.
    #[prost(message, repeated, tag = "4")]
    pub strays: Vec<Misfit>,
}

/// A method that cannot be called as the server calls it.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Misfit {
    /// Name of the method.
    #[prost(string, tag = "1")]
    pub method: String,
    /// Signature of the method, or the kind of object that it is.
    #[prost(string, tag = "2")]
    pub found: String,
    /// Signature that it should have.
    #[prost(string, tag = "3")]
    pub expected: String,
    /// File where it is defined; empty if that is not known.
    #[prost(string, tag = "4")]
    pub file: String,
    /// Line there, from 1; 0 if it is not known.
    #[prost(uint32, tag = "5")]
    pub line: u32,
}

/// A set of a generator.
#[derive(Clone, PartialEq, Message)]
pub struct Set {
    /// Number of the generator.
    #[prost(uint64, tag = "1")]
    pub generator: u64,
    /// The set; without one the generator has ended.
    #[prost(message, optional, tag = "2")]
    pub outputs: Option<Outputs>,
    /// Exception that ended it.
    #[prost(message, optional, tag = "3")]
    pub raised: Option<Raised>,
}

/// An exception for the log.
#[derive(Clone, PartialEq, Message)]
pub struct Log {
    /// Name of the node.
    #[prost(string, tag = "1")]
    pub node: String,
    /// Failed step.
    #[prost(string, tag = "2")]
    pub text: String,
    /// The exception.
    #[prost(message, optional, tag = "3")]
    pub raised: Option<Raised>,
}
