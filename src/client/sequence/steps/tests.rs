use super::{Steps, StepsError, check_numbers};
use crate::{
    client::input::WholeInput,
    tensor::{
        DataType, Dim, PartialShape, Tensor, TensorMap,
        values::{Packer, write_json},
    },
};

/// -1 stands for a dimension that may vary.
fn partial(dims: &[i64]) -> PartialShape {
    let dim = |length: &i64| usize::try_from(*length).map_or(Dim::Any, Dim::Fixed);
    PartialShape(dims.iter().map(dim).collect())
}

/// An array that counts up.
fn counting(name: &str, shape: &[usize], model: &[i64]) -> WholeInput {
    let mut packer = Packer::new(DataType::I32, 0);
    for number in 0..shape.iter().product::<usize>() {
        packer.push_u64(number as u64).unwrap();
    }
    WholeInput {
        name: name.to_owned(),
        tensor: Tensor::new(DataType::I32, shape.to_vec(), packer.finish()).unwrap(),
        step: Some(partial(model)),
    }
}

fn text(step: &TensorMap) -> String {
    let line = |(name, tensor): &(String, Tensor)| {
        let mut out = format!("{name}{:?}", tensor.shape()).into_bytes();
        write_json(tensor, &mut out);
        String::from_utf8(out).unwrap()
    };
    step.iter().map(line).collect::<Vec<_>>().join(" ")
}

fn cut(inputs: Vec<WholeInput>, axis: usize) -> Result<(bool, Vec<String>), String> {
    let steps = Steps::new(inputs, axis).map_err(|error| error.to_string())?;
    let texts = (0..steps.count()).map(|index| text(&steps.step(index)));
    Ok((steps.keeps_axis(), texts.collect()))
}

#[test]
fn arrays_are_cut_along_the_axis_which_stays_or_goes() {
    for (shape, model, axis, keeps, expected) in [
        (
            &[2, 3][..],
            &[1, 3][..],
            0,
            true,
            ["x[1, 3][0,1,2]", "x[1, 3][3,4,5]"],
        ),
        (
            &[2, 3],
            &[-1, 3],
            0,
            true,
            ["x[1, 3][0,1,2]", "x[1, 3][3,4,5]"],
        ),
        (
            &[2, 1, 3],
            &[1, 3],
            0,
            false,
            ["x[1, 3][0,1,2]", "x[1, 3][3,4,5]"],
        ),
        (
            &[3, 2],
            &[3, 1],
            1,
            true,
            ["x[3, 1][0,2,4]", "x[3, 1][1,3,5]"],
        ),
        (
            &[1, 2, 2],
            &[1, 2],
            1,
            false,
            ["x[1, 2][0,1]", "x[1, 2][2,3]"],
        ),
        (&[2, 2], &[2], 1, false, ["x[2][0,2]", "x[2][1,3]"]),
        (&[2], &[], 0, false, ["x[][0]", "x[][1]"]),
        (&[2], &[1], 0, true, ["x[1][0]", "x[1][1]"]),
    ] {
        let expected = expected.map(str::to_owned).to_vec();
        assert_eq!(
            cut(vec![counting("x", shape, model)], axis),
            Ok((keeps, expected)),
            "{shape:?} {model:?}"
        );
    }
}

