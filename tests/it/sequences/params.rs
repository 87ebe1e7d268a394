//! Request parameters of KServe for the sequence of a request, as Triton's clients send them,
//! alone and beside the special inputs. Those of the wrong kind are in the sheet `errors`.

use serde_json::{Value, json};
use tonic::Code;

use super::shared;
use crate::support::{
    http::{JSON_LENGTH, post, send},
    sequence::{Answer, Ask, Client, Special, Wire, rest_body},
};

const NO_ID: &str = "Sequence ID has not been provided in request inputs";
const DISAGREE: &str = "Sequence parameters and special inputs disagree";

/// First id that does not fit an int64.
const WIDE: u64 = i64::MAX as u64 + 1;

fn ask(x: f32) -> Ask {
    Ask::new("params", x)
}

fn with_id(x: f32, id: impl Into<Value>) -> Ask {
    ask(x).parameter("sequence_id", id)
}

fn start(ask: Ask) -> Ask {
    ask.parameter("sequence_start", true)
}

fn end(ask: Ask) -> Ask {
    ask.parameter("sequence_end", true)
}

/// Returns id, total and the parameter of a response.
fn reported(client: &Client<'_>, wire: Wire, ask: &Ask) -> (u64, f32, Option<Value>) {
    let answer = client.send(wire, ask);
    let answer: Answer = answer.unwrap_or_else(|error| panic!("{wire:?}: {error}: {ask:?}"));
    let (id, total) = answer.total();
    (id, total, answer.echo)
}

#[test]
fn ids_are_numbers_or_texts_and_are_returned_as_they_were_given() {
    let client = shared::connect();
    for wire in Wire::KSERVE {
        let reported = |ask: Ask| reported(&client, wire, &ask);
        for id in [7, WIDE - 1, WIDE, u64::MAX] {
            let text = json!(id.to_string());
            // An id that does not fit an int64 is returned as text, in whatever form it was sent.
            let number = if id < WIDE { json!(id) } else { text.clone() };
            let echo = Some(number.clone());
            assert_eq!(reported(start(with_id(1.0, id))), (id, 1.0, echo.clone()));
            assert_eq!(reported(with_id(1.0, id)), (id, 2.0, echo.clone()));
            let echoed = Some(text.clone());
            assert_eq!(
                reported(with_id(1.0, text.clone())),
                (id, 3.0, echoed.clone())
            );
            let padded = json!(format!("00{id}"));
            assert_eq!(reported(with_id(1.0, padded)), (id, 4.0, echoed.clone()));
            // False is as good as nothing.
            let no = with_id(1.0, id)
                .parameter("sequence_start", false)
                .parameter("sequence_end", false);
            assert_eq!(reported(no), (id, 5.0, echo));
            assert_eq!(reported(end(with_id(1.0, text))), (id, 6.0, echoed));
            let unknown = client.refused(wire, &end(with_id(1.0, id)));
            assert_eq!(unknown, wire.unknown());
        }
    }
}

#[test]
fn a_start_without_an_id_gets_one() {
    let client = shared::connect();
    let ask = |x| Ask::new("params_start", x);
    let with_id = |x, id: Value| ask(x).parameter("sequence_id", id);
    for wire in Wire::KSERVE {
        let reported = |ask: Ask| reported(&client, wire, &ask);
        for (without, echo) in [
            (ask(1.0), json!(1)),
            (with_id(1.0, json!(0)), json!(1)),
            (with_id(1.0, json!("")), json!("1")),
            (with_id(1.0, json!("0")), json!("1")),
            (with_id(1.0, json!("000")), json!("1")),
        ] {
            assert_eq!(reported(start(without)), (1, 1.0, Some(echo)));
            let last = end(with_id(1.0, json!(1)));
            assert_eq!(reported(last), (1, 2.0, Some(json!(1))));
        }
        for without in [
            ask(1.0),
            with_id(1.0, json!(0)),
            with_id(1.0, json!("")),
            with_id(1.0, json!("0")),
            end(ask(1.0)),
            ask(1.0).parameter("sequence_start", false),
        ] {
            assert_eq!(client.refused(wire, &without), wire.invalid(NO_ID));
        }
    }
}

