//! Strings at the ends of a pipeline, as models have them: rows of bytes within, strings outside.
//!
//! Strings that a client sends become rows where the request is validated: an input of UINT8 with two
//! dimensions takes them, each ended by one zero byte at least. Here the way back.

use crate::{
    error::{Error, Result},
    tensor::{TensorMap, strings},
};

/// Returns the bytes that [`answer`] has to go through, so that it can be called where that holds
/// up nobody; 0 if there is nothing to do.
#[must_use]
pub fn size(outputs: &TensorMap) -> usize {
    strings::rows_size(outputs)
}

/// Turns the outputs of a pipeline whose names end with `_string`, of UINT8 and two dimensions,
/// into strings: each row up to its first zero byte. The others stay as they are. They have to be
/// validated by [`super::fit::output`] before: metadata, as a model's, tell the rows.
///
/// # Errors
///
/// Fails if a row has 4 GiB or more.
pub fn answer(outputs: TensorMap) -> Result<TensorMap> {
    strings::unpad_all(outputs)
        .map_err(|error| Error::internal("Internal serialization error").with_source(error))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{answer, size};
    use crate::{
        budget::Budget,
        model::check::check,
        pipeline::info::{PipelineInfo, PipelineTensor},
        request::{Data, Declared, InferRequest, InputTensor},
        tensor::{DataType, Dim, Layout, PartialShape, Tensor, TensorMap, images::PixelLimit},
    };

    fn info(rows: Dim, width: Dim) -> PipelineInfo {
        let tensor = |name: &str| PipelineTensor {
            name: name.to_owned(),
            dtype: Some(DataType::U8),
            shape: PartialShape(vec![rows, width]),
            layout: Layout::unspecified(2),
            port: 0,
        };
        PipelineInfo::new(vec![tensor("text")], vec![tensor("upper_string")])
    }

    fn request(strings: &[&[u8]]) -> InferRequest {
        let framed = strings.iter().flat_map(|string| {
            let length = u32::try_from(string.len()).unwrap().to_le_bytes();
            [&length[..], string].concat()
        });
        InferRequest {
            inputs: vec![InputTensor {
                name: "text".to_owned(),
                datatype: Declared::Known(DataType::String),
                shape: vec![strings.len() as i64],
                data: Data::Raw(framed.collect::<Vec<u8>>().into()),
            }],
            ..InferRequest::default()
        }
    }

    #[test]
    fn strings_of_a_request_are_rows_for_a_pipeline_and_come_back() {
        let info = info(Dim::Any, Dim::Any).servable().unwrap();
        let request = request(&[b"one", b"", b"three"]);
        let (mut inputs, wanted) =
            check(&info, request, PixelLimit::default(), &Budget::default()).unwrap();
        assert_eq!(wanted, [0]);
        let rows = inputs.remove(0);
        assert_eq!(rows.shape, [3, 6]);
        assert_eq!(&rows.data[..], b"one\0\0\0\0\0\0\0\0\0three\0");

        let rows = Tensor::new(DataType::U8, rows.shape, rows.data).unwrap();
        let mut outputs = TensorMap::default();
        outputs.push("upper_string", rows.clone());
        outputs.push("rows", rows.clone());
        assert_eq!(size(&outputs), 18 + 3 * 4);
        let answered = answer(outputs).unwrap();
        let text = answered.get("upper_string").unwrap();
        assert_eq!((text.dtype(), text.shape()), (DataType::String, &[3][..]));
        let framed = Bytes::from_static(b"\x03\0\0\0one\0\0\0\0\x05\0\0\0three");
        assert_eq!(*text.data(), framed);
        assert_eq!(answered.get("rows"), Some(&rows));
    }

    #[test]
    fn strings_that_are_too_long_or_too_many_are_refused() {
        let refused = |rows, width| {
            let info = info(rows, width).servable().unwrap();
            let error = check(
                &info,
                request(&[b"one", b"two"]),
                PixelLimit::default(),
                &Budget::default(),
            );
            error.unwrap_err().message().to_owned()
        };
        insta::assert_snapshot!(refused(Dim::Any, Dim::Fixed(3)), @"Invalid input shape - Expected batch size: -1; got: 2; Expected max null terminated string length: 3; got: 4; input name: text");
        insta::assert_snapshot!(refused(Dim::Fixed(1), Dim::Any), @"Invalid input batch size - Expected: 1; Actual: 2; input name: text");
    }
}
