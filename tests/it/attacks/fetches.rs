//! Requests that would have the server fetch something (SSRF): it opens no connection for any of them.

use std::{io::ErrorKind, net::TcpListener, path::Path};

use super::field;
use crate::support::{
    Server,
    bytes::framed,
    grpc::{Grpc, dummy, raw},
    http::{get, post, send},
    pipelines::Config,
    wire::{self, Call},
};

/// A listener that nobody should connect to.
struct Bait(TcpListener);

impl Bait {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Returns places that name the listener.
    fn places(&self) -> Vec<String> {
        let address = self.0.local_addr().unwrap();
        [
            "http", "https", "s3", "gs", "az", "ftp", "grpc", "redis", "file",
        ]
        .map(|scheme| format!("{scheme}://{address}/bucket/model"))
        .into()
    }

    fn check(&self) {
        let connected = self.0.accept().map(|(_, client)| client);
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn no_request_makes_the_server_connect_to_anything() {
    let bait = Bait::set();
    let server = Server::shared("image_any");
    let grpc = Grpc::connect(server);
    for place in bait.places() {
        // TensorFlow Serving takes a configuration with this call; here it has no effect.
        let model = [field(1, b"fetched"), field(2, place.as_bytes())].concat();
        let reload = field(1, &field(1, &field(1, &model)));
        let load = [field(2, b"fetched"), field(1, place.as_bytes())].concat();
        let service = "/inference.GRPCInferenceService";
        let calls = [
            Call::of(
                "/tensorflow.serving.ModelService/HandleReloadConfigRequest",
                reload,
            ),
            Call::of(&format!("{service}/RepositoryModelLoad"), load.clone()),
            Call::of(
                &format!("{service}/SystemSharedMemoryRegister"),
                load.clone(),
            ),
            Call::of(&format!("{service}/CudaSharedMemoryRegister"), load.clone()),
            Call::of(&format!("{service}/TraceSetting"), load),
        ];
        let answers = wire::send(server, &calls);
        assert!(answers[0].is_ok());
        assert!(answers[1..].iter().all(Result::is_err));
        // As names, and as the bytes of an image.
        let mut request = dummy();
        request.model_name.clone_from(&place);
        grpc.refused(request);
        let image = framed(&[place.as_bytes()]);
        grpc.refused(raw("image_any", "image", "BYTES", &[1], &image));
        // In bodies and headers of REST.
        let config = format!(
            r#"{{"model_config_list":[{{"config":{{"name":"fetched","base_path":"{place}"}}}}]}}"#
        );
        for path in [
            "/v1/config/reload",
            "/v2/repository/index",
            "/v2/repository/models/fetched/load",
        ] {
            post(server, path, config.as_bytes());
        }
        let url = format!(r#"{{"instances":[{{"image":{{"url":"{place}"}}}}]}}"#);
        let answer = post(server, "/v1/models/image_any:predict", url.as_bytes());
        assert_eq!(answer.status, 400, "{}", answer.text());
        for header in [
            "Referer",
            "X-Callback-URL",
            "traceparent",
            "Link",
            "SOAPAction",
        ] {
            send(server, "GET", "/v2/health/live", &[(header, &place)], b"");
        }
        get(server, &place);
    }
    assert_eq!(get(server, "/v1/models/fetched").status, 404);
    bait.check();
}

#[test]
fn a_configuration_fetches_from_storages_in_the_cloud_and_nowhere_else() {
    let bait = Bait::set();
    let cloud = ["s3://", "gs://", "az://"];
    let mut config = Config::of(&["dummy"]);
    let mut names = Vec::new();
    for (number, place) in bait.places().into_iter().enumerate() {
        if !cloud.iter().any(|scheme| place.starts_with(scheme)) {
            let name = format!("fetched{number}");
            config.model(&name, Path::new(&place));
            names.push(name);
        }
    }
    let server = config.serve();
    for name in names {
        let status = get(&server, &format!("/v1/models/{name}"));
        assert!(!status.text().contains("AVAILABLE"), "{}", status.text());
    }
    Grpc::connect(&server).check_serves();
    bait.check();
}
