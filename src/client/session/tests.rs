use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    routing,
};
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use super::{MAX_CHOSEN, SequenceClient, SequenceError, StepControl, mark};
use crate::{
    client::{
        address::{Address, Api},
        connection::{Client, SEQUENCE},
        error::ClientError,
        message::{ModelId, Request, TensorForm, TensorMetadata},
        options::ClientOptions,
    },
    request::Parameter,
    tensor::{DataType, Tensor, TensorMap},
};

/// Answers in turn, each once: status and body.
type Answers = Vec<(u16, Json)>;

/// Requests received, as JSON.
type Seen = Arc<Mutex<Vec<Json>>>;

fn options(api: Api, port: u16) -> ClientOptions {
    ClientOptions {
        address: Address::parse(&format!("127.0.0.1:{port}"), api).unwrap(),
        api,
        timeout: Duration::from_secs(10),
        headers: reqwest::header::HeaderMap::new(),
        concurrency: 1,
        tls: None,
    }
}

fn request() -> Request {
    Request {
        model: ModelId {
            name: "m".to_owned(),
            version: None,
        },
        id: String::new(),
        parameters: vec![("priority".to_owned(), Parameter::Int(1))],
        inputs: TensorMap::default(),
        outputs: Vec::new(),
        model_outputs: vec![TensorMetadata::new(
            "y".to_owned(),
            "UINT8".to_owned(),
            &[1],
        )],
        form: TensorForm::Values,
    }
}

fn step(value: u8) -> TensorMap {
    let tensor = Tensor::new(DataType::U8, vec![1], vec![value].into()).unwrap();
    TensorMap::from_iter([("x".to_owned(), tensor)])
}

/// Runs a test beside a server of KServe's REST that gives these answers.
async fn beside<T>(answers: Answers, test: impl AsyncFnOnce(Client, Seen) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Seen::default();
    let came = Arc::clone(&seen);
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let answer = move |headers: HeaderMap, body: String| {
        let mut request: Json = serde_json::from_str(&body).unwrap();
        request["header"] = headers[SEQUENCE].to_str().unwrap().into();
        came.lock().unwrap().push(request);
        let (status, body) = answers.lock().unwrap().next().unwrap();
        std::future::ready((StatusCode::from_u16(status).unwrap(), body.to_string()))
    };
    let router = Router::new().route("/v2/models/m/infer", routing::post(answer));
    let client = Client::connect(&options(Api::KserveRest, port))
        .await
        .unwrap();
    tokio::select! {
        _ = axum::serve(listener, router).into_future() => panic!("the server ended"),
        result = test(client, seen) => result,
    }
}

fn good(id: Option<u64>) -> (u16, Json) {
    let mut outputs = vec![json!({"name":"y","datatype":"UINT8","shape":[1],"data":[9]})];
    outputs.extend(
        id.map(|id| json!({"name":"sequence_id","datatype":"UINT64","shape":[1],"data":[id]})),
    );
    (
        200,
        json!({"model_name":"m","model_version":"1","outputs":outputs}),
    )
}

fn bad(status: u16, text: &str) -> (u16, Json) {
    (status, json!({ "error": text }))
}

/// The request as its elements and parameters.
fn short(request: &Json) -> String {
    format!(
        "{} {}",
        request["inputs"][0]["data"][0], request["parameters"]
    )
}

