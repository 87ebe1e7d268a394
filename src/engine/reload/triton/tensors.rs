//! Inputs, outputs, and batches that a `config.pbtxt` describes, beside those of the model.

use std::collections::BTreeMap;

use super::ignored::{CONTROLS, is_type};
use crate::{
    graph::OutlineField,
    openvino::{LoadOptions, PerTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, PartialShape, ShapeText},
};

/// A tensor as the file has it.
#[derive(Debug, Default)]
struct Described {
    name: String,
    data_type: Option<String>,
    dims: Vec<i64>,
    /// Shape that the model is given in place of the dimensions.
    reshape: Option<Vec<i64>>,
}

/// Returns what a file says otherwise than the model, an item for each; what is set here for the model is not compared.
pub(super) fn contradictions(
    fields: &[OutlineField],
    load: &LoadOptions,
    info: &ServableInfo,
) -> Vec<String> {
    let rows = fields.iter().find(|field| field.path == "max_batch_size");
    let rows: Option<usize> = rows.and_then(|field| field.value()?.parse().ok());
    let rows = rows.filter(|rows| *rows > 0);
    let is_own = load.batch.is_none()
        && matches!(load.shapes, PerTensor::Unset)
        && matches!(load.layouts, PerTensor::Unset);
    let mut found = Vec::new();
    let inputs = described(fields, "input");
    if let Some(rows) = rows.filter(|_| is_own) {
        found.extend(of_batch(rows, &inputs, &info.inputs));
    }
    for (kind, described, tensors) in [
        ("input", inputs, &info.inputs),
        ("output", self::described(fields, "output"), &info.outputs),
    ] {
        let is_known = |it: &Described| tensors.iter().any(|tensor| tensor.name == it.name);
        for it in &described {
            let Some(tensor) = tensors.iter().find(|tensor| tensor.name == it.name) else {
                found.push(format!("{kind} `{}`: {}", it.name, unknown(kind, tensors)));
                continue;
            };
            let has_precision = kind == "input" && load.preprocessing.precision.is_some();
            let data_type = it.data_type.as_deref().filter(|_| !has_precision);
            // One that Triton does not have is reported as such.
            if let Some(data_type) = data_type.filter(|it| is_type(it))
                && let Some(dtype) = tensor.decided()
                && data_type != triton_type(dtype)
            {
                let expected = triton_type(dtype);
                found.push(format!(
                    "{kind} `{}`: found {data_type}, expected {expected}",
                    it.name
                ));
            }
            if is_own {
                found.extend(of_dims(kind, it, tensor, rows.is_some()));
            }
        }
        // Some may be left out of the outputs, and all if they are to be those of the model.
        if kind == "input" && !described.is_empty() && described.iter().all(is_known) {
            let is_there = |tensor: &&TensorInfo| described.iter().any(|it| it.name == tensor.name);
            let missing = tensors.iter().filter(|tensor| !is_there(tensor));
            let is_control = |name: &str| {
                let mut controls = described_names(fields, CONTROLS);
                controls.any(|control| control == name)
            };
            found.extend(missing.map(|tensor| match is_control(&tensor.name) {
                true => format!(
                    "input `{}`: control_input does not fill it, so that clients have to send it",
                    tensor.name
                ),
                false => format!("input `{}` of the model is not in it", tensor.name),
            }));
        }
    }
    found
}

/// Returns the names in the messages of a field.
fn described_names<'a>(
    fields: &'a [OutlineField],
    field: &'a str,
) -> impl Iterator<Item = &'a str> {
    let fields = fields.iter().filter(move |it| {
        let name = it.path.strip_prefix(field);
        name == Some(".name")
    });
    fields.filter_map(OutlineField::value)
}

