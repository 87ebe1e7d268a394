//! Targets of files that nothing but public functions read.

use std::path::Path;

use bytes::Bytes;

use super::{BUDGET, check_error, choice, line};
use crate::{
    budget::Budget,
    config::{self, Defaults},
    graph::{self, calculators},
    tensor::{
        DataType, Dim, Layout, PartialShape, Tensor,
        images::{ImageError, ImageTensor, PixelLimit},
        npy::{read, read_archive, write},
        strings::Strings,
    },
};

/// A configuration file. What is edited in it can be read, and has the model or has it no more.
pub(super) fn config(data: &[u8]) {
    let path = Path::new("/nowhere/config.json");
    let defaults = Defaults::default();
    let parse = |text: &[u8]| config::parse(text, path, &defaults);
    let is_valid = match parse(data) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.errors().is_empty());
            assert!(!error.to_string().is_empty());
            false
        }
    };
    let Ok(more) = config::add_model(Some(data), ("fuzzed", "/nowhere/fuzzed"), &[]) else {
        return;
    };
    if is_valid {
        let found = parse(more.as_bytes()).expect("a file with one more model is valid");
        assert!(found.models.iter().any(|model| model.name() == "fuzzed"));
    }
    assert!(matches!(
        config::model_settings(more.as_bytes(), "fuzzed"),
        Ok(Some(_))
    ));
    let less = config::remove_model(more.as_bytes(), "fuzzed").expect("the model is there");
    assert!(config::remove_model(less.as_bytes(), "fuzzed").is_err());
    if is_valid {
        parse(less.as_bytes()).expect("a file with one model less is valid");
    }
}

/// A graph. What is wrong with it is said with its place; what is right can be drawn.
pub(super) fn pbtxt(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = graph::outline(&text);
    match graph::check(&text, "graph.pbtxt", calculators::all()) {
        Ok(checked) => {
            assert_eq!(checked.plan.nodes.len(), checked.spec.nodes.len());
            drop(graph::diagram("fuzzed", &checked.spec, &|_| true));
        }
        Err(found) => {
            assert!(!found.errors.is_empty());
            for error in &found.errors {
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// An array. What is written of it is the same array.
pub(super) fn npy(data: &[u8]) {
    match read(&Bytes::copy_from_slice(data)) {
        Ok(tensor) => check_written(&tensor),
        Err(error) => check_error(&error),
    }
}

fn check_written(tensor: &Tensor) {
    let mut written = Vec::new();
    if write(tensor, &mut written).is_err() {
        panic!("a shape of {} axes has no form", tensor.shape().len());
    }
    let again = read(&written.into()).expect("what is written can be read");
    assert_eq!(
        (again.dtype(), again.shape(), again.data()),
        (tensor.dtype(), tensor.shape(), tensor.data())
    );
}

/// An archive of arrays.
pub(super) fn npz(data: &[u8]) {
    match read_archive(&Bytes::copy_from_slice(data), BUDGET as u64) {
        Ok(arrays) => {
            let bytes: usize = arrays.iter().map(|(_, array)| array.data().len()).sum();
            // Strings have their lengths in addition.
            assert!(bytes <= 5 * BUDGET, "{bytes}");
        }
        Err(error) => check_error(&error),
    }
}

/// Encoded images for a tensor: its type and shape, and then the image, which is there twice at times.
pub(super) fn images(data: &[u8]) {
    let (kind, image) = choice(data);
    let dtype = DataType::ALL[usize::from(kind) % DataType::ALL.len()];
    let [rows, columns, channels] = match kind >> 6 {
        0 => [Dim::Any, Dim::Any, Dim::Any],
        1 => [Dim::Fixed(3), Dim::Fixed(5), Dim::Fixed(3)],
        2 => [Dim::Range(2, 9), Dim::Fixed(4), Dim::Fixed(1)],
        _ => [Dim::Any, Dim::Any, Dim::Range(3, 4)],
    };
    let tensor = ImageTensor {
        dtype,
        shape: &PartialShape(vec![Dim::Any, rows, columns, channels]),
        layout: &Layout::unspecified(4),
    };
    let length = u32::try_from(image.len()).expect("inputs are small");
    let framed = [&length.to_le_bytes()[..], image].concat();
    let count = 1 + usize::from(kind >> 5 & 1);
    let images = Strings::new(framed.repeat(count).into()).expect("they are framed");
    let budget = Budget::new(BUDGET);
    match tensor.fill(&images, PixelLimit(1 << 14), &budget) {
        Ok((shape, bytes)) => {
            assert_eq!(shape[0], count);
            let size = dtype.size().expect("no image is of strings");
            assert_eq!(shape.iter().product::<usize>() * size, bytes.len());
        }
        Err(ImageError::Budget(error)) => check_error(&error),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert_eq!(budget.charged(), 0);
}

/// A list of strings with their lengths, and the same as rows.
pub(super) fn strings(data: &[u8]) {
    let (_, framed) = line(data);
    let framed = Bytes::copy_from_slice(framed);
    let strings = match Strings::new(framed.clone()) {
        Ok(strings) => strings,
        Err(error) => {
            assert!(error.at < framed.len());
            return;
        }
    };
    assert_eq!(strings.iter().count(), strings.count());
    let bytes: usize = strings.iter().map(|string| string.len() + 4).sum();
    assert_eq!(bytes, framed.len());
    // Rows of the longest may be far more than the strings are; they are bounded elsewhere.
    let Ok([rows, width]) = strings.padded_shape() else {
        return;
    };
    if rows * width < BUDGET {
        let padded = strings.pad().expect("the shape is known");
        assert_eq!(padded.len(), rows * width);
        for (row, string) in padded.chunks_exact(width).zip(strings.iter()) {
            assert!(row.starts_with(string) && row[string.len()..].iter().all(|it| *it == 0));
        }
    }
}
