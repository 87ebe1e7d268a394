//! Sources that name their inputs themselves: archives, answers, and JSON objects.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Content, Given};
use crate::{
    client::{
        input::{ValueProblem, table},
        json,
        message::{ModelMetadata, TensorMetadata},
    },
    tensor::{DataType, Tensor},
};

/// Takes a source that names its inputs apart: an archive of arrays, or a JSON object.
pub(super) fn several(given: &Given, model: &ModelMetadata) -> Option<Vec<(String, Given)>> {
    let with = |content| Given {
        content,
        ..given.clone()
    };
    let each = |arrays: Vec<(String, Tensor)>| {
        let arrays = arrays.into_iter();
        let given = |(name, array)| (name, with(Content::Array(array)));
        arrays.map(given).collect()
    };
    let names_an_input =
        |arrays: &[(String, Tensor)]| arrays.iter().any(|(name, _)| model.has_input(name));
    match &given.content {
        // A single array may have any name, such as NumPy's own `arr_0`.
        Content::Arrays(arrays) if arrays.len() > 1 || names_an_input(arrays) => {
            Some(each(arrays.clone()))
        }
        Content::Outputs(outputs) if names_an_input(outputs) => {
            let mut inputs = outputs.clone();
            // What else the other model gives is not for this one.
            inputs.retain(|(name, _)| model.has_input(name));
            Some(each(inputs))
        }
        Content::Json(text) | Content::Piped(text)
            if no_answer(text).is_some() && !names_one(text, model) =>
        {
            None
        }
        Content::Inline(text) | Content::Json(text) | Content::Piped(text)
            if text.trim_start().starts_with('{') =>
        {
            let text = json::quote_not_finite(text);
            // What is no object after all is read again as a value, which reports the error.
            let inputs: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&text).ok()?;
            let given = |(name, value): (String, Box<RawValue>)| {
                (name, with(Content::Json(value.get().to_owned())))
            };
            Some(inputs.into_iter().map(given).collect())
        }
        _ => None,
    }
}

/// Columns of a table that are inputs, and names of those that are none.
pub(super) struct TableInputs {
    pub(super) inputs: Vec<(String, Given)>,
    pub(super) others: Vec<String>,
}

/// Takes a table apart whose columns are inputs of a model with several.
pub(super) fn columns(
    given: &Given,
    model: &ModelMetadata,
) -> Result<Option<TableInputs>, ValueProblem> {
    let Content::Rows(text) = &given.content else {
        return Ok(None);
    };
    if given.argument.name.is_some() || model.inputs.len() < 2 {
        return Ok(None);
    }
    let Some(columns) = table::columns(text, |name| model.has_input(name))? else {
        return Ok(None);
    };
    let (mut inputs, mut others) = (Vec::new(), Vec::new());
    for column in columns {
        let input = model.inputs.iter().find(|input| input.name == column.name);
        let content = match input {
            // A file for an input of texts is one of them, and a column is a list.
            Some(input) if input.dtype() == Some(DataType::String) => {
                Content::Json(as_list(&column.cells, input)?)
            }
            Some(_) => Content::Rows(column.table.into()),
            None => {
                others.push(column.name);
                continue;
            }
        };
        let input = Given {
            content,
            ..given.clone()
        };
        inputs.push((column.name, input));
    }
    Ok(Some(TableInputs { inputs, others }))
}

/// Writes the texts of a column as a list, or as a list of rows where an input takes those.
fn as_list(cells: &[String], input: &TensorMetadata) -> serde_json::Result<String> {
    match table::takes_column(&input.shape, cells.len()) {
        true => serde_json::to_string(&cells.chunks(1).collect::<Vec<_>>()),
        false => serde_json::to_string(cells),
    }
}

/// Returns an error for an object of another command that has no values.
pub(super) fn no_answer(text: &str) -> Option<ValueProblem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Error {
        error: String,
    }
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only their being there matters")]
    struct Ranking {
        model_name: String,
        output: String,
        top: serde::de::IgnoredAny,
    }
    if !text.trim_start().starts_with('{') {
        return None;
    }
    if let Ok(Error { error }) = serde_json::from_str(text) {
        return Some(ValueProblem::Upstream(error));
    }
    let ranking = serde_json::from_str::<Ranking>(text);
    ranking.is_ok().then_some(ValueProblem::Ranking)
}

/// Returns whether an object has the name of an input.
fn names_one(text: &str, model: &ModelMetadata) -> bool {
    let object = serde_json::from_str::<BTreeMap<String, serde::de::IgnoredAny>>(text);
    object.is_ok_and(|object| object.keys().any(|name| model.has_input(name)))
}
