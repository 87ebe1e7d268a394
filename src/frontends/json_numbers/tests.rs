//! Accepted and rejected texts, compared with serde's parser.

use proptest::prelude::*;
use serde_json::Value;

use super::{Cursor, Elements, JsonError, MAX_OPEN, NOT_FINITE, Rules, no_object};
use crate::tensor::{DataType, Tensor, values::write_json};

/// Reads a text, and the same with more behind it: there is a quick way as long as the end is not near.
fn read(dtype: DataType, rules: Rules, text: &str) -> Result<(Tensor, usize), JsonError> {
    let read = read_to_end(dtype, rules, text);
    let far = read_to_end(dtype, rules, &format!("{text}{}", " ".repeat(99)));
    assert_eq!(read, far, "{text}");
    read
}

fn read_to_end(dtype: DataType, rules: Rules, text: &str) -> Result<(Tensor, usize), JsonError> {
    let mut cursor = Cursor::new(text.as_bytes());
    let mut elements = Elements::new(dtype, rules, 0, text.len());
    elements.read(&mut cursor, 0)?;
    if cursor.token().is_some() {
        return Err(JsonError::Syntax);
    }
    let (dtype, count) = (elements.dtype(), elements.count());
    let (shape, bytes) = elements.finish();
    let shape = if rules == Rules::KServe {
        vec![count]
    } else {
        shape
    };
    Ok((Tensor::new(dtype, shape, bytes).unwrap(), count))
}

