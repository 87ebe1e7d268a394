//! A tensor in the runtime's memory.

use std::{mem, ptr, slice, sync::Arc};

use bytes::Bytes;
use openvino::ElementType;
use openvino_sys::{self as sys, ov_shape_t};

use super::{
    InferRequest, Side,
    handle::{Handle, Result, check, element_type, given, unfit},
};

/// A tensor of the runtime's, or the share of one that an infer request has.
pub(in crate::openvino) type Tensor = Handle<sys::ov_tensor_t>;

// SAFETY: a tensor belongs to no thread, and all that changes it takes it alone (`&mut`). An infer
// request that has it, too, is used by its owner alone: a slot has both. What a slot gave to a sequence its
// infer request may still have, and is given another one for before it runs again.
unsafe impl Send for Tensor {}

impl Tensor {
    /// Makes a tensor whose elements are zero. It has at least one dimension: the C interface knows
    /// no others.
    pub(crate) fn zeros(element: ElementType, shape: &[usize]) -> Result<Self> {
        let mut tensor = with_shape(shape, |shape| {
            // SAFETY: the shape has as many dimensions as its rank and lives until the call returns,
            // which copies it; the function puts the pointer to a new tensor there.
            unsafe { Self::made(|tensor| sys::ov_tensor_create(element.into(), shape, tensor)) }
        })?;
        tensor.clear()?;
        Ok(tensor)
    }

    /// Makes a tensor of numbers over bytes that are there.
    ///
    /// # Safety
    ///
    /// The bytes live, and nobody writes to them, for as long as this tensor or what it is given to uses them; that reads
    /// from it only.
    pub(super) unsafe fn over(element: ElementType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        if element == ElementType::String {
            return Err(unfit("strings are no bytes"));
        }
        let start = bytes.as_ptr().cast_mut().cast();
        let make = sys::ov_tensor_create_from_host_ptr;
        let tensor = with_shape(shape, |shape| {
            // SAFETY: the shape is as above; of the bytes the caller promises that they live.
            unsafe { Self::made(|tensor| make(element.into(), shape, start, tensor)) }
        })?;
        if tensor.get_byte_size()? != bytes.len() {
            return Err(unfit("the bytes are not those of the shape"));
        }
        Ok(tensor)
    }

    /// Makes the elements zero, so that none is memory that nobody wrote; strings are empty anyway.
    pub(super) fn clear(&mut self) -> Result<()> {
        if self.get_element_type()? != ElementType::String {
            let (start, size) = (self.start()?, self.get_byte_size()?);
            if size > 0 {
                // SAFETY: the tensor has `size` bytes from `start`, is ours alone (`&mut`), and is of
                // numbers, which may have any bytes.
                unsafe { ptr::write_bytes(start, 0, size) };
            }
        }
        Ok(())
    }

    /// Returns the lengths of its dimensions.
    pub(crate) fn get_shape(&self) -> Result<Vec<usize>> {
        let empty = ov_shape_t {
            rank: 0,
            dims: ptr::null_mut(),
        };
        // SAFETY: the tensor is alive; the shape goes into a variable of ours.
        let get = |shape| unsafe { sys::ov_tensor_get_shape(self.get(), shape) };
        let mut shape = given(empty, get)?;
        let count = match shape.dims.is_null() {
            true => 0,
            false => usize::try_from(shape.rank).unwrap_or(0),
        };
        let length = |index| {
            // SAFETY: the shape has as many dimensions as its rank, and is freed below.
            let length = unsafe { *shape.dims.add(index) };
            usize::try_from(length).unwrap_or(0)
        };
        let lengths = (0..count).map(length).collect();
        // SAFETY: the shape was filled by the call above, and its dimensions have been copied.
        check(unsafe { sys::ov_shape_free(&raw mut shape) })?;
        Ok(lengths)
    }

    /// Returns the type of its elements.
    pub(crate) fn get_element_type(&self) -> Result<ElementType> {
        // SAFETY: the tensor is alive; the type goes into a variable of ours.
        element_type(|element| unsafe { sys::ov_tensor_get_element_type(self.get(), element) })
    }

    /// Returns the number of its elements.
    pub(crate) fn get_size(&self) -> Result<usize> {
        // SAFETY: the tensor is alive; the number goes into a variable of ours.
        given(0, |count| unsafe {
            sys::ov_tensor_get_size(self.get(), count)
        })
    }

    /// Returns the number of its bytes.
    pub(crate) fn get_byte_size(&self) -> Result<usize> {
        // SAFETY: the tensor is alive; the number goes into a variable of ours.
        given(0, |size| unsafe {
            sys::ov_tensor_get_byte_size(self.get(), size)
        })
    }

    /// Returns its bytes.
    pub(crate) fn get_raw_data(&self) -> Result<&[u8]> {
        let (start, size) = (self.start()?, self.get_byte_size()?);
        if size == 0 {
            return Ok(&[]);
        }
        // SAFETY: the tensor has `size` bytes from `start` for as long as it lives, all of which
        // have been written; what changes them takes it alone (`&mut`), or the infer request that
        // has it, too.
        Ok(unsafe { slice::from_raw_parts(start, size) })
    }