#[test]
fn strings_are_cut_as_well() {
    let mut packer = Packer::new(DataType::String, 2);
    for word in ["a", "", "ccc", "dd"] {
        packer.push_bytes(word.as_bytes()).unwrap();
    }
    let words = WholeInput {
        name: "t".to_owned(),
        tensor: Tensor::new(DataType::String, vec![2, 2], packer.finish()).unwrap(),
        step: Some(partial(&[2])),
    };
    let expected = [r#"t[2]["a","ccc"]"#, r#"t[2]["","dd"]"#].map(str::to_owned);
    assert_eq!(cut(vec![words], 1), Ok((false, expected.to_vec())));
}

#[test]
fn what_has_one_step_goes_with_every_step() {
    let inputs = vec![
        counting("x", &[2, 1, 2], &[1, 2]),
        // The model's own shape.
        counting("whole", &[2, 2], &[2, 2]),
        counting("one", &[1, 2], &[1, 2]),
        counting("open", &[1, 1], &[-1, -1]),
        WholeInput {
            step: None,
            ..counting("unlisted", &[1], &[])
        },
    ];
    let rest = "whole[2, 2][0,1,2,3] one[1, 2][0,1] open[1, 1][0] unlisted[1][0]";
    let expected = vec![
        format!("x[1, 2][0,1] {rest}"),
        format!("x[1, 2][2,3] {rest}"),
    ];
    assert_eq!(cut(inputs, 0), Ok((false, expected)));
    // A sequence of one step.
    assert_eq!(
        cut(vec![counting("x", &[1, 2], &[1, 2])], 0),
        Ok((true, vec!["x[1, 2][0,1]".to_owned()]))
    );
}

#[test]
fn what_gives_no_steps_is_refused_by_name() {
    for (inputs, axis, expected) in [
        (
            vec![counting("x", &[0, 4], &[1, 4])],
            0,
            "input `x` has no steps: its shape is (0,4)",
        ),
        (
            vec![counting("x", &[5, 3], &[1, 4])],
            0,
            "input `x` has shape (5,3), expected (N,4) or (N,1,4) for N steps along axis 0",
        ),
        (
            vec![counting("x", &[5, 4], &[2, 4])],
            0,
            "input `x` has shape (5,4), expected (N,2,4) for N steps along axis 0",
        ),
        (
            vec![counting("x", &[20], &[1, 4])],
            0,
            "input `x` has shape (20), expected (N,4) or (N,1,4) for N steps along axis 0",
        ),
        (
            vec![counting("x", &[5, 4], &[1, 4])],
            2,
            "input `x` has shape (5,4), expected (1,4,N) for N steps along axis 2",
        ),
        (
            vec![counting("x", &[5, 4], &[1, 4])],
            7,
            "input `x` has shape (5,4), expected an axis within (1,4) or right behind it for N \
             steps along axis 7",
        ),
        (
            vec![
                counting("x", &[3, 2], &[1, 2]),
                counting("z", &[5, 2], &[1, 2]),
            ],
            0,
            "input `z` has 5 steps, input `x` has 3",
        ),
        (
            vec![counting("x", &[2, 2], &[2, 2])],
            0,
            "no input has steps: every one has the shape that the model takes at once",
        ),
    ] {
        assert_eq!(cut(inputs, axis).unwrap_err(), expected);
    }
}

#[test]
fn a_row_that_is_no_whole_steps_says_what_is_over_and_missing() {
    let rest = |count: usize, model: &[i64]| {
        let refused = Steps::new(vec![counting("x", &[count], model)], 0).unwrap_err();
        let StepsError::Shape { rest, .. } = refused else {
            panic!("{refused}");
        };
        rest.map(|rest| rest.to_string())
    };
    insta::assert_snapshot!(
        rest(1300, &[-1, 512]).unwrap(),
        @"a step has 512 elements: 276 are over behind 2 whole steps, or 236 are missing"
    );
    assert_eq!(rest(1024, &[1, 512]), None);
    assert_eq!(rest(5, &[1, 0]), None);
}

#[test]
fn what_is_not_a_number_is_refused_with_its_step() {
    let floats = |numbers: &[f64]| {
        let mut packer = Packer::new(DataType::F16, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        Tensor::new(DataType::F16, vec![numbers.len() / 2, 2], packer.finish()).unwrap()
    };
    let tensor = floats(&[0.0, 1.0, 2.0, f64::INFINITY, 4.0, f64::NAN]);
    let mut input = WholeInput {
        name: "x".to_owned(),
        tensor,
        step: Some(partial(&[1, 2])),
    };
    let of = |step| StepsError::NotANumber {
        name: "x".to_owned(),
        step,
    };
    assert_eq!(Steps::new(vec![input.clone()], 0).unwrap_err(), of(Some(3)));
    assert_eq!(
        of(Some(3)).to_string(),
        "input `x` has a NaN in step 3, which would stay in the state of the sequence"
    );
    input.step = Some(partial(&[3, 1]));
    assert_eq!(Steps::new(vec![input.clone()], 1).unwrap_err(), of(Some(2)));
    let step = TensorMap::from_iter([(input.name, input.tensor)]);
    assert_eq!(check_numbers(&step), Err(of(None)));
    let step = TensorMap::from_iter([("x".to_owned(), floats(&[1.0, f64::NEG_INFINITY]))]);
    assert_eq!(check_numbers(&step), Ok(()));
}