/// Returns the tensors of the file, in its order.
fn described(fields: &[OutlineField], kind: &str) -> Vec<Described> {
    let mut found: BTreeMap<usize, Described> = BTreeMap::new();
    for field in fields.iter().filter(|field| field.within > 0) {
        let Some(name) = field
            .path
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let it = found.entry(field.within).or_default();
        let numbers = || {
            field
                .values
                .iter()
                .filter_map(|value| value.parse::<i64>().ok())
        };
        match name {
            "name" => it.name = field.value().unwrap_or_default().to_owned(),
            "data_type" => it.data_type = field.value().map(str::to_owned),
            "dims" => it.dims.extend(numbers()),
            "reshape.shape" => it.reshape.get_or_insert_default().extend(numbers()),
            // The one way to write a shape without dimensions.
            "reshape" => it.reshape = Some(Vec::new()),
            _ => {}
        }
    }
    let found = found.into_values();
    found.filter(|it| !it.name.is_empty()).collect()
}

fn unknown(kind: &str, tensors: &[TensorInfo]) -> String {
    let names: Vec<String> = tensors.iter().map(|it| format!("`{}`", it.name)).collect();
    match &names[..] {
        [] => format!("the model has no {kind}"),
        names => format!(
            "found no such {kind} in the model, expected {}",
            names.join(" or ")
        ),
    }
}

/// Returns Triton's name of a type.
fn triton_type(dtype: DataType) -> String {
    match dtype {
        DataType::String => "TYPE_STRING".to_owned(),
        dtype => format!("TYPE_{}", dtype.kserve()),
    }
}

/// Compares the largest batch with the first dimension of the inputs.
fn of_batch(rows: usize, described: &[Described], inputs: &[TensorInfo]) -> Option<String> {
    let is_there = |input: &&TensorInfo| {
        described.is_empty() || described.iter().any(|it| it.name == input.name)
    };
    inputs.iter().filter(is_there).find_map(|input| {
        let name = &input.name;
        let expected = match input.shape.0.first() {
            None => format!("0, since input `{name}` has no dimensions"),
            Some(Dim::Fixed(length)) if *length != rows => {
                format!("{length}, the first dimension of input `{name}` (set batch_size)")
            }
            Some(Dim::Range(_, most)) if rows > *most => {
                format!("at most {most}, the first dimension of input `{name}` (set batch_size)")
            }
            Some(_) => return None,
        };
        Some(format!("max_batch_size: found {rows}, expected {expected}"))
    })
}

/// Compares the dimensions, which are those of a row if there are batches.
fn of_dims(kind: &str, it: &Described, tensor: &TensorInfo, batches: bool) -> Option<String> {
    let (what, dims) = match &it.reshape {
        Some(shape) => ("reshape", shape),
        None => ("dims", &it.dims),
    };
    if tensor.is_open || (dims.is_empty() && it.reshape.is_none()) {
        return None;
    }
    let expected = &tensor.shape.0;
    let expected = match batches {
        true => expected.get(1..).unwrap_or_default(),
        false => expected,
    };
    let fits = |(dim, found): (&Dim, &i64)| match (dim, usize::try_from(*found)) {
        (Dim::Any, _) => true,
        (Dim::Fixed(length), found) => found == Ok(*length),
        // Negative ones are any length.
        (Dim::Range(..), Err(_)) => true,
        (Dim::Range(least, most), Ok(found)) => (*least..=*most).contains(&found),
    };
    if dims.len() == expected.len() && expected.iter().zip(dims).all(fits) {
        return None;
    }
    let without = match batches {
        true => ", without that of max_batch_size",
        false => "",
    };
    Some(format!(
        "{kind} `{}`: found {what} {}, expected {}{without}",
        it.name,
        ShapeText(dims),
        PartialShape(expected.to_vec())
    ))
}

#[cfg(test)]
mod tests {
    use super::contradictions;
    use crate::{
        graph::outline,
        openvino::{BatchOption, LoadOptions},
        servable::{ServableInfo, TensorInfo},
        tensor::{DataType, Dim, Layout, PartialShape},
    };

