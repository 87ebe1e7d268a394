//! Custom nodes that fail or return invalid results: the known texts, and no leaks.

use std::sync::Arc;

use ovms::{
    ErrorKind,
    custom_node::{Node, NodeError, output},
    error::{Error, Result, chain},
};

use crate::support::nodes::{Own, floats};

/// Runs a node and drops its result; the books must balance.
fn call(own: &Own, params: &[(&str, &str)]) -> Result<usize> {
    let node = own.node(params);
    let returned = node.execute(&[]).map(|outputs| outputs.len());
    drop(node);
    own.even();
    returned
}

/// Returns the text that the log has of an error beside that of clients.
fn cause(error: &Error) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[test]
fn a_node_fails_at_each_entry_point() {
    let own = Own::open("failing.c");
    let error = Node::initialize(&own.library, [("fail", "initialize"), ("code", "-3")]);
    let error = error.err().unwrap();
    assert_eq!(
        error.to_string(),
        "`initialize` of library `own` returned -3, expected 0"
    );
    assert_eq!(own.books().events, "", "what failed is not deinitialized");

    let node = own.node(&[("fail", "execute")]);
    let error = node.execute(&[]).unwrap_err();
    assert_eq!(error.message(), "Custom node failed during execution");
    assert_eq!(
        cause(&error),
        "`execute` of library `own` returned 7, expected 0"
    );
    // Nor does it end the node.
    assert_eq!(node.inputs().unwrap().len(), 1);
    drop(node);
    assert_eq!(own.even().events, "IXNniD");

    for function in ["getInputsInfo", "getOutputsInfo"] {
        let node = own.node(&[("fail", function)]);
        let [failed, other] = if function == "getInputsInfo" {
            [node.inputs(), node.outputs()]
        } else {
            [node.outputs(), node.inputs()]
        };
        let failed = failed.unwrap_err();
        assert!(matches!(failed, NodeError::Call { .. }));
        assert!(failed.to_string().contains(function));
        assert_eq!(other.unwrap()[0].name, "done");
        assert_eq!(node.execute(&[]).unwrap().len(), 1);
    }
    own.even();

    for function in ["release", "deinitialize"] {
        assert_eq!(call(&own, &[("fail", function)]).unwrap(), 1, "{function}");
    }
    // One for each node but that which failed.
    assert_eq!(own.even().handles, [5, 5]);
}