#[test]
fn start_and_end_at_once_are_a_sequence_of_one_request() {
    let client = shared::connect();
    let ask = |x| Ask::new("params_once", x);
    let with_id = |x, id| ask(x).parameter("sequence_id", id);
    for wire in Wire::KSERVE {
        for _ in 0..3 {
            let only = |ask| end(start(ask));
            let reported = |ask: Ask| reported(&client, wire, &ask);
            assert_eq!(reported(only(ask(4.0))), (1, 4.0, Some(json!(1))));
            assert_eq!(reported(only(with_id(5.0, 9))), (9, 5.0, Some(json!(9))));
            assert_eq!(client.refused(wire, &with_id(5.0, 9)), wire.unknown());
        }
    }
    // The rules of starts are the same.
    client.total(Wire::Raw, &ask(1.0).id(3).start());
    for wire in Wire::KSERVE {
        let full = "Max sequence number has been reached. Could not create new sequence.";
        let refused = client.refused(wire, &end(start(with_id(1.0, 3))));
        assert_eq!(refused, wire.error(Code::Unavailable, 503, full));
    }
    assert_eq!(client.total(Wire::Raw, &ask(1.0).id(3).end()), (3, 2.0));
}

#[test]
fn both_forms_are_one_if_they_agree() {
    let client = shared::connect();
    for wire in Wire::KSERVE {
        let reported = |ask: Ask| reported(&client, wire, &ask);
        // Each says what the other does not.
        assert_eq!(reported(start(ask(1.0).id(5))), (5, 1.0, Some(json!(5))));
        assert_eq!(
            reported(with_id(1.0, "5").control(0)),
            (5, 2.0, Some(json!("5")))
        );
        assert_eq!(reported(with_id(1.0, 5).id(0)), (5, 3.0, Some(json!(5))));
        assert_eq!(reported(with_id(1.0, 0).id(5)), (5, 4.0, Some(json!(5))));
        assert_eq!(reported(with_id(1.0, 5).end()), (5, 5.0, Some(json!(5))));
        // Both say the same.
        assert_eq!(reported(start(with_id(1.0, 6).id(6).start())).1, 1.0);
        assert_eq!(reported(with_id(1.0, "6").id(6)).1, 2.0);
        let refused = |ask: Ask| client.refused(wire, &ask);
        for different in [
            with_id(1.0, 7).id(6),
            with_id(1.0, "7").id(6).end(),
            start(with_id(1.0, 6).end()),
            end(with_id(1.0, 6).start()),
            end(start(with_id(1.0, 6).start())),
            end(start(with_id(1.0, 6).end())),
            // Before it is asked whether there is an id.
            start(ask(1.0).end()),
            end(ask(1.0).start()),
        ] {
            assert_eq!(
                refused(different.clone()),
                wire.invalid(DISAGREE),
                "{different:?}"
            );
            // Before tensors are validated.
            assert_eq!(refused(different.bad()), wire.invalid(DISAGREE));
        }
        // What is wrong with a special input comes first.
        let control = "Unexpected value of sequence control input";
        assert_eq!(
            refused(with_id(1.0, 7).id(6).control(3)),
            wire.invalid(control)
        );
        let shapeless = Ask {
            id: Some(Special::shapeless(6)),
            ..with_id(1.0, 7)
        };
        let text = "Special input proto does not contain tensor shape information - sequence_id has shape (1), in JSON a list \
                    of one number";
        assert_eq!(refused(shapeless), wire.invalid(text));
        assert_eq!(
            reported(end(with_id(1.0, 6).id(6).end())).1,
            3.0,
            "it is unharmed"
        );
    }
}

#[test]
fn other_parameters_are_let_be() {
    let client = shared::connect();
    let ask = |x| Ask::new("params_other", x);
    for wire in Wire::KSERVE {
        let more = |ask: Ask| {
            ask.parameter("priority", 3)
                .parameter("timeout", 60_000_000)
                .parameter("mine", "x")
        };
        assert_eq!(
            reported(&client, wire, &more(ask(1.0).start())),
            (1, 1.0, None),
            "nothing of sequences among them"
        );
        let ended = reported(
            &client,
            wire,
            &more(end(ask(1.0).parameter("sequence_id", "1"))),
        );
        assert_eq!(ended, (1, 2.0, Some(json!("1"))));
    }
}

#[test]
fn the_id_stands_where_it_is_listed_or_behind_the_others() {
    let client = shared::connect();
    let large = || Ask {
        data: ("x", vec![1, 3, 256, 256], vec![1.0; 3 * 256 * 256]),
        ..Ask::new("running_large", 0.0)
    };
    // Over JSON alone that would be much text.
    for wire in [Wire::Raw, Wire::Binary] {
        let names = |wanted: &[&'static str]| {
            let ask = wanted
                .iter()
                .fold(large().start(), |ask, name| ask.output(name, true));
            let answer = client.send(wire, &ask).unwrap();
            let end = large().id(answer.id).end().output("mean", true);
            client.send(wire, &end).unwrap();
            answer.names.join(" ")
        };
        assert_eq!(names(&["mean"]), "mean sequence_id");
        assert_eq!(names(&["copy", "mean"]), "copy mean sequence_id");
        assert_eq!(names(&["sequence_id", "mean"]), "sequence_id mean");
        assert_eq!(
            names(&["copy", "sequence_id", "mean"]),
            "copy sequence_id mean"
        );
        assert_eq!(names(&["mean", "sequence_id"]), "mean sequence_id");
        assert_eq!(names(&["sequence_id"]), "sequence_id");
    }
}

