//! The C interface of custom nodes as Rust sees it: `custom_node_interface.h`, type by type.
//!
//! What comes from a library is taken for numbers and pointers and nothing more: a precision is an
//! integer, since an enum with a value that it does not have is undefined behaviour.

use std::{
    ffi::{c_char, c_int, c_void},
    mem::offset_of,
    ptr,
};

use crate::tensor::DataType;

/// `CustomNodeTensor`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RawTensor {
    pub(super) name: *const c_char,
    pub(super) data: *mut u8,
    pub(super) data_bytes: u64,
    pub(super) dims: *mut u64,
    pub(super) dims_count: u64,
    pub(super) precision: i32,
}

/// `CustomNodeTensorInfo`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RawInfo {
    pub(super) name: *const c_char,
    pub(super) dims: *mut u64,
    pub(super) dims_count: u64,
    pub(super) precision: i32,
}

/// `CustomNodeParam`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct RawParam {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

// The layout that compiled libraries have.
const _: () = {
    assert!(size_of::<RawTensor>() == 48);
    assert!(offset_of!(RawTensor, name) == 0);
    assert!(offset_of!(RawTensor, data) == 8);
    assert!(offset_of!(RawTensor, data_bytes) == 16);
    assert!(offset_of!(RawTensor, dims) == 24);
    assert!(offset_of!(RawTensor, dims_count) == 32);
    assert!(offset_of!(RawTensor, precision) == 40);
    assert!(size_of::<RawInfo>() == 32);
    assert!(offset_of!(RawInfo, name) == 0);
    assert!(offset_of!(RawInfo, dims) == 8);
    assert!(offset_of!(RawInfo, dims_count) == 16);
    assert!(offset_of!(RawInfo, precision) == 24);
    assert!(size_of::<RawParam>() == 16);
    assert!(offset_of!(RawParam, key) == 0);
    assert!(offset_of!(RawParam, value) == 8);
};

/// `initialize`.
pub(super) type Initialize =
    unsafe extern "C" fn(handle: *mut *mut c_void, params: *const RawParam, count: c_int) -> c_int;

/// `deinitialize`.
pub(super) type Deinitialize = unsafe extern "C" fn(handle: *mut c_void) -> c_int;

/// `execute`.
pub(super) type Execute = unsafe extern "C" fn(
    inputs: *const RawTensor,
    inputs_count: c_int,
    outputs: *mut *mut RawTensor,
    outputs_count: *mut c_int,
    params: *const RawParam,
    params_count: c_int,
    handle: *mut c_void,
) -> c_int;

/// `getInputsInfo` and `getOutputsInfo`.
pub(super) type GetInfo = unsafe extern "C" fn(
    info: *mut *mut RawInfo,
    count: *mut c_int,
    params: *const RawParam,
    params_count: c_int,
    handle: *mut c_void,
) -> c_int;

/// `release`.
pub(super) type Release = unsafe extern "C" fn(pointer: *mut c_void, handle: *mut c_void) -> c_int;

/// Returns an array as an argument: null if it is empty, and its length.
pub(super) fn as_array<T>(items: &[T]) -> (*const T, c_int) {
    let array = match items {
        [] => ptr::null(),
        items => items.as_ptr(),
    };
    // Nodes have far fewer inputs and parameters; fewer than there are would be no harm.
    (array, c_int::try_from(items.len()).unwrap_or(c_int::MAX))
}

/// The precision that stands for every type without one of its own.
const UNSPECIFIED: i32 = 0;

/// Precisions and the types that they stand for.
const PRECISIONS: [(i32, DataType); 9] = [
    (1, DataType::F32),
    (2, DataType::F16),
    (3, DataType::U8),
    (4, DataType::I8),
    (5, DataType::I16),
    (6, DataType::U16),
    (7, DataType::I32),
    (8, DataType::F64),
    (9, DataType::I64),
];

/// Returns the precision of a type.
pub(super) fn precision(dtype: DataType) -> i32 {
    PRECISIONS
        .iter()
        .find(|(_, known)| *known == dtype)
        .map_or(UNSPECIFIED, |(precision, _)| *precision)
}

/// Returns the type of a precision; `None` if it is unspecified or none at all.
pub(super) fn dtype(precision: i32) -> Option<DataType> {
    PRECISIONS
        .iter()
        .find(|(known, _)| *known == precision)
        .map(|(_, dtype)| *dtype)
}

#[cfg(test)]
mod tests {
    use super::{DataType, PRECISIONS, UNSPECIFIED, dtype, precision};

    #[test]
    fn types_have_the_precisions_of_the_header() {
        let header = include_str!("custom_node_interface.h");
        for (value, of) in PRECISIONS {
            // `U8`, `I64` as everywhere; floats are `FP32` there and in KServe.
            let name = if of.is_float() {
                of.kserve()
            } else {
                of.precision()
            };
            assert!(header.contains(&format!("    {name} = {value}")), "{name}");
            assert_eq!((precision(of), dtype(value)), (value, Some(of)));
        }
    }

    #[test]
    fn other_types_and_precisions_are_unspecified() {
        for of in [
            DataType::Bool,
            DataType::U32,
            DataType::U64,
            DataType::Bf16,
            DataType::String,
        ] {
            assert_eq!(precision(of), UNSPECIFIED);
        }
        for value in [UNSPECIFIED, -1, 10, i32::MIN, i32::MAX] {
            assert_eq!(dtype(value), None);
        }
    }
}