#[test]
fn nonsense_is_reported_and_given_back() {
    let missing = "Custom node output is missing name";
    let size = "Custom node output has invalid content size";
    let precision = "Custom node has produced tensor with unspecified precision";
    let count = "Custom node library has produced corrupted number of outputs";
    let array = "Custom node library has returned corrupted outputs handle";
    // The second output has its elements given back at once, the others when the call has failed.
    // What the node frees itself, it does within `X`.
    for (say, status, events) in [
        ("no_array", array, "IXD"),
        ("no_count", count, "IXaD"),
        ("negative_count", count, "IXaD"),
        ("huge_count", count, "IXaD"),
        ("no_name", missing, "IXddtdattD"),
        ("no_dims", size, "IXddtdattD"),
        ("huge_rank", size, "IXddtdattD"),
        ("no_data", size, "IXtdddattD"),
        ("short", size, "IXddtdattD"),
        ("long", size, "IXddtdattD"),
        ("no_bytes", size, "IXddtdattD"),
        ("huge_dims", size, "IXddtdattD"),
        ("overflow", size, "IXddtdattD"),
        ("huge_bytes", size, "IXddtdattD"),
        ("unspecified", precision, "IXddtdattD"),
    ] {
        let own = Own::open("nonsense.c");
        let error = call(&own, &[("say", say)]).unwrap_err();
        assert_eq!(error.message(), status, "{say}");
        assert_eq!(own.books().events, events, "{say}");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}

#[test]
fn the_first_error_is_reported() {
    let own = Own::open("nonsense.c");
    let error = call(&own, &[("say_first", "short"), ("say", "no_name")]).unwrap_err();
    assert!(error.message().ends_with("content size"), "{error:?}");
    assert_eq!(own.books().events, "IXdtdtdatD");
    let error = call(&own, &[("say_first", "no_name"), ("say", "short")]).unwrap_err();
    assert!(cause(&error).starts_with("output 0 "), "{error:?}");
}

#[test]
fn precisions_that_do_not_exist_are_refused() {
    let own = Own::open("nonsense.c");
    for value in ["0", "10", "-1", "2147483647", "-2147483648"] {
        let error = call(&own, &[("say", "precision"), ("value", value)]).unwrap_err();
        assert_eq!(
            cause(&error),
            format!("output `second` of library `own` has precision {value}, expected 1 to 9")
        );
    }
    // Those that do, validate the bytes.
    assert!(call(&own, &[("say", "precision"), ("value", "7")]).is_ok());
    let error = call(&own, &[("say", "precision"), ("value", "9")]).unwrap_err();
    assert!(error.message().ends_with("content size"), "{error:?}");
    assert_eq!(call(&own, &[]).unwrap(), 3);
}

#[test]
fn errors_say_what_was_found() {
    let own = Own::open("nonsense.c");
    let said = |say: &str| chain(&call(&own, &[("say", say)]).unwrap_err());
    let all: Vec<String> = [
        "no_array",
        "negative_count",
        "no_name",
        "no_dims",
        "huge_rank",
        "no_data",
        "short",
        "overflow",
        "huge_bytes",
    ]
    .map(said)
    .into();
    insta::assert_snapshot!(all.join("\n"), @"
    Custom node library has returned corrupted outputs handle: `execute` of library `own` returned no array
    Custom node library has produced corrupted number of outputs: `execute` of library `own` returned -3 outputs, expected 1 to 4096
    Custom node output is missing name: output 1 of library `own` has no name
    Custom node output has invalid content size: output `second` of library `own`: 2 dimensions are at a null pointer
    Custom node output has invalid content size: output `second` of library `own`: found 2305843009213693952 dimensions, expected at most 64
    Custom node output has invalid content size: output `second` of library `own`: its elements are at a null pointer
    Custom node output has invalid content size: output `second` of library `own`: found 23 bytes, expected 24 for FP32 of shape (2,3)
    Custom node output has invalid content size: output `second` of library `own`: shape (4611686018427387906,3) is too large
    Custom node output has invalid content size: output `second` of library `own`: 9223372036854775808 bytes are more than there can be
    ");
}

#[test]
fn nonsense_about_tensors_is_reported_and_given_back() {
    for (say, end, events) in [
        ("no_array", "returned no array", "INND"),
        ("no_count", "entries, expected 1 to 4096", "INiNiD"),
        ("negative_count", "entries, expected 1 to 4096", "INiNiD"),
        ("huge_count", "entries, expected 1 to 4096", "INiNiD"),
    ] {
        let own = Own::open("nonsense.c");
        let node = own.node(&[("say", say)]);
        for failed in [node.inputs(), node.outputs()] {
            let failed: NodeError = failed.unwrap_err();
            assert!(failed.to_string().ends_with(end), "{failed}");
        }
        drop(node);
        assert_eq!(own.even().events, events, "{say}");
    }
}

#[test]
fn an_entry_that_is_nonsense_is_not_looked_at() {
    for (say, names) in [
        ("no_name", &["first", "third"][..]),
        ("no_dims", &["first", "third"]),
        ("huge_rank", &["first", "third"]),
        ("unspecified", &["first", "second", "third"]),
        ("huge_dims", &["first", "second", "third"]),
    ] {
        let own = Own::open("nonsense.c");
        let node = own.node(&[("say", say)]);
        let found = node.outputs().unwrap();
        let found: Vec<&str> = found.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(found, names, "{say}");
        drop(node);
        assert_eq!(own.even().events, "INnnniD", "{say}");
    }
}

#[test]
fn an_output_that_is_not_there_is_reported() {
    let own = Own::open("nonsense.c");
    let outputs = own.node(&[]).execute(&[]).unwrap();
    assert_eq!(output(&outputs, "third").unwrap().shape(), [2, 3]);
    let error = output(&outputs, "fourth").unwrap_err();
    assert_eq!(error.message(), "Custom node output is missing");
    assert_eq!(
        cause(&error),
        "found no output `fourth`; the node returned `first`, `second`, `third`"
    );
}

#[test]
fn zero_bytes_in_names_and_parameters_are_refused() {
    let own = Own::open("counting.c");
    let error = Node::initialize(&own.library, [("key", "a\0b")])
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "parameter `key` has a zero byte; library `own` cannot take it"
    );
    assert!(Node::initialize(&own.library, [("k\0", "a")]).is_err());
    let node = own.node(&[]);
    let input = floats(&[1], &[1.0]);
    let error = node.execute(&[("a\0b", &input)]).unwrap_err();
    assert!(cause(&error).contains(r"input name `a\0b` has a zero"));
    assert_eq!(Arc::strong_count(&node), 1);
    drop(node);
    assert_eq!(own.even().events, "ID");
}