#[tokio::test]
async fn a_sequence_is_started_gone_on_with_and_ended() {
    let answers = vec![good(Some(7)), good(Some(7)), good(Some(7))];
    beside(answers, async |client, seen| {
        let mut session = SequenceClient::new(&client, request(), Some(7));
        assert_eq!((session.id(), session.lives()), (7, false));
        for (value, is_last, control) in [
            (1, false, StepControl::Start),
            (2, false, StepControl::Continue),
            (3, true, StepControl::End),
        ] {
            assert_eq!(session.next(is_last), control);
            let answer = session.send(step(value), control).await.unwrap();
            let names: Vec<_> = answer.outputs.iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["y"], "the id is none of the outputs");
            assert_eq!((session.id(), session.is_reported()), (7, true));
            assert_eq!(session.lives(), !is_last);
        }
        let seen: Vec<_> = seen.lock().unwrap().iter().map(short).collect();
        assert_eq!(
            seen,
            [
                r#"1 {"priority":1,"sequence_id":7,"sequence_start":true}"#,
                r#"2 {"priority":1,"sequence_id":7}"#,
                r#"3 {"priority":1,"sequence_end":true,"sequence_id":7}"#,
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn a_sequence_can_be_one_request_or_end_with_the_last_step_again() {
    beside(
        vec![good(Some(1)), good(Some(2)), good(Some(2))],
        async |client, seen| {
            let mut session = SequenceClient::new(&client, request(), Some(u64::MAX));
            assert_eq!(session.next(true), StepControl::Only);
            session.send(step(1), StepControl::Only).await.unwrap();
            assert!(!session.lives());
            let mut session = SequenceClient::new(&client, request(), Some(2));
            session.send(step(2), StepControl::Start).await.unwrap();
            session.end(None).await.unwrap();
            assert!(!session.lives());
            let seen: Vec<_> = seen.lock().unwrap().iter().map(short).collect();
            assert_eq!(
                seen,
                [
                    concat!(
                        r#"1 {"priority":1,"sequence_end":true,"#,
                        r#""sequence_id":"18446744073709551615","sequence_start":true}"#
                    ),
                    r#"2 {"priority":1,"sequence_id":2,"sequence_start":true}"#,
                    r#"2 {"priority":1,"sequence_end":true,"sequence_id":2}"#,
                ]
            );
        },
    )
    .await;
}

#[tokio::test]
async fn after_a_refusal_it_lives_unless_the_server_has_dropped_it() {
    for (status, text, control, lives) in [
        (400, "Invalid input precision", StepControl::Continue, true),
        (400, "Invalid input precision", StepControl::End, true),
        (
            500,
            "Internal inference error - sequence 7 has been closed",
            StepControl::Continue,
            false,
        ),
        (
            404,
            "Sequence with provided ID does not exist",
            StepControl::Continue,
            false,
        ),
        (
            404,
            "Sequence with provided ID does not exist",
            StepControl::End,
            false,
        ),
    ] {
        let answers = vec![good(Some(7)), bad(status, text)];
        beside(answers, async |client, _| {
            let mut session = SequenceClient::new(&client, request(), None);
            session.send(step(1), StepControl::Start).await.unwrap();
            let error = session.send(step(2), control).await.unwrap_err();
            assert!(error.to_string().ends_with(text), "{error}");
            assert_eq!(session.lives(), lives, "{text} {control:?}");
        })
        .await;
    }
    beside(
        vec![bad(409, "Sequence with provided ID already exists")],
        async |client, _| {
            let mut session = SequenceClient::new(&client, request(), Some(5));
            session.send(step(1), StepControl::Start).await.unwrap_err();
            assert!(!session.lives(), "it is somebody else's");
        },
    )
    .await;
}

#[tokio::test]
async fn an_end_of_what_is_gone_is_an_end() {
    let gone = || bad(404, "Sequence with provided ID does not exist");
    let other = || bad(400, "Invalid input precision");
    beside(
        vec![good(Some(7)), gone(), good(Some(7)), other()],
        async |client, _| {
            let mut session = SequenceClient::new(&client, request(), None);
            session.send(step(1), StepControl::Start).await.unwrap();
            session.end(None).await.unwrap();
            let mut session = SequenceClient::resume(&client, request(), 7);
            session.send(step(1), StepControl::Continue).await.unwrap();
            session.end(None).await.unwrap_err();
            assert!(session.lives());
        },
    )
    .await;
}

#[tokio::test]
async fn an_id_is_chosen_where_none_is_given() {
    beside(vec![good(Some(3)), good(Some(3))], async |client, seen| {
        let mut session = SequenceClient::new(&client, request(), None);
        let chosen = session.id();
        assert!((1..=MAX_CHOSEN).contains(&chosen), "{chosen}");
        assert_ne!(SequenceClient::new(&client, request(), None).id(), chosen);
        session.send(step(1), StepControl::Start).await.unwrap();
        // A server that has its own idea of it is followed; the way there stays.
        assert_eq!((session.id(), session.is_reported()), (3, true));
        session.send(step(2), StepControl::End).await.unwrap();
        let seen = seen.lock().unwrap();
        let reported = |at: usize| {
            let id = seen[at]["parameters"]["sequence_id"].as_u64();
            (id, seen[at]["header"].as_str())
        };
        let route = chosen.to_string();
        assert_eq!(reported(0), (Some(chosen), Some(&*route)));
        assert_eq!(reported(1), (Some(3), Some(&*route)));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_reports_no_id_needs_one() {
    beside(vec![good(None), good(None)], async |client, _| {
        let mut session = SequenceClient::new(&client, request(), None);
        let error = session.send(step(1), StepControl::Start).await.unwrap_err();
        assert!(matches!(error, SequenceError::NoId), "{error}");
        let mut session = SequenceClient::new(&client, request(), Some(4));
        session.send(step(1), StepControl::Start).await.unwrap();
        assert_eq!((session.id(), session.is_reported()), (4, false));
    })
    .await;
}

#[tokio::test]
async fn without_an_answer_it_may_live() {
    // Nothing listens there.
    let client = Client::connect(&options(Api::KserveRest, 1)).await.unwrap();
    let mut session = SequenceClient::new(&client, request(), None);
    let error = session.send(step(1), StepControl::Start).await.unwrap_err();
    let unreachable = matches!(
        &error,
        SequenceError::Client(ClientError::Unreachable { .. })
    );
    assert!(unreachable, "{error}");
    assert!(session.lives());
}

#[tokio::test]
async fn over_tensorflow_serving_it_is_reported_by_inputs() {
    let client = Client::connect(&options(Api::TfsRest, 1)).await.unwrap();
    let text = |session: &SequenceClient<'_>, control| {
        let mut request = request();
        request.parameters.clear();
        mark(&mut request, session.is_tfs, session.id, control);
        assert_eq!(request.parameters, []);
        let inputs = request.inputs.iter();
        let inputs = inputs.map(|(name, tensor)| {
            assert_eq!(tensor.shape(), [1]);
            format!("{name} {} {}", tensor.dtype(), tensor.data()[0])
        });
        inputs.collect::<Vec<_>>().join(", ")
    };
    let session = SequenceClient::new(&client, request(), Some(5));
    assert_eq!(
        session.next(true),
        StepControl::Start,
        "there is no form for both"
    );
    assert_eq!(
        text(&session, StepControl::Start),
        "sequence_id UINT64 5, sequence_control_input UINT32 1"
    );
    let session = SequenceClient::resume(&client, request(), 5);
    assert_eq!(
        text(&session, StepControl::Continue),
        "sequence_id UINT64 5"
    );
    assert_eq!(
        text(&session, StepControl::End),
        "sequence_id UINT64 5, sequence_control_input UINT32 2"
    );
}
