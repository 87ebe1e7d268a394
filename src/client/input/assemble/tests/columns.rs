//! Columns of tables for the inputs of a model.

use super::{content, model, text};
use crate::client::input::assemble::Content;

#[test]
fn columns_are_rows_of_inputs_whose_lengths_are_open() {
    let table = || Content::Rows("a,b\n1,x\n3,y\n".into());
    let shapes = |a: &[i64], b: &[i64]| {
        let model = model(&[("a", "INT64", a), ("b", "BYTES", b)]);
        text(&content(None, None, table()).tensors(&model).unwrap())
    };
    assert_eq!(
        shapes(&[-1, -1], &[-1, -1]),
        r#"a INT64 [2, 1] [1,3]; b BYTES [2, 1] ["x","y"]"#
    );
    assert_eq!(
        shapes(&[-1], &[-1]),
        r#"a INT64 [2] [1,3]; b BYTES [2] ["x","y"]"#
    );
    // A row of the length that the model has.
    assert_eq!(
        shapes(&[1, 2], &[-1, 2]),
        r#"a INT64 [1, 2] [1,3]; b BYTES [1, 2] ["x","y"]"#
    );
}

#[test]
fn a_file_with_a_column_is_rows_as_well() {
    let pair = model(&[("x", "INT64", &[-1, -1])]);
    let read = |table: &'static str| {
        let inputs = content(Some("x"), None, Content::Rows(table.into()));
        text(&inputs.tensors(&pair).unwrap())
    };
    assert_eq!(read("1\n3\n"), "x INT64 [2, 1] [1,3]");
    assert_eq!(read("1,2\n3,4\n"), "x INT64 [2, 2] [1,2,3,4]");
    assert_eq!(read("1,2\n"), "x INT64 [1, 2] [1,2]");
}
