use std::{sync::Arc, time::Duration};

use super::{engine::Engine, registry::Registry};
use crate::{
    error::ErrorKind,
    metrics::Metrics,
    model::{Model, Version},
    request::{ApiFamily, Interface, RequestOrigin},
};

const ORIGIN: RequestOrigin = RequestOrigin {
    api: ApiFamily::KServe,
    interface: Interface::Grpc,
};

#[tokio::test]
async fn names_and_versions_are_distinguished() {
    let engine = Engine::new(Duration::ZERO, 1);
    engine.replace(Registry::from_iter([Arc::new(Model::new(
        "m",
        [Version::new("m", 1, Metrics::off().reporter("m", 1))],
    ))]));
    let failure = async |name: &str, version| {
        let error = engine.find(name, version, ORIGIN).await.err().unwrap();
        (error.kind(), error.message().to_owned())
    };
    assert_eq!(
        failure("x", None).await,
        (
            ErrorKind::NotFound,
            "Model with requested name is not found".to_owned()
        )
    );
    let no_version = "Model with requested version is not found".to_owned();
    assert_eq!(
        failure("m", Some(2)).await,
        (ErrorKind::NotFound, no_version.clone())
    );
    assert_eq!(
        failure("m", None).await,
        (ErrorKind::NotFound, no_version),
        "none is available to be the default"
    );
    assert_eq!(
        failure("m", Some(1)).await,
        (
            ErrorKind::NotLoaded,
            "Model with requested version is not loaded yet".to_owned()
        )
    );
    assert_eq!(engine.requests_in_flight(), 0);
}

#[tokio::test]
async fn a_stopping_engine_refuses_and_waits_for_what_is_in_flight() {
    let engine = Engine::new(Duration::ZERO, 1);
    engine.set_ready();
    let place = super::in_flight::InFlight::enter(&engine.in_flight);
    engine.stop();
    assert!(!engine.ready());
    let refused = engine.find("m", None, ORIGIN).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Overloaded);
    let waiting = tokio::time::timeout(Duration::from_millis(10), engine.idle()).await;
    assert!(waiting.is_err(), "one request is in flight");
    // What is stored of a sequence after its request was given up counts as well.
    let work = super::in_flight::InFlight::enter(&engine.shared_work);
    drop(place);
    assert_eq!(engine.requests_in_flight(), 1);
    let waiting = tokio::time::timeout(Duration::from_millis(10), engine.idle()).await;
    assert!(waiting.is_err(), "a step goes on without its client");
    drop(work);
    engine.idle().await;
    assert_eq!(engine.requests_in_flight(), 0);
}

#[test]
fn a_failure_of_the_configuration_has_the_time_of_the_first_in_a_row() {
    let engine = Engine::new(Duration::ZERO, 1);
    assert_eq!(engine.config_failure(), None);
    let fail = |reason: &str| {
        engine.set_config_failure(Some(reason.to_owned()));
        std::thread::sleep(Duration::from_millis(2));
        engine.config_failure().unwrap()
    };
    let (first, second) = (fail("no file"), fail("no JSON"));
    assert_eq!((first.since, &*second.reason), (second.since, "no JSON"));
    engine.set_config_failure(None);
    assert_eq!(engine.config_failure(), None);
    assert!(fail("no file").since > first.since);
    let written = first.since();
    assert_eq!(
        (written.len(), written.ends_with('Z')),
        (20, true),
        "{written}"
    );
}