/// Reads in TensorFlow Serving's way; returns shape and elements.
fn shown(dtype: DataType, text: &str) -> String {
    match read(dtype, Rules::TensorFlowServing, text) {
        Ok((tensor, _)) => {
            let mut json = Vec::new();
            write_json(&tensor, &mut json);
            let json = String::from_utf8(json).unwrap();
            format!("{} {:?} {json}", tensor.dtype(), tensor.shape())
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_lists_are_the_shape() {
    let f32 = |text| shown(DataType::F32, text);
    assert_eq!(f32("5"), "FP32 [] [5.0]");
    assert_eq!(
        f32(" [ [ 1 , 2.5 ] , [ -3e1 , 0.0 ] ] "),
        "FP32 [2, 2] [1.0,2.5,-30.0,0.0]"
    );
    assert_eq!(f32("[[[1],[2]]]"), "FP32 [1, 2, 1] [1.0,2.0]");
    assert_eq!(
        shown(DataType::Bool, "[[true],[false]]"),
        "BOOL [2, 1] [true,false]"
    );
    // Empty lists are where the elements would be.
    assert_eq!(f32("[]"), "FP32 [0] []");
    assert_eq!(f32("[[],[ ]]"), "FP32 [2, 0] []");
    assert_eq!(f32("[[[],[]]]"), "FP32 [1, 2, 0] []");
}

#[test]
fn what_is_not_rectangular_is_refused() {
    for text in [
        "[[1,2],[3]]",
        "[1,[2]]",
        "[[1],2]",
        "[[1],[[2]]]",
        "[[[1]],[2]]",
        "[[1],[]]",
        "[[],[1]]",
        "[[],1]",
        "[1,[]]",
        "[[[]],[]]",
        "[[],[[]]]",
        "[[],[[],[]]]",
        "[[[]],[1]]",
    ] {
        assert_eq!(
            shown(DataType::F32, text),
            JsonError::Ragged.to_string(),
            "{text}"
        );
    }
}

#[test]
fn only_the_number_of_elements_counts_for_kserve() {
    let (tensor, count) = read(DataType::I16, Rules::KServe, "[[1,[2]],[],-1, [ ] ]").unwrap();
    assert_eq!(
        (count, &tensor.data()[..]),
        (3, &[1, 0, 2, 0, 255, 255][..])
    );
    let error = |dtype, text| read(dtype, Rules::KServe, text).unwrap_err().to_string();
    let errors = [
        error(DataType::F32, "1"),
        error(DataType::F32, "{}"),
        error(DataType::F32, r#"["a"]"#),
        error(DataType::F32, "[true]"),
        error(DataType::F32, "[null]"),
        error(DataType::F32, "[1e39]"),
        error(DataType::I32, "[1.5]"),
        error(DataType::U8, "[256]"),
        error(DataType::U64, "[-1]"),
        error(
            DataType::I64,
            "[100000000000000000000000000000000000000000000000000]",
        ),
        error(DataType::Bool, "[1]"),
        error(DataType::String, "[1]"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    expected a list
    found an object, expected a list of FP32 values
    found "a", expected a value of FP32
    found true, expected a value of FP32
    found null, expected a list of FP32 values
    1e39 does not fit FP32
    found 1.5, expected a value of INT32
    256 does not fit UINT8
    -1 does not fit UINT64
    1000000000000000000000000000000000000000… does not fit INT64
    found 1, expected a value of BOOL
    found 1, expected a value of BYTES
    "#);
}

#[test]
fn strings_are_taken_for_any_type_but_not_mixed() {
    let f32 = |text| shown(DataType::F32, text);
    assert_eq!(f32(r#"["a\n","","\u00fc"]"#), r#"BYTES [3] ["a\n","","ü"]"#);
    assert_eq!(
        f32(r#"[{"b64":"YWI="},{ "b64" : "YWI" }]"#),
        r#"BYTES [2] ["ab","ab"]"#
    );
    assert_eq!(
        f32(r#"[{"b64":"YW\u0049="}]"#),
        r#"BYTES [1] ["ab"]"#,
        "an escaped I"
    );
    let errors = [
        f32(r#""a""#),
        f32(r#"{"b64":"YWI="}"#),
        f32(r#"[1,"a"]"#),
        f32(r#"["a",1]"#),
        f32(r#"["a",true]"#),
        f32(r#"[{}]"#),
        f32(r#"[{"b64":1}]"#),
        f32(r#"[{"b65":"YWI="}]"#),
        f32(r#"[{"b64":"YWI=","x":1}]"#),
        f32(r#"[{"b64":"Y?"}]"#),
        f32(r#"["\ud800"]"#),
        shown(DataType::String, "[1]"),
        shown(DataType::Bool, "[1]"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    expected a list
    expected a list
    strings and other values are mixed
    strings and other values are mixed
    strings and other values are mixed
    found an object, expected a value or {"b64": "…"}
    found an object, expected a value or {"b64": "…"}
    found an object, expected a value or {"b64": "…"}
    found an object, expected a value or {"b64": "…"}
    `b64` is not base64: Invalid symbol 63, offset 1.
    a string cannot be read: unexpected end of hex escape
    found 1, expected a value of BYTES
    found 1, expected a value of BOOL
    "#);
}

#[test]
fn integers_are_exact_and_cut_out_of_fractions() {
    assert_eq!(
        shown(
            DataType::I64,
            "[-9223372036854775808,9223372036854775807,-0]"
        ),
        "INT64 [3] [-9223372036854775808,9223372036854775807,0]"
    );
    assert_eq!(
        shown(DataType::U64, "[18446744073709551615]"),
        "UINT64 [1] [18446744073709551615]"
    );
    assert_eq!(
        shown(DataType::I32, "[1.9,-1.9,-0.5,2e3,1E-9]"),
        "INT32 [5] [1,-1,0,2000,0]"
    );
    assert_eq!(shown(DataType::U8, "[-0.9,255.9]"), "UINT8 [2] [0,255]");
    assert_eq!(shown(DataType::U8, "[256.0]"), "256.0 does not fit UINT8");
    assert_eq!(shown(DataType::I8, "[1e300]"), "1e300 does not fit INT8");
    assert_eq!(shown(DataType::I8, "[1e999]"), "1e999 does not fit INT8");
}

#[test]
fn what_is_no_finite_number_is_an_element_of_floating_point() {
    for dtype in [DataType::F32, DataType::F64, DataType::F16, DataType::Bf16] {
        assert_eq!(
            shown(dtype, "[[NaN,1.5, -Infinity ],[Infinity,-0.5,NaN]]"),
            format!("{dtype} [2, 3] [NaN,1.5,-Infinity,Infinity,-0.5,NaN]")
        );
        for word in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(shown(dtype, word), format!("{dtype} [] [{word}]"));
            assert_eq!(
                shown(dtype, &format!("[{word}]")),
                format!("{dtype} [1] [{word}]")
            );
        }
    }
    for text in [
        "[nan]",
        "[NAN]",
        "[-NaN]",
        "[+Infinity]",
        "[inf]",
        "[Inf]",
        "[- Infinity]",
        "[NaN1]",
        "[1NaN]",
        "[NaNNaN]",
        "[Infinity.0]",
        "[-Infinit]",
        "[1,-]",
        "[N",
    ] {
        let seen = shown(DataType::F32, text);
        assert!(
            seen == "malformed JSON" || text == "[nan]" && seen.starts_with("found null"),
            "{text}: {seen}"
        );
        assert!(no_object(format!("{{\"a\":{text}}}").as_bytes()).is_some());
    }
    let errors = [
        shown(DataType::I32, "[1,NaN]"),
        shown(DataType::U8, "-Infinity"),
        shown(DataType::Bool, "[Infinity]"),
        shown(DataType::F32, r#"["a",NaN]"#),
        shown(DataType::F32, r#"[NaN,"a"]"#),
        shown(DataType::F32, "[[NaN],Infinity]"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    found NaN, expected a value of INT32
    found -Infinity, expected a value of UINT8
    found Infinity, expected a value of BOOL
    strings and other values are mixed
    strings and other values are mixed
    the lists are not rectangular
    ");
}

#[test]
fn elsewhere_what_is_no_finite_number_is_refused() {
    let skipped = |text: &'static str| Cursor::new(text.as_bytes()).skip();
    assert_eq!(skipped("[1,{\"a\":NaN}]"), Err(JsonError::NotFinite("NaN")));
    assert_eq!(skipped("-Infinity"), Err(JsonError::NotFinite("-Infinity")));
    let mut cursor = Cursor::new(b"[1,{\"NaN\":[NaN,-Infinity]},Infinity] ,");
    assert_eq!(cursor.skip_data(), Ok(()));
    assert!(cursor.take(b','));
    // A body is looked at as if they were numbers.
    assert!(no_object(br#"{"a":[NaN,-1],"b":Infinity}"#).is_none());
    let fail = |body: &str| no_object(body.as_bytes()).unwrap().message().to_owned();
    let errors = [
        fail("NaN"),
        fail(r#"{"a":[NaN,-1}"#),
        fail(r#"{"a":NaN} 5"#),
        fail(r#"{"a":nan}"#),
        // A string that does not end, and one with a character that is no part of any.
        fail(r#"{"a":NaN,"b"#),
        fail("{\"a\":NaN,\"\\nb\nc\":1}"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    Request body should be JSON object
    The file is not valid json - Error: malformed JSON Offset: 12
    The file is not valid json - Error: malformed JSON Offset: 10
    The file is not valid json - Error: expected ident Offset: 6
    The file is not valid json - Error: malformed JSON Offset: 11
    The file is not valid json - Error: malformed JSON Offset: 13
    ");
}

#[test]
fn numbers_of_every_length_are_read_to_their_end() {
    let digits = "1234567890123456789";
    for length in 1..=digits.len() {
        let digits = &digits[..length];
        let list = format!("[{digits},{digits} ,{digits}]");
        let expected = format!("UINT64 [3] [{digits},{digits},{digits}]");
        assert_eq!(shown(DataType::U64, &list), expected);
        let alone = format!("UINT64 [] [{digits}]");
        assert_eq!(shown(DataType::U64, digits), alone);
        let fraction = format!("[0.{digits},1.{digits}e1]");
        let parsed = |text: String| text.parse::<f64>().unwrap();
        let expected = [
            parsed(format!("0.{digits}")),
            parsed(format!("1.{digits}e1")),
        ];
        let (tensor, _) = read(DataType::F64, Rules::KServe, &fraction).unwrap();
        let bytes: Vec<u8> = expected
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        assert_eq!(tensor.data(), &bytes, "{fraction}");
        for other in ["/", ":", ";", "\u{7f}", "é"] {
            let text = format!("[{digits}{other}2345678]");
            assert_eq!(shown(DataType::U64, &text), "malformed JSON", "{text}");
        }
    }
}

#[test]
fn lists_are_followed_to_a_bound() {
    let deep = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    for rules in [Rules::KServe, Rules::TensorFlowServing] {
        assert!(read(DataType::F32, rules, &deep(128)).is_ok());
        assert_eq!(
            read(DataType::F32, rules, &deep(129)).unwrap_err(),
            JsonError::Deep
        );
        assert_eq!(
            read(DataType::F32, rules, &deep(100_000)).unwrap_err(),
            JsonError::Deep
        );
    }
    // So is what is passed over.
    let nested = |levels: usize| {
        let half = levels / 2;
        format!("{}1{}", r#"{"a":["#.repeat(half), "]}".repeat(half))
    };
    assert!(skips(nested(MAX_OPEN).as_bytes()));
    for text in [nested(MAX_OPEN + 2), nested(100_000), "[".repeat(100_000)] {
        let skipped = Cursor::new(text.as_bytes()).skip();
        assert_eq!(skipped, Err(JsonError::Deep));
        let passed = Cursor::new(text.as_bytes()).skip_data();
        assert_eq!(passed, Err(JsonError::Deep));
    }
}

#[test]
fn a_body_that_is_too_deep_is_not_looked_at_to_its_end() {
    // Its reader has said so, and what is no object is none.
    let without_end = "{\"x\":".to_owned() + &"[".repeat(100_000);
    assert!(no_object(without_end.as_bytes()).is_none());
    let list = "[".repeat(100_000);
    let error = no_object(list.as_bytes()).unwrap();
    assert_eq!(error.message(), "Request body should be JSON object");
    // As deep as a tensor may be, and what is around it.
    let deep = format!("{{\"inputs\":[{{\"data\":{}", "[".repeat(128));
    let error = no_object(deep.as_bytes()).unwrap();
    insta::assert_snapshot!(error.message(), @"The file is not valid json - Error: EOF while parsing a list Offset: 146");
    let whole = format!("{deep}{}}}]}}", "]".repeat(128));
    assert!(no_object(whole.as_bytes()).is_none());
    // Memory is that of the lists that may be open.
    let used = allocation_counter::measure(|| drop(no_object(without_end.as_bytes())));
    assert!(used.bytes_max < 10_000, "{}", used.bytes_max);
}

/// Passes over a whole text.
fn skips(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.skip().is_ok() && cursor.token().is_none()
}

/// Puts numbers in the place of those that are not finite; within a string it makes no difference.
fn plain(text: &str) -> String {
    NOT_FINITE
        .iter()
        .fold(text.to_owned(), |text, (word, _)| text.replace(word, "0"))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,4}", inner), 0..4)
                .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
        ]
    })
}

proptest! {
    #[test]
    fn numbers_are_the_nearest_of_their_type(value in any::<f64>(), digits in 0_usize..25) {
        prop_assume!(value.is_finite());
        for text in [
            format!("{value}"),
            format!("{value:e}"),
            format!("{value:.digits$}"),
            format!("{value:.digits$e}"),
            format!("{:.digits$e}", value as f32),
            format!("{:.digits$}", value % 1.0),
        ] {
            let list = format!("[{text}]");
            let double: f64 = text.parse().unwrap();
            match read(DataType::F64, Rules::KServe, &list) {
                Ok((tensor, _)) => prop_assert_eq!(&tensor.data()[..], double.to_le_bytes(), "{}", text),
                Err(_) => prop_assert!(double.is_infinite(), "{}", text),
            }
            let single: f32 = text.parse().unwrap();
            match read(DataType::F32, Rules::KServe, &list) {
                Ok((tensor, _)) => prop_assert_eq!(&tensor.data()[..], single.to_le_bytes(), "{}", text),
                Err(_) => prop_assert!(single.is_infinite(), "{}", text),
            }
        }
    }

    #[test]
    fn lists_are_read_number_by_number(
        numbers in prop::collection::vec(("-?(0|[1-9][0-9]{0,18})", "([.][0-9]{1,19})?", "(e-?[0-9])?"), 1..40),
        between in prop::collection::vec(prop_oneof![Just(","), Just(", "), Just(" ,"), Just(",\n\t")], 40),
    ) {
        let mut list = String::from("[");
        let mut wanted = [Vec::new(), Vec::new()];
        for (index, (whole, fraction, exponent)) in numbers.iter().enumerate() {
            let text = format!("{whole}{fraction}{exponent}");
            if index > 0 {
                list.push_str(between[index]);
            }
            list.push_str(&text);
            wanted[0].extend_from_slice(&text.parse::<f32>().unwrap().to_le_bytes());
            wanted[1].extend_from_slice(&text.parse::<f64>().unwrap().to_le_bytes());
        }
        list.push(']');
        for (dtype, wanted) in [DataType::F32, DataType::F64].into_iter().zip(wanted) {
            let (tensor, count) = read(dtype, Rules::KServe, &list).unwrap();
            prop_assert_eq!(count, numbers.len());
            prop_assert_eq!(&tensor.data()[..], &wanted, "{}", list);
        }
    }

    #[test]
    fn numbers_beside_what_is_not_finite_are_as_they_are(
        numbers in prop::collection::vec(prop_oneof![any::<f32>(), Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY)], 1..60),
        between in prop::collection::vec(prop_oneof![Just(","), Just(", "), Just(" ,"), Just(",\n\t")], 60),
    ) {
        let mut list = String::from("[");
        for (number, between) in numbers.iter().zip(&between) {
            if list.len() > 1 {
                list.push_str(between);
            }
            match *number {
                number if number.is_nan() => list.push_str("NaN"),
                f32::INFINITY => list.push_str("Infinity"),
                f32::NEG_INFINITY => list.push_str("-Infinity"),
                number => list.push_str(&number.to_string()),
            }
        }
        list.push(']');
        let (tensor, count) = read(DataType::F32, Rules::KServe, &list).unwrap();
        prop_assert_eq!(count, numbers.len());
        for (read, number) in tensor.data().chunks(4).zip(&numbers) {
            let read = f32::from_le_bytes(read.try_into().unwrap());
            prop_assert!(read.to_bits() == number.to_bits() || read.is_nan() && number.is_nan(), "{}", list);
        }
        let body = format!("{{\"a\":{list}}}");
        prop_assert!(no_object(body.as_bytes()).is_none());
        if numbers.iter().any(|number| !number.is_finite()) {
            prop_assert!(read(DataType::I64, Rules::TensorFlowServing, &list).is_err());
        }
    }

    #[test]
    fn lists_of_integers_are_read_number_by_number(
        numbers in prop::collection::vec(any::<(i64, u8)>().prop_map(|(bits, shift)| bits >> (shift % 64)), 1..40),
    ) {
        let list = format!("{numbers:?}");
        let wanted: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let (tensor, _) = read(DataType::I64, Rules::KServe, &list).unwrap();
        prop_assert_eq!(&tensor.data()[..], &wanted, "{}", list);
    }

    /// Halfway between two singles, a little more and a little less.
    #[test]
    fn ties_are_broken_as_they_should_be(bits in 0_u32..0x7f00_0000, tail in "[0-9]{0,12}") {
        let low = f64::from(f32::from_bits(bits));
        let high = f64::from(f32::from_bits(bits + 1));
        let middle = low + (high - low) / 2.0;
        for text in [format!("{middle}{}{tail}", if middle.fract() == 0.0 { ".0" } else { "" }),
                     format!("{middle:.17e}"), format!("{middle:e}")] {
            let single: f32 = text.parse().unwrap();
            let (tensor, _) = read(DataType::F32, Rules::KServe, &format!("[{text}]")).unwrap();
            prop_assert_eq!(&tensor.data()[..], single.to_le_bytes(), "{}", text);
        }
    }

    #[test]
    fn what_serde_writes_is_passed_over(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) };
        prop_assert!(skips(&text.unwrap()));
    }

    #[test]
    fn what_is_spoilt_is_validated_as_serde_does(
        value in any_json(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let place = place.index(text.len());
        if cut {
            text.remove(place);
        } else {
            text[place] = byte;
        }
        let serde = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(skips(&text), serde, "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn nothing_makes_it_fall_over(text in r#"([\[\]{}",:0-9eE.+\-truefalsn\\ b64]|NaN|-?Infinity){0,40}"#) {
        for dtype in DataType::ALL {
            for rules in [Rules::KServe, Rules::TensorFlowServing] {
                if let Ok((tensor, count)) = read(dtype, rules, &text) {
                    prop_assert_eq!(tensor.len(), count);
                    let text = plain(&text);
                    prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
                }
            }
        }
    }
}
