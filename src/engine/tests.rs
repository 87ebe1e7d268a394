use std::{sync::Arc, time::Duration};

use super::{Engine, Registry};
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
async fn names_and_versions_are_told_apart() {
    let engine = Engine::new(Duration::ZERO, 1);
    engine.replace(Registry::from_iter([Arc::new(Model::new(
        "m",
        [Version::new("m", 1, Metrics::off().reporter("m", 1))],
    ))]));
    let fault = async |name: &str, version| {
        let error = engine.find(name, version, ORIGIN).await.err().unwrap();
        (error.kind(), error.message().to_owned())
    };
    assert_eq!(
        fault("x", None).await,
        (
            ErrorKind::NotFound,
            "Model with requested name is not found".to_owned()
        )
    );
    let no_version = "Model with requested version is not found".to_owned();
    assert_eq!(
        fault("m", Some(2)).await,
        (ErrorKind::NotFound, no_version.clone())
    );
    assert_eq!(
        fault("m", None).await,
        (ErrorKind::NotFound, no_version),
        "none is available to be the default"
    );
    assert_eq!(
        fault("m", Some(1)).await,
        (
            ErrorKind::NotLoaded,
            "Model with requested version is not loaded yet".to_owned()
        )
    );
    assert_eq!(engine.requests_under_way(), 0);
}

#[tokio::test]
async fn a_stopping_engine_refuses_and_waits_for_what_is_under_way() {
    let engine = Engine::new(Duration::ZERO, 1);
    engine.set_ready();
    let place = super::UnderWay::enter(&engine.under_way);
    engine.stop();
    assert!(!engine.ready());
    let refused = engine.find("m", None, ORIGIN).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Overloaded);
    let waiting = tokio::time::timeout(Duration::from_millis(10), engine.idle()).await;
    assert!(waiting.is_err(), "one request is under way");
    drop(place);
    engine.idle().await;
}