#[test]
fn the_id_is_binary_if_it_or_all_else_is_wished_so_and_never_unknown() {
    let server = shared::server();
    let client = Client::connect(server);
    let ask = |x| Ask::new("params_listed", x);
    // Over TensorFlow Serving's REST nothing is selected.
    for wire in Wire::ALL.into_iter().filter(|wire| *wire != Wire::TfsRest) {
        let listed = |ask: Ask, names: &[&'static str]| {
            names.iter().fold(ask, |ask, name| ask.output(name, false))
        };
        let started = client
            .send(wire, &listed(ask(1.0).start(), &["sequence_id"]))
            .unwrap();
        assert_eq!(
            (started.names, started.values),
            (vec!["sequence_id".to_owned()], vec![])
        );
        let id = started.id;
        let refused = client.refused(wire, &listed(ask(1.0).id(id), &["sequence_id", "nothing"]));
        assert_eq!(
            refused,
            wire.invalid("Invalid output name - Requested output: nothing; the model has: total")
        );
        assert_eq!(
            client.total(wire, &listed(ask(1.0).id(id), &["total"])),
            (id, 2.0)
        );
        assert_eq!(
            client.total(wire, &ask(1.0).id(id).end()),
            (id, 3.0),
            "none is all"
        );
    }
    let body = |outputs: Value, parameters: Value| {
        let (mut json, _) = rest_body(&ask(1.0).start(), false);
        json["outputs"] = outputs;
        json["parameters"] = parameters;
        json.to_string()
    };
    let binary = json!({"binary_data": true});
    let listed = |name| json!({"name": name, "parameters": binary});
    let mut sizes = Vec::new();
    for (outputs, parameters) in [
        (json!([listed("sequence_id")]), json!({})),
        (json!([listed("total"), {"name": "sequence_id"}]), json!({})),
        (json!([{"name": "total"}, listed("sequence_id")]), json!({})),
        (json!([listed("total")]), json!({})),
        (json!([]), json!({"binary_data_output": true})),
        (
            json!([{"name": "total"}]),
            json!({"binary_data_output": true}),
        ),
    ] {
        let body = body(outputs, parameters);
        let answer = post(server, "/v2/models/params_listed/infer", body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let (json, bytes) = answer.parts();
        let outputs = json["outputs"].as_array().unwrap().iter().map(|output| {
            let size = &output["parameters"]["binary_data_size"];
            format!("{} {size}", output["name"].as_str().unwrap())
        });
        let outputs: Vec<String> = outputs.collect();
        sizes.push(format!("{} of {}", outputs.join(", "), bytes.len()));
    }
    insta::assert_snapshot!(sizes.join("\n"), @"
    sequence_id 8 of 8
    total 16, sequence_id null of 16
    total null, sequence_id 8 of 8
    total 16, sequence_id 8 of 24
    total 16, sequence_id 8 of 24
    total 16, sequence_id 8 of 24
    ");
}

#[test]
fn special_inputs_in_json_go_with_binary_data_and_the_other_way_round() {
    let server = shared::server();
    let x = r#"{"name":"x","shape":[1,4],"datatype":"FP32","parameters":{"binary_data_size":16}}"#;
    let start = r#"{"name":"sequence_control_input","shape":[1],"datatype":"UINT32","data":[1]}"#;
    let plain = r#"{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,1,1,1]}"#;
    let binary = r#"{"name":"sequence_id","shape":[1],"datatype":"UINT64","parameters":{"binary_data_size":8}}"#;
    for (inputs, bytes) in [
        (format!("{x},{start}"), &[0; 16][..]),
        (format!("{binary},{plain}"), &1_u64.to_le_bytes()[..]),
    ] {
        let json = format!(r#"{{"inputs":[{inputs}]}}"#);
        let length = json.len().to_string();
        let path = "/v2/models/params_json/infer";
        let headers = [(JSON_LENGTH, length.as_str())];
        let answer = send(
            server,
            "POST",
            path,
            &headers,
            &[json.as_bytes(), bytes].concat(),
        );
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}
