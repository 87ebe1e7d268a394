//! Validation of tensors between nodes at run time. The check of the pipeline has validated everything
//! known before; a custom node may return something else.

use super::sources::TensorSource;
use crate::{
    error::{Error, Result},
    servable::TensorInfo,
    tensor::{DataType, ShapeText, Tensor},
};

/// Validates an input of a node, after gathering, by what the node takes.
///
/// # Errors
///
/// Fails with the text that clients know, and names node and input.
pub fn input(node: &str, expected: &TensorSource, tensor: &Tensor) -> Result<()> {
    let name = &expected.name;
    let error = |status: &str, what: &str, expected: String, actual: String| {
        Err(Error::invalid(format!(
            "{status} - Node: {node} input: {name} Invalid {what} - Expected: {expected}; Actual: \
             {actual}"
        )))
    };
    if let Some(dtype) = expected.dtype
        && dtype != tensor.dtype()
    {
        return error(
            "Invalid input precision",
            "precision",
            dtype.precision().to_owned(),
            tensor.dtype().precision().to_owned(),
        );
    }
    let allowed = &expected.shape.0;
    let shape = tensor.shape();
    let shapes = || (expected.shape.to_string(), ShapeText(shape).to_string());
    if allowed.len() != shape.len() {
        let (expected, actual) = shapes();
        let status = "Invalid number of shape dimensions";
        return error(status, "number of shape dimensions", expected, actual);
    }
    if expected.shape.allows(shape) {
        return Ok(());
    }
    // The batch is reported first, wherever the layout has it.
    match expected.layout.axis('N', shape.len()) {
        Some(axis) if !allowed[axis].allows(shape[axis]) => error(
            "Invalid input batch size",
            "batch size",
            allowed[axis].to_string(),
            shape[axis].to_string(),
        ),
        _ => {
            let (expected, actual) = shapes();
            error("Invalid input shape", "shape", expected, actual)
        }
    }
}

/// Validates an output of the pipeline by what its metadata says; a type that the custom node leaves open is
/// any.
///
/// # Errors
///
/// Fails if it is another tensor than the metadata says; the cause, for the log, says which.
pub fn output(expected: &TensorInfo, tensor: &Tensor) -> Result<()> {
    // One that is open has the type that it has.
    let dtype = expected.decided().unwrap_or(tensor.dtype());
    if dtype == tensor.dtype() && expected.shape.allows(tensor.shape()) {
        return Ok(());
    }
    let text = |dtype: DataType, shape: String| format!("{} {shape}", dtype.precision());
    let cause = format!(
        "the output {} differs from the pipeline's metadata - Expected: {}; Actual: {}",
        expected.name,
        text(dtype, expected.shape.to_string()),
        text(tensor.dtype(), ShapeText(tensor.shape()).to_string())
    );
    Err(Error::internal("Internal server error").with_source(cause))
}

#[cfg(test)]
mod tests {
    use super::{input, output};
    use crate::{
        error::{ErrorKind, chain},
        pipeline::sources::TensorSource,
        servable::TensorInfo,
        tensor::{DataType, Dim, Layout, PartialShape, Tensor},
    };

    fn tensor(dtype: DataType, shape: &[usize]) -> Tensor {
        let size = shape.iter().product::<usize>() * dtype.size().unwrap();
        Tensor::new(dtype, shape.to_vec(), vec![0; size].into()).unwrap()
    }

    fn shape() -> PartialShape {
        PartialShape(vec![Dim::Fixed(1), Dim::Range(2, 3)])
    }

    #[test]
    fn inputs_are_validated_as_those_of_requests_are() {
        let expected = TensorSource {
            name: "i".to_owned(),
            dtype: Some(DataType::F32),
            shape: shape(),
            layout: Layout::unspecified(2),
        };
        assert!(input("n", &expected, &tensor(DataType::F32, &[1, 3])).is_ok());
        let reported = |dtype, shape: &[usize]| {
            let error = input("n", &expected, &tensor(dtype, shape)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            error.message().to_owned()
        };
        insta::assert_snapshot!(
            [
                reported(DataType::I32, &[1, 3]),
                reported(DataType::F32, &[1, 3, 1]),
                reported(DataType::F32, &[2, 3]),
                reported(DataType::F32, &[1, 4]),
            ].join("\n"), @"
        Invalid input precision - Node: n input: i Invalid precision - Expected: FP32; Actual: I32
        Invalid number of shape dimensions - Node: n input: i Invalid number of shape dimensions - Expected: (1,[2~3]); Actual: (1,3,1)
        Invalid input batch size - Node: n input: i Invalid batch size - Expected: 1; Actual: 2
        Invalid input shape - Node: n input: i Invalid shape - Expected: (1,[2~3]); Actual: (1,4)
        ");
    }

    #[test]
    fn outputs_are_what_clients_were_reported() {
        let mut expected = TensorInfo {
            name: "o".to_owned(),
            dtype: DataType::F32,
            is_open: false,
            shape: shape(),
            layout: Layout::unspecified(2),
            port: 0,
        };
        assert!(output(&expected, &tensor(DataType::F32, &[1, 2])).is_ok());
        let error = output(&expected, &tensor(DataType::F32, &[1, 4])).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Internal, "Internal server error")
        );
        assert_eq!(
            chain(&error),
            "Internal server error: the output o differs from the pipeline's metadata - Expected: \
             FP32 (1,[2~3]); Actual: FP32 (1,4)"
        );
        assert!(output(&expected, &tensor(DataType::I32, &[1, 2])).is_err());
        expected.is_open = true;
        assert!(output(&expected, &tensor(DataType::I32, &[1, 2])).is_ok());
        let error = output(&expected, &tensor(DataType::I32, &[7])).unwrap_err();
        assert_eq!(
            chain(&error),
            "Internal server error: the output o differs from the pipeline's metadata - Expected: \
             I32 (1,[2~3]); Actual: I32 (7)"
        );
    }
}
