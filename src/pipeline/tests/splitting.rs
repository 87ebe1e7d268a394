//! Splitting and gathering tensors.

use super::{numbers, values};
use crate::{
    error::{ErrorKind, Result, chain},
    pipeline::{
        plan::Count,
        shards::{Parts, Splitter, split},
    },
    tensor::{DataType, Tensor},
};

fn count(count: Count, entry: bool, outputs: &[Tensor]) -> Result<usize> {
    let splitter = Splitter {
        node: "d",
        entry,
        count,
        allows_empty: false,
    };
    splitter.count(["x", "y", "z"].into_iter().zip(outputs))
}

fn text(shape: &[usize]) -> Tensor {
    Tensor::new(DataType::String, shape.to_vec(), vec![0; 4].into()).unwrap()
}

#[test]
fn outputs_are_validated_in_the_known_order() {
    let ok = numbers(&[3, 2], 0);
    for (outputs, fixed, expected) in [
        (
            vec![text(&[10_001])],
            Some(1),
            "Too large dynamic demultiplication requested.",
        ),
        (
            vec![text(&[0])],
            Some(1),
            "Demultiplication is not supported for string precision",
        ),
        (
            vec![numbers(&[2], 0)],
            Some(3),
            "Wrong number of dimensions in a tensor to be sharded",
        ),
        (
            vec![numbers(&[], 0)],
            None,
            "Wrong number of dimensions in a tensor to be sharded",
        ),
        (
            vec![numbers(&[0, 2], 0)],
            Some(3),
            "Wrong dimension size. Should match demultiply count",
        ),
        (
            vec![numbers(&[0, 2], 0)],
            None,
            "Pipeline execution aborted due to no content from custom node",
        ),
        // The first output that has an error.
        (
            vec![ok.clone(), numbers(&[2, 2], 0), text(&[2])],
            None,
            "Wrong dimension size. Should match demultiply count",
        ),
    ] {
        let by = fixed.map_or(Count::Dynamic, Count::Fixed);
        let abort = count(by, false, &outputs).unwrap_err();
        let text = format!("{expected} - Node: d");
        assert!(chain(&abort).contains(&text), "{abort}");
    }
    let both = count(Count::Fixed(3), false, &[ok.clone(), ok.clone()]);
    assert_eq!(both.unwrap(), 3);
    assert_eq!(count(Count::Dynamic, false, &[ok]).unwrap(), 3);
    let entry = count(Count::Dynamic, true, &[numbers(&[7], 0)]);
    assert_eq!(entry.unwrap(), 7);
}

#[test]
fn clients_get_the_text_they_know_and_what_differs() {
    let error = count(Count::Fixed(2), false, &[numbers(&[3, 1], 0)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(
        chain(&error),
        "Wrong dimension size. Should match demultiply count - Node: d output: x; Expected: 2; \
         Actual: 3"
    );
    assert_eq!(error.message(), chain(&error), "once");
    let abort = count(Count::Dynamic, true, &[numbers(&[10_001], 0)]).unwrap_err();
    assert_eq!(abort.kind(), ErrorKind::InvalidArgument);
    for (entry, kind) in [
        (true, ErrorKind::InvalidArgument),
        (false, ErrorKind::Internal),
    ] {
        let refused = count(Count::Dynamic, entry, &[text(&[2])]).unwrap_err();
        assert_eq!(refused.kind(), kind);
    }
    let abort = count(Count::Dynamic, true, &[numbers(&[0, 1], 0)]).unwrap_err();
    assert_eq!(
        (abort.kind().grpc(), abort.kind().http()),
        (tonic::Code::Aborted, 409)
    );
}

#[test]
fn parts_share_the_memory_of_the_whole() {
    let whole = numbers(&[3, 2], 0);
    let parts: Vec<Tensor> = split(&whole).collect();
    assert_eq!(parts.len(), 3);
    for (index, part) in parts.iter().enumerate() {
        assert_eq!(part.shape(), [2]);
        assert_eq!(part.data().as_ptr(), whole.data()[index * 16..].as_ptr());
    }
    assert_eq!(values(&parts[2]), [4, 5]);
}

#[test]
fn parts_are_put_together_in_order() {
    let parts: Vec<Tensor> = split(&numbers(&[6, 2], 0)).collect();
    let gathered = Parts {
        counts: vec![2, 3],
        tensors: parts.clone(),
    };
    let gathered = gathered.gather("g", "i");
    assert_eq!(gathered.unwrap(), numbers(&[2, 3, 2], 0));
    // No level: the tensor as it is. One part: a dimension more, and no copy.
    for (counts, shape) in [(vec![], vec![2]), (vec![1, 1], vec![1, 1, 2])] {
        let alone = Parts {
            counts,
            tensors: vec![parts[0].clone()],
        };
        let gathered = alone.gather("g", "i").unwrap();
        assert_eq!(gathered.shape(), shape);
        assert_eq!(gathered.data().as_ptr(), parts[0].data().as_ptr());
    }
    let empty = Parts {
        counts: vec![2],
        tensors: vec![numbers(&[1, 1, 0], 0), numbers(&[1, 1, 0], 0)],
    };
    assert_eq!(empty.gather("g", "i").unwrap().shape(), [2, 1, 1, 0]);
}

#[test]
fn parts_of_nothing_have_a_bound_and_do_not_panic() {
    let nothing = |shape: &[usize]| Tensor::new(DataType::I64, shape.to_vec(), vec![].into());
    assert_eq!(split(&nothing(&[0, 1 << 40, 1 << 40]).unwrap()).count(), 0);
    let parts = Parts {
        counts: vec![2],
        tensors: vec![nothing(&[1 << 20, 0]).unwrap(); 2],
    };
    let refused = parts.gather("g", "i").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Internal);
    insta::assert_snapshot!(refused.to_string(), @"Gathered tensor cannot be made - Node: g input: i");
}

#[test]
fn parts_that_differ_are_refused() {
    let bytes = Tensor::new(DataType::U8, vec![2, 8], vec![0; 16].into()).unwrap();
    for other in [numbers(&[2, 1], 0), numbers(&[1, 3], 0), bytes] {
        let parts = Parts {
            counts: vec![2],
            tensors: vec![numbers(&[1, 2], 0), other.clone()],
        };
        let abort = parts.gather("g", "i").unwrap_err();
        let text = "Gathered tensor shards dimensions are different";
        assert!(abort.message().starts_with(text));
        assert_eq!(abort.kind(), ErrorKind::Internal);
    }
    let parts = Parts {
        counts: vec![2],
        tensors: vec![numbers(&[1, 2], 0), numbers(&[2, 1], 0)],
    };
    insta::assert_snapshot!(parts.gather("g", "i").unwrap_err().to_string(), @"Gathered tensor shards dimensions are different - Node: g input: i part: 1; Expected: I64 (1,2); Actual: I64 (2,1)");
}
