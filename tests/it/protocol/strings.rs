//! Strings as inputs and outputs: tensors of strings, and rows of bytes that represent strings.

use std::sync::LazyLock;

use crate::support::{
    Server,
    bytes::{ANY_BYTES, FORMS, Output, Served, framed},
};

static PASSTHROUGH: LazyLock<Served<'_>> = LazyLock::new(|| of("passthrough_string", "in"));

/// Returns a shared model.
fn of(model: &'static str, input: &'static str) -> Served<'static> {
    Served::of(Server::shared(model), model, input)
}

fn strings(list: &[&[u8]]) -> Output {
    Output {
        datatype: "BYTES".to_owned(),
        shape: vec![i64::try_from(list.len()).unwrap()],
        data: framed(list),
    }
}

#[test]
fn strings_may_have_any_bytes() {
    let all: Vec<u8> = (0..=255).collect();
    let list: [&[u8]; 4] = [b"\0", &all, b"a\0b\0", b"\xff\xfe"];
    for form in ANY_BYTES {
        assert_eq!(PASSTHROUGH.ask(form, &[4], &list), Ok(strings(&list)));
    }
}

#[test]
fn long_strings_and_many_of_them_come_back() {
    let long = vec![b'x'; 3_000_000];
    let many: Vec<String> = (0..50_000)
        .map(|number| format!("string {number}"))
        .collect();
    let many: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
    for form in FORMS {
        assert_eq!(PASSTHROUGH.ask(form, &[1], &[&long]), Ok(strings(&[&long])));
        assert_eq!(PASSTHROUGH.ask(form, &[50_000], &many), Ok(strings(&many)));
    }
}

#[test]
fn rows_of_bytes_are_any_strings_where_the_name_says_so_up_to_a_gibibyte() {
    let served = of("text", "text");
    // A string ends at its first zero byte, as it does in the row.
    for form in ANY_BYTES {
        let cut = served.ask(form, &[2], &[b"\xffx\0y", b"\0"]);
        assert_eq!(cut, Ok(strings(&[b"\xffx", b""])));
    }
    let served = of("passthrough_u8", "in");
    let long = vec![b'x'; 1 << 20];
    let mut list: Vec<&[u8]> = vec![b""; 1024];
    list[1023] = &long;
    let texts: Vec<String> = FORMS
        .into_iter()
        .map(|form| served.ask(form, &[1024], &list).unwrap_err())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    InvalidArgument: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    400: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    400: Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in
    ");
}
