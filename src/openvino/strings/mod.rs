//! String tensors: strings in and out of the runtime's memory.
//!
//! The C interface sets strings, as texts that end with a zero byte, and does not give them back.
//! A string tensor is an array of C++ `std::string`, so reading one, and writing a zero byte into
//! one, takes knowing how that is laid out. This file knows one layout, that of libstdc++ since
//! version 5 on 64-bit machines, and believes in it only after [`is_known`] has found it in strings
//! that this program put there itself. With any other runtime string outputs are refused when the
//! model is loaded.

use std::{ffi::c_char, sync::OnceLock};

use bytes::Bytes;
use openvino::{ElementType, InferenceError};

use super::{ffi::Tensor, runtime_error::OpenVinoError};
use crate::{
    error::{Error, Result},
    tensor::strings,
};

/// A libstdc++ string: the address of its bytes, their number, and either the bytes themselves (15 at
/// most, and a zero byte) or in the first 8 bytes the capacity.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct CppString {
    data: usize,
    length: usize,
    local: [usize; 2],
}

/// Bytes that a string holds without memory of its own.
const LOCAL: usize = 15;

/// Offset of the bytes of a string that holds them itself, from its own start.
const LOCAL_AT: usize = 16;

impl CppString {
    /// Returns whether the fields can be those of a string that lies at an address.
    fn is_sound(self, address: usize) -> bool {
        if self.data == address + LOCAL_AT {
            return self.length <= LOCAL;
        }
        let [room, _] = self.local;
        self.data != 0 && self.length <= room && isize::try_from(room).is_ok()
    }
}

/// Fills a string tensor with framed strings, as many as it has elements.
pub(super) fn write(tensor: &mut Tensor, framed: &[u8]) -> Result<()> {
    let expected = tensor.get_size().map_err(runtime("read a tensor's size"))?;
    let actual = strings::strings(framed).count();
    if expected != actual {
        return Err(Error::internal(format!(
            "found {actual} strings for a tensor of {expected}"
        )));
    }
    if actual == 0 {
        return Ok(());
    }
    let has_zeros = strings::strings(framed).any(|string| string.contains(&0));
    if has_zeros && !is_known() {
        return Err(unknown_layout());
    }
    set(tensor, framed, actual)?;
    if has_zeros {
        put_zeros(tensor, framed)?;
    }
    Ok(())
}

/// Takes the memory from the strings of a tensor, which are new or have none that is missed: they are empty, copies
/// of their fields can be freed as often as there are any, and nothing can be assigned to them.
pub(super) fn hollow(tensor: &mut Tensor) -> Result<()> {
    if !is_known() {
        return Err(unknown_layout());
    }
    let fields = tensor.get_raw_data_mut();
    // No address, no length.
    fields.map_err(runtime("reach a string tensor"))?.fill(0);
    Ok(())
}

/// Sets the strings by the C interface. It takes them to end at a zero byte, so each zero byte of
/// their own is another one for now.
fn set(tensor: &mut Tensor, framed: &[u8], count: usize) -> Result<()> {
    let mut texts = Vec::with_capacity(framed.len() + count);
    let mut starts = Vec::with_capacity(count);
    for string in strings::strings(framed) {
        starts.push(texts.len());
        texts.extend(string.iter().map(|&byte| byte.max(1)));
        texts.push(0);
    }
    let mut pointers: Vec<*const c_char> = starts
        .into_iter()
        .map(|start| texts[start..].as_ptr().cast())
        .collect();
    // SAFETY: the tensor is alive and ours alone (`&mut`); `pointers` has `count` texts, each of which ends with a zero byte
    // within `texts`, and both live until the call returns. The texts are copied.
    let status = unsafe {
        openvino_sys::ov_tensor_set_string_data(tensor.get(), pointers.as_mut_ptr(), count)
    };
    InferenceError::convert(status, None).map_err(runtime("set strings"))
}

/// Puts the zero bytes of the strings where others stand for them.
fn put_zeros(tensor: &mut Tensor, framed: &[u8]) -> Result<()> {
    let found = headers(tensor)?;
    for (header, string) in found.into_iter().zip(strings::strings(framed)) {
        if header.length != string.len() {
            return Err(unknown_layout());
        }
        for (index, _) in string.iter().enumerate().filter(|(_, byte)| **byte == 0) {
            let target = (header.data as *mut u8).wrapping_add(index);
            // SAFETY: `headers` has seen to it that `data` has `length` bytes; `index` is below
            // that. They belong to the tensor, which is ours alone (`&mut`), and a C++ string may
            // hold any bytes.
            unsafe { target.write(0) };
        }
    }
    Ok(())
}