    /// Returns its bytes, to be changed; they are those of numbers, or the fields of strings.
    pub(crate) fn get_raw_data_mut(&mut self) -> Result<&mut [u8]> {
        let (start, size) = (self.start()?, self.get_byte_size()?);
        if size == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as above, and the tensor is ours alone (`&mut`).
        Ok(unsafe { slice::from_raw_parts_mut(start, size) })
    }

    /// Returns where its elements begin; null if it has none.
    fn start(&self) -> Result<*mut u8> {
        // SAFETY: the tensor is alive; the pointer goes into a variable of ours.
        let data = |start| unsafe { sys::ov_tensor_data(self.get(), start) };
        Ok(given(ptr::null_mut(), data)?.cast())
    }
}

/// Number of dimensions up to which they are not allocated; most tensors have no more.
const FEW: usize = 8;

/// Makes something of a shape as the C interface has it, which knows none without dimensions.
fn with_shape<R>(shape: &[usize], make: impl FnOnce(ov_shape_t) -> Result<R>) -> Result<R> {
    let (mut few, mut many) = ([0; FEW], Vec::new());
    let dims = match shape.len() {
        0 => return Err(unfit("a tensor without dimensions cannot be made")),
        rank @ 1..=FEW => &mut few[..rank],
        rank => {
            many.resize(rank, 0);
            &mut many[..]
        }
    };
    for (dim, &length) in dims.iter_mut().zip(shape) {
        *dim = i64::try_from(length).unwrap_or(i64::MAX);
    }
    make(ov_shape_t {
        rank: i64::try_from(dims.len()).unwrap_or(i64::MAX),
        dims: dims.as_mut_ptr(),
    })
}

/// A tensor whose memory stays where it is: one of an infer request, of a port with a fixed shape. It
/// is asked for once, which takes longer than to copy a small state or output.
pub(in crate::openvino) struct FixedTensor {
    /// Keeps the memory.
    tensor: Tensor,
    start: *mut u8,
    size: usize,
}

// SAFETY: as a tensor is; the memory goes with it.
unsafe impl Send for FixedTensor {}

impl FixedTensor {
    /// Asks where the memory of a tensor is.
    pub(crate) fn new(tensor: Tensor) -> Result<Self> {
        let (start, size) = (tensor.start()?, tensor.get_byte_size()?);
        Ok(Self {
            start,
            size,
            tensor,
        })
    }

    /// Returns the tensor.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Returns the elements' bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the tensor, which lives as long as this does, has `size` bytes from `start`, all of
        // which have been written, and never another shape or other memory; what changes them takes it
        // alone (`&mut`), or the infer request that has it, too.
        unsafe { slice::from_raw_parts(self.start, self.size) }
    }

    /// Returns the elements' bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.size == 0 {
            return &mut [];
        }
        // SAFETY: as above, and the tensor is ours alone (`&mut`).
        unsafe { slice::from_raw_parts_mut(self.start, self.size) }
    }
}

/// Tensors that were given away, of which a slot takes one again when nobody has it any more.
const MAX_GIVEN: usize = 2;

/// The tensor of an output of numbers, of a fixed shape, which is given away as it is: the infer request gets another
/// one.
pub(in crate::openvino) struct GivenOutput {
    index: usize,
    element: ElementType,
    shape: Vec<usize>,
    tensor: Tensor,
    given: Vec<Arc<GivenTensor>>,
}

/// A tensor that no infer request has, and nobody writes to.
struct GivenTensor(Tensor);

// SAFETY: all who share it only read its bytes; it is changed again when one alone has it.
unsafe impl Sync for GivenTensor {}

/// The bytes of a tensor.
struct GivenBytes(Arc<GivenTensor>);

impl AsRef<[u8]> for GivenBytes {
    fn as_ref(&self) -> &[u8] {
        // It has given them before.
        self.0.0.get_raw_data().unwrap_or_default()
    }
}

impl GivenOutput {
    /// Takes the tensor that an infer request has for an output.
    pub(crate) fn new(index: usize, shape: &[usize], tensor: Tensor) -> Result<Self> {
        Ok(Self {
            index,
            element: tensor.get_element_type()?,
            shape: shape.to_vec(),
            tensor,
            given: Vec::new(),
        })
    }

    /// Returns the tensor that the infer request has now.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Gives away what the last inference has written; the infer request gets another tensor.
    pub(crate) fn give(&mut self, request: &mut InferRequest) -> Result<Bytes> {
        // It can be read, so that its bytes are there below.
        self.tensor.get_raw_data()?;
        let free = self
            .given
            .iter()
            .position(|given| Arc::strong_count(given) == 1);
        let free = free.and_then(|free| Arc::into_inner(self.given.swap_remove(free)));
        let other = match free {
            Some(GivenTensor(tensor)) => tensor,
            None => Tensor::zeros(self.element, &self.shape)?,
        };
        request.set_tensor(Side::Output, self.index, &other)?;
        let given = Arc::new(GivenTensor(mem::replace(&mut self.tensor, other)));
        if self.given.len() < MAX_GIVEN {
            self.given.push(Arc::clone(&given));
        }
        Ok(Bytes::from_owner(GivenBytes(given)))
    }
}
