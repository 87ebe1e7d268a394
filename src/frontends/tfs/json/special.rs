//! The special inputs of stateful models: a whole number in a list.

use super::Format;
use crate::{
    error::Result,
    frontends::json_numbers::Cursor,
    request::{Data, Declared, InputTensor},
    tensor::DataType,
};

/// The numbers of a special input, from one value or from one of each row.
pub(super) struct Numbers {
    dtype: DataType,
    /// The length of a list; none if there was a number without one.
    length: Option<usize>,
    count: usize,
    bytes: Vec<u8>,
}

impl Numbers {
    /// Begins an input of type UINT64 or UINT32.
    pub(super) fn new(dtype: DataType) -> Self {
        Self {
            dtype,
            length: None,
            count: 0,
            bytes: Vec::new(),
        }
    }

    /// Takes one value off a text: a number, or a list of numbers.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, format: Format) -> Result<()> {
        let expected = || {
            let what = self.dtype;
            format.no_array(&format_args!(
                "expected one whole number of {what} in a list"
            ))
        };
        let text = cursor.value()?;
        let numbers: Vec<u64> = if let Ok(number) = serde_json::from_slice(text) {
            vec![number]
        } else {
            let list: Vec<u64> = serde_json::from_slice(text).map_err(|_| expected())?;
            self.length = Some(list.len());
            list
        };
        self.count += numbers.len();
        for number in numbers {
            match self.dtype {
                DataType::U32 => {
                    let number = u32::try_from(number).map_err(|_| expected())?;
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
                _ => self.bytes.extend_from_slice(&number.to_le_bytes()),
            }
        }
        Ok(())
    }

    /// Makes the input; `batch` is how many rows there were.
    pub(super) fn tensor(self, name: String, batch: Option<usize>) -> InputTensor {
        let lengths = batch.into_iter().chain(self.length);
        InputTensor {
            name,
            datatype: Declared::Known(self.dtype),
            shape: lengths
                .map(|length| i64::try_from(length).unwrap_or(i64::MAX))
                .collect(),
            data: Data::Values {
                count: self.count,
                bytes: self.bytes.into(),
            },
        }
    }
}
