//! Controls of requests, in either form and in both.

use bytes::Bytes;

use super::{CONTROL_INPUT, Echo, SEQUENCE_ID, SequenceCommand, SequenceControl, take};
use crate::{
    request::{
        Data, Declared, InferRequest, InputTensor, Parameter, Parameters, Special, SpecialInputs,
    },
    tensor::DataType,
};

fn input(name: &str, dtype: DataType, shape: &[i64], data: Data) -> InputTensor {
    InputTensor {
        name: name.to_owned(),
        datatype: Declared::Known(dtype),
        shape: shape.to_vec(),
        data,
    }
}

fn raw(bytes: &[u8]) -> Data {
    Data::Raw(Bytes::copy_from_slice(bytes))
}

fn typed(count: usize, bytes: &[u8]) -> Data {
    Data::Values {
        count,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

fn id(value: u64) -> InputTensor {
    input(SEQUENCE_ID, DataType::U64, &[1], raw(&value.to_le_bytes()))
}

fn control(value: u32) -> InputTensor {
    let data = typed(1, &value.to_le_bytes());
    input(CONTROL_INPUT, DataType::U32, &[1], data)
}

/// Shows what a request says, or the error.
fn read(inputs: Vec<InputTensor>, parameters: &[(&str, Parameter)]) -> String {
    let parameters: Parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let mut request = InferRequest {
        inputs,
        parameters,
        ..InferRequest::default()
    };
    match take(&mut request) {
        Ok((SequenceCommand { id, control }, echo)) => {
            assert!(request.inputs.iter().all(|input| input.name == "x"));
            format!("{control:?} {id} {:?}", echo.parameter(id.max(1)))
        }
        Err(error) => format!("{} {error}", error.kind().http()),
    }
}

#[test]
fn special_inputs_say_it() {
    let x = || input("x", DataType::F32, &[1], raw(&[0; 4]));
    let said = [
        read(vec![id(5)], &[]),
        read(vec![control(1), x(), id(u64::MAX)], &[]),
        read(vec![x(), control(1)], &[]),
        read(vec![id(0), control(1)], &[]),
        read(vec![id(5), control(2)], &[]),
        read(vec![id(5), control(0)], &[]),
    ];
    insta::assert_snapshot!(said.join("\n"), @"
    Next 5 None
    Start 18446744073709551615 None
    Start 0 None
    Start 0 None
    End 5 None
    Next 5 None
    ");
}

#[test]
fn parameters_say_it() {
    use Parameter::{Bool, Int, Text, UInt};
    let text = |text: &str| Text(text.to_owned());
    let said = [
        read(vec![], &[("sequence_id", Int(5)), ("priority", Int(1))]),
        read(vec![], &[("sequence_start", Bool(true))]),
        read(
            vec![],
            &[("sequence_id", Int(0)), ("sequence_start", Bool(true))],
        ),
        read(
            vec![],
            &[("sequence_id", text("")), ("sequence_start", Bool(true))],
        ),
        read(
            vec![],
            &[("sequence_end", Bool(true)), ("sequence_id", text("007"))],
        ),
        read(
            vec![],
            &[
                ("sequence_start", Bool(true)),
                ("sequence_end", Bool(true)),
                ("sequence_id", UInt(u64::MAX)),
            ],
        ),
        read(
            vec![],
            &[
                ("sequence_start", Bool(false)),
                ("sequence_id", text("18446744073709551615")),
            ],
        ),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    Next 5 Some(("sequence_id", Int(5)))
    Start 0 Some(("sequence_id", Int(1)))
    Start 0 Some(("sequence_id", Int(1)))
    Start 0 Some(("sequence_id", Text("1")))
    End 7 Some(("sequence_id", Text("7")))
    Only 18446744073709551615 Some(("sequence_id", Text("18446744073709551615")))
    Next 18446744073709551615 Some(("sequence_id", Text("18446744073709551615")))
    "#);
}

#[test]
fn parameters_of_other_types_are_refused_by_name() {
    use Parameter::{Bool, Double, Empty, Int, Text};
    let text = |text: &str| Text(text.to_owned());
    let errors = [
        read(vec![], &[("sequence_id", Int(-1))]),
        read(vec![], &[("sequence_id", Double(1.0))]),
        read(vec![], &[("sequence_id", Bool(true))]),
        read(vec![], &[("sequence_id", text("-1"))]),
        read(vec![], &[("sequence_id", text("+1"))]),
        read(vec![], &[("sequence_id", text("18446744073709551616"))]),
        read(vec![], &[("sequence_start", Int(1))]),
        read(vec![], &[("sequence_end", text("true"))]),
        read(vec![], &[("sequence_id", Empty)]),
        read(vec![], &[("sequence_start", Empty)]),
        // It is an input, and would be lost.
        read(
            vec![],
            &[("sequence_id", Int(1)), ("sequence_control_input", Int(2))],
        ),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_start - Expected: true or false
    400 Invalid value of request parameter sequence_end - Expected: true or false
    400 Invalid value of request parameter sequence_id - Expected: a whole number from 0 to 18446744073709551615, or a text of its digits
    400 Invalid value of request parameter sequence_start - Expected: true or false
    400 Unexpected request parameter sequence_control_input - Expected: sequence_start or sequence_end, true or false, beside sequence_id
    ");
}

#[test]
fn both_forms_may_share_what_is_said_and_must_not_contradict_each_other() {
    use Parameter::{Bool, Int};
    let said = [
        read(vec![control(1)], &[("sequence_id", Int(5))]),
        read(vec![id(5)], &[("sequence_end", Bool(true))]),
        read(
            vec![id(5), control(1)],
            &[("sequence_id", Int(5)), ("sequence_start", Bool(true))],
        ),
        read(
            vec![id(5), control(0)],
            &[("sequence_id", Int(0)), ("sequence_start", Bool(true))],
        ),
        read(vec![id(5)], &[("sequence_id", Int(6))]),
        read(vec![id(5), control(1)], &[("sequence_end", Bool(true))]),
        read(
            vec![id(5), control(1)],
            &[("sequence_start", Bool(true)), ("sequence_end", Bool(true))],
        ),
        // After the value of the control input, before an id that is missing.
        read(vec![id(5), control(3)], &[("sequence_id", Int(6))]),
        read(vec![control(2)], &[("sequence_start", Bool(true))]),
    ];
    insta::assert_snapshot!(said.join("\n"), @r#"
    Start 5 Some(("sequence_id", Int(5)))
    End 5 Some(("sequence_id", Int(5)))
    Start 5 Some(("sequence_id", Int(5)))
    Start 5 Some(("sequence_id", Int(5)))
    400 Sequence parameters and special inputs disagree
    400 Sequence parameters and special inputs disagree
    400 Sequence parameters and special inputs disagree
    400 Unexpected value of sequence control input
    400 Sequence parameters and special inputs disagree
    "#);
}

#[test]
fn each_error_of_a_special_input_has_its_text_and_the_first_one_counts() {
    let wrong_id = |shape: &[i64], data| input(SEQUENCE_ID, DataType::U64, shape, data);
    let wrong_control = |shape: &[i64], data| input(CONTROL_INPUT, DataType::U32, shape, data);
    let eight = &[0; 8][..];
    let errors = [
        read(vec![wrong_id(&[], raw(eight)), control(9)], &[]),
        read(vec![wrong_id(&[1, 1], raw(eight))], &[]),
        read(vec![wrong_id(&[2], raw(&[0; 16]))], &[]),
        read(vec![wrong_id(&[0], raw(&[]))], &[]),
        read(vec![wrong_id(&[1], raw(&[0; 4]))], &[]),
        read(vec![wrong_id(&[1], typed(2, &[0; 16]))], &[]),
        read(
            vec![wrong_id(&[1], Data::Unfit("too large".to_owned()))],
            &[],
        ),
        read(vec![wrong_id(&[1], Data::Both)], &[]),
        read(
            vec![input(SEQUENCE_ID, DataType::I64, &[1], raw(eight))],
            &[],
        ),
        read(vec![wrong_control(&[], raw(&[0; 4]))], &[]),
        read(vec![wrong_control(&[1, 1], raw(&[0; 4]))], &[]),
        read(vec![id(1), wrong_control(&[2], raw(&[0; 8]))], &[]),
        read(vec![id(1), wrong_control(&[1], raw(eight))], &[]),
        read(vec![id(1), control(3)], &[]),
        read(vec![id(0), control(2)], &[]),
        read(vec![control(0)], &[]),
        read(vec![], &[]),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    400 Special input proto does not contain tensor shape information - sequence_id has shape (1), in JSON a list of one number
    400 Invalid number of shape dimensions - Required shape for sequence_id is: (1)
    400 Invalid input shape - Required shape for sequence_id is: (1)
    400 Invalid input shape - Required shape for sequence_id is: (1)
    400 Could not find sequence id in expected tensor proto field uint64_val
    400 Could not find sequence id in expected tensor proto field uint64_val
    400 Could not find sequence id in expected tensor proto field uint64_val
    400 Could not find sequence id in expected tensor proto field uint64_val
    400 Could not find sequence id in expected tensor proto field uint64_val
    400 Special input proto does not contain tensor shape information - sequence_control_input has shape (1), in JSON a list of one number
    400 Invalid number of shape dimensions - Required shape for sequence_control_input is: (1)
    400 Invalid input shape - Required shape for sequence_control_input is: (1)
    400 Could not find sequence control input in expected tensor proto field uint32_val
    400 Unexpected value of sequence control input
    400 Sequence ID has not been provided in request inputs
    400 Sequence ID has not been provided in request inputs
    400 Sequence ID has not been provided in request inputs
    ");
}

#[test]
fn what_a_protocol_has_in_a_form_of_its_own_comes_first() {
    let special = |value| Special {
        shape: Some(vec![1]),
        value,
    };
    let mut request = InferRequest {
        special: Some(Box::new(SpecialInputs {
            id: Some(special(Some(3))),
            control: Some(special(None)),
        })),
        ..InferRequest::default()
    };
    let error = take(&mut request).unwrap_err().to_string();
    assert_eq!(
        error,
        "Could not find sequence control input in expected tensor proto field uint32_val"
    );
    request.special = Some(Box::new(SpecialInputs {
        id: Some(special(Some(3))),
        control: Some(special(Some(1))),
    }));
    let (command, echo) = take(&mut request).unwrap();
    let start = SequenceCommand {
        id: 3,
        control: SequenceControl::Start,
    };
    assert_eq!((command, echo), (start, Echo::None));
}
