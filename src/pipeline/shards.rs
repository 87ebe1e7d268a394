//! Tensors cut into parts along their first axis, and put together again.

use bytes::Bytes;

use super::{MAX_SHARDS, plan::Count};
use crate::{
    error::{Error, ErrorKind, Result},
    tensor::{DataType, ShapeText, Tensor, byte_size},
};

/// Text of the error of too many parts.
pub(super) const TOO_MANY: &str = "Too large dynamic demultiplication requested.";
/// Text for a request that comes to nothing.
const NO_CONTENT: &str = "Pipeline execution aborted due to no content from custom node";

/// A node whose outputs are split.
#[derive(Debug, Clone, Copy)]
pub struct Splitter<'a> {
    /// Its name.
    pub node: &'a str,
    /// Marks the entry, where what is wrong is an error of the client.
    pub entry: bool,
    /// Number of parts.
    pub count: Count,
    /// Allows outputs to have nothing to split.
    pub allows_empty: bool,
}

impl Splitter<'_> {
    /// Validates the outputs of a run and returns into how many parts each is split.
    ///
    /// # Errors
    ///
    /// Fails with the first error of the first output that has one.
    pub fn count<'t>(
        &self,
        outputs: impl IntoIterator<Item = (&'t str, &'t Tensor)>,
    ) -> Result<usize> {
        let kind = match self.entry {
            true => ErrorKind::InvalidArgument,
            false => ErrorKind::Internal,
        };
        let node = self.node;
        // The request has one dimension more than its node takes, which may be none.
        let rank = if self.entry { 1 } else { 2 };
        let mut count = match self.count {
            Count::Fixed(count) => Some(count),
            Count::Dynamic => None,
        };
        for (output, tensor) in outputs {
            let first = tensor.shape().first().copied();
            if let Some(actual) = first.filter(|length| *length > MAX_SHARDS) {
                let bounds = format!("Expected: at most {MAX_SHARDS}; Actual: {actual}");
                return Err(Error::new(
                    kind,
                    format!("{TOO_MANY} - Node: {node}; {bounds}"),
                ));
            }
            let place = || format!("Node: {node} output: {output}");
            if tensor.dtype() == DataType::String {
                let text = "Demultiplication is not supported for string precision";
                return Err(Error::new(kind, format!("{text} - {}", place())));
            }
            let Some(actual) = first.filter(|_| tensor.shape().len() >= rank) else {
                let shape = ShapeText(tensor.shape());
                let text = format!(
                    "Wrong number of dimensions in a tensor to be sharded - {}; Expected: at least \
                     {rank}; Actual: {shape}",
                    place()
                );
                return Err(Error::new(kind, text));
            };
            let expected = *count.get_or_insert(actual);
            if actual != expected {
                let text = format!(
                    "Wrong dimension size. Should match demultiply count - {}; Expected: \
                     {expected}; Actual: {actual}",
                    place()
                );
                return Err(Error::new(kind, text));
            }
        }
        match count {
            Some(0) if self.allows_empty => Ok(0),
            None | Some(0) => {
                // No error, so that clients get the text alone.
                let cause = format!("{NO_CONTENT} - Node: {node}");
                Err(Error::new(ErrorKind::Aborted, NO_CONTENT).with_source(cause))
            }
            Some(count) => Ok(count),
        }
    }
}

/// Cuts a tensor along its first axis. The parts share its memory.
///
/// # Panics
///
/// Panics if the tensor is a scalar, or of strings.
pub fn split(tensor: &Tensor) -> impl ExactSizeIterator<Item = Tensor> {
    let (count, shape) = tensor.shape().split_first().expect("validated before");
    let size = byte_size(tensor.dtype(), shape).ok().flatten();
    // Where some other dimension is 0 there are no bytes; of no parts the size may be beyond all numbers.
    let size = size.unwrap_or_default();
    (0..*count).map(move |index| {
        let data = tensor.data().slice(index * size..(index + 1) * size);
        Tensor::new(tensor.dtype(), shape.to_vec(), data).expect("a part has its own bytes")
    })
}

/// Parts to be put together: so many for each level, outermost first, the innermost varying
/// fastest. With no level it is one tensor, as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// Number of parts in each level; the most, if sessions around it differ in that.
    pub counts: Vec<usize>,
    /// The parts. Where a level has none, there is the tensor that had nothing to be split instead,
    /// if that is what is gathered.
    pub tensors: Vec<Tensor>,
}

impl Parts {
    /// Returns the bytes of all parts.
    pub fn size(&self) -> usize {
        self.tensors.iter().map(|part| part.data().len()).sum()
    }

    /// Puts the parts together, with the levels as new first dimensions. Copies each part once;
    /// one that is alone is not copied.
    ///
    /// # Errors
    ///
    /// Fails if not all parts have the same type and shape, or there are fewer than counted:
    /// where one demultiplexer gives parts and another run of it none, nothing of equal length
    /// comes of it. Also if they have no elements, and together more rows of none than a tensor may have.
    ///
    /// # Panics
    ///
    /// Panics if there are more than the counted parts, or none; [`super::NodeJob::tensors`] knows
    /// what comes of none.
    pub fn gather(self, node: &str, input: &str) -> Result<Tensor> {
        let size = self.size();
        let Self { counts, tensors } = self;
        let count: usize = counts.iter().product();
        assert!(
            tensors.len() <= count && !tensors.is_empty(),
            "all parts are there, and no others"
        );
        let different = |what: String| {
            let text = "Gathered tensor shards dimensions are different";
            Error::internal(format!("{text} - Node: {node} input: {input}{what}"))
        };
        if tensors.len() < count {
            let actual = tensors.len();
            return Err(different(format!(
                "; Expected: {count} parts, as many within each; Actual: {actual}"
            )));
        }
        let first = &tensors[0];
        let fits = |part: &&Tensor| part.dtype() == first.dtype() && part.shape() == first.shape();
        let differs = |(_, part): &(usize, &Tensor)| !fits(part);
        if let Some((part, other)) = tensors.iter().enumerate().find(differs) {
            let text =
                |part: &Tensor| format!("{} {}", part.dtype().precision(), ShapeText(part.shape()));
            let (first, other) = (text(first), text(other));
            return Err(different(format!(
                " part: {part}; Expected: {first}; Actual: {other}"
            )));
        }
        let dtype = first.dtype();
        let shape = counts.iter().chain(first.shape()).copied().collect();
        let data = if let [only] = &tensors[..] {
            only.data().clone()
        } else {
            let mut data = Vec::with_capacity(size);
            for part in &tensors {
                data.extend_from_slice(part.data());
            }
            Bytes::from(data)
        };
        // Empty parts may be too many.
        Tensor::new(dtype, shape, data).map_err(|error| {
            let text = "Gathered tensor cannot be made";
            Error::internal(format!("{text} - Node: {node} input: {input}")).with_source(error)
        })
    }
}