    fn tensor(name: &str, dtype: DataType, dims: &[Dim]) -> TensorInfo {
        TensorInfo {
            name: name.to_owned(),
            dtype,
            is_open: false,
            shape: PartialShape(dims.to_vec()),
            layout: Layout::unspecified(dims.len()),
            port: 0,
        }
    }

    fn model(batch: Dim) -> ServableInfo {
        ServableInfo::new(
            vec![
                tensor("b", DataType::F32, &[batch, Dim::Fixed(10)]),
                tensor("t", DataType::String, &[batch]),
            ],
            vec![tensor("a", DataType::I64, &[batch, Dim::Range(2, 4)])],
        )
    }

    fn note(text: &str, batch: Dim) -> String {
        let fields = outline(text).unwrap();
        contradictions(&fields, &LoadOptions::default(), &model(batch)).join("\n")
    }

    const INPUTS: &str = r#"
        input [ { data_type: TYPE_FP32 name: "b" dims: [ 10 ] }, { name: "t" data_type: TYPE_STRING dims: [ 1 ] reshape { } } ]
        output { name: "a" data_type: TYPE_INT64 dims: -1 }
    "#;

    #[test]
    fn what_fits_is_not_reported() {
        assert_eq!(note("", Dim::Any), "");
        assert_eq!(note("max_batch_size: 8 name: \"x\"", Dim::Any), "");
        for batch in [Dim::Any, Dim::Range(1, 8), Dim::Fixed(8)] {
            assert_eq!(note(&format!("max_batch_size: 8 {INPUTS}"), batch), "");
        }
        let whole = r#"input { name: "b" dims: 1 dims: 10 } input { name: "t" dims: 1 } output { name: "a" dims: [ 1, 3 ] }"#;
        assert_eq!(note(whole, Dim::Fixed(1)), "");
    }

    #[test]
    fn what_does_not_fit_is_reported_with_what_the_model_has() {
        insta::assert_snapshot!(note(&format!("max_batch_size: 8 {INPUTS}"), Dim::Fixed(1)), @"max_batch_size: found 8, expected 1, the first dimension of input `b` (set batch_size)");
        insta::assert_snapshot!(note(INPUTS, Dim::Fixed(1)), @"
        input `b`: found dims (10), expected (1,10)
        input `t`: found reshape (), expected (1)
        output `a`: found dims (-1), expected (1,[2~4])
        ");
        let text = r#"
            max_batch_size: 9
            input [ { name: "b" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "T" dims: 1 } ]
            output [ { name: "a" data_type: TYPE_INT64 dims: [ 5 ] }, { name: "z" } ]
        "#;
        insta::assert_snapshot!(note(text, Dim::Range(1, 8)), @"
        max_batch_size: found 9, expected at most 8, the first dimension of input `b` (set batch_size)
        input `b`: found TYPE_INT32, expected TYPE_FP32
        input `b`: found dims (-1), expected (10), without that of max_batch_size
        input `T`: found no such input in the model, expected `b` or `t`
        output `a`: found dims (5), expected ([2~4]), without that of max_batch_size
        output `z`: found no such output in the model, expected `a`
        ");
    }

    #[test]
    fn inputs_that_are_left_out_are_reported() {
        let text = r#"input { name: "b" }"#;
        insta::assert_snapshot!(note(text, Dim::Any), @"input `t` of the model is not in it");
        let text = r#"input { name: "b" } sequence_batching { control_input { name: "t" } }"#;
        insta::assert_snapshot!(note(text, Dim::Any), @"input `t`: control_input does not fill it, so that clients have to send it");
    }

    #[test]
    fn what_is_set_here_is_not_compared() {
        let fields = outline(&format!("max_batch_size: 8 {INPUTS}")).unwrap();
        let load = LoadOptions {
            batch: Some(BatchOption::Auto),
            ..LoadOptions::default()
        };
        assert_eq!(
            contradictions(&fields, &load, &model(Dim::Fixed(1))),
            [""; 0]
        );
    }
}