/// Reads a string tensor as framed strings.
pub(super) fn read(tensor: &Tensor) -> Result<Bytes> {
    if !is_known() {
        return Err(unknown_layout());
    }
    read_as_known(tensor)
}

fn read_as_known(tensor: &Tensor) -> Result<Bytes> {
    let found = headers(tensor)?;
    let total: usize = found.iter().map(|header| header.length + 4).sum();
    let mut framed = Vec::with_capacity(total);
    for header in found {
        // SAFETY: `headers` has seen to it that `data` is not null and has `length` bytes, no more
        // than `isize::MAX`; they belong to the tensor, which outlives this loop and which nobody
        // changes meanwhile, as a slot has one user at a time.
        let string = unsafe { std::slice::from_raw_parts(header.data as *const u8, header.length) };
        strings::push(&mut framed, string).map_err(|_| {
            let length = header.length;
            // It has no framed form.
            Error::internal(format!("the model gave a string of {length} bytes"))
        })?;
    }
    Ok(framed.into())
}

/// Copies the strings' own fields out of a tensor, and validates each.
fn headers(tensor: &Tensor) -> Result<Vec<CppString>> {
    let reach = runtime("reach a string tensor");
    let count = tensor.get_size().map_err(&reach)?;
    let size = tensor.get_byte_size().map_err(&reach)?;
    let element = tensor.get_element_type().map_err(&reach)?;
    if element != ElementType::String || count.checked_mul(size_of::<CppString>()) != Some(size) {
        return Err(unknown_layout());
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let start = tensor.get_raw_data().map_err(&reach)?.as_ptr();
    (0..count)
        .map(|index| {
            let place = start.wrapping_add(index * size_of::<CppString>());
            // SAFETY: the tensor has `count` times that many bytes from `start`, and any bytes are
            // a `CppString`, which has but whole numbers.
            let header = unsafe { place.cast::<CppString>().read_unaligned() };
            if header.is_sound(place as usize) {
                Ok(header)
            } else {
                Err(unknown_layout())
            }
        })
        .collect()
}

/// Returns whether the layout of the runtime's strings is the one assumed here; determined once.
///
/// Strings of ours are set by the C interface, and the memory is then compared with the assumed
/// layout, first without following any pointer.
pub(super) fn is_known() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let known =
            cfg!(all(target_os = "linux", target_pointer_width = "64")) && probe().unwrap_or(false);
        if !known {
            tracing::debug!("this build of OpenVINO keeps strings in a form that is not known");
        }
        known
    })
}

fn probe() -> Result<bool> {
    // Empty, as long as a string holds itself, one longer, and one that surely has memory.
    let lengths = [0, 1, LOCAL, LOCAL + 1, 1000];
    let mut framed = Vec::new();
    for length in lengths {
        let string: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
        strings::push(&mut framed, &string).expect("they are short");
    }
    let mut tensor = new_tensor(lengths.len())?;
    set(&mut tensor, &framed, lengths.len())?;
    let start = tensor.get_raw_data().map_err(runtime("reach a tensor"))?;
    let start = start.as_ptr() as usize;
    // Pointers to the strings' own bytes and lengths that agree are no accident: what is
    // elsewhere may be followed.
    for (index, (header, length)) in headers(&tensor)?.into_iter().zip(lengths).enumerate() {
        let own = start + index * size_of::<CppString>() + LOCAL_AT;
        if header.length != length || (header.data == own) != (length <= LOCAL) {
            return Ok(false);
        }
    }
    Ok(read_as_known(&tensor)? == framed)
}

fn new_tensor(count: usize) -> Result<Tensor> {
    Tensor::zeros(ElementType::String, &[count]).map_err(runtime("make a string tensor"))
}

fn unknown_layout() -> Error {
    Error::internal("this build of OpenVINO keeps strings in a form that cannot be read")
}

/// Names the step at which the runtime failed.
fn runtime(step: &'static str) -> impl Fn(InferenceError) -> Error {
    move |error| {
        let source = OpenVinoError::from(error);
        Error::internal(format!("OpenVINO failed to {step}")).with_source(source)
    }
}

#[cfg(test)]
mod tests;
