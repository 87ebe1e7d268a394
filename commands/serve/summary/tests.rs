use ovms::openvino::runtime::Device;

use super::{Entry, Place, Summary, Tries};
use crate::setup;

fn model(name: &str, about: &str) -> Entry {
    Entry {
        kind: "model",
        name: name.to_owned(),
        about: about.to_owned(),
        tries: Tries::Random,
    }
}

fn example() -> Summary {
    let place = |port, addresses: &[&str]| {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Place::of(Some(port), &addresses, false)
    };
    let mut summary = Summary {
        openvino: "2026.4.1".to_owned(),
        python: Some("Python 3.11.2".to_owned()),
        grpc: place(9000, &["0.0.0.0"]),
        rest: place(8123, &["127.0.0.1", "192.0.2.1"]),
        management: place(8124, &["127.0.0.1"]),
        grpc_socket: None,
        rest_socket: None,
        has_dashboard: true,
        devices: Vec::new(),
        served: vec![
            model("resnet", ", versions 1 and 3 on CPU"),
            model("vad", ", version 1 on CPU, stateful"),
            Entry {
                kind: "pipeline",
                tries: Tries::Random,
                ..model("ocr", "")
            },
        ],
        missing: 1,
        failed: 1,
        empty: vec!["`face`".to_owned()],
        demo: None,
    };
    summary.devices = setup::named(&[Device {
        name: "CPU".to_owned(),
        full_name: "Some Processor @ 2 GHz".to_owned(),
    }]);
    summary
}

#[test]
fn a_summary_fits_a_terminal() {
    insta::assert_snapshot!(example().drawn(Some(80)), @"

    ovms 0.1.0 serves 2 models and 1 pipeline (1 not served), with OpenVINO 2026.4.1
    and Python 3.11.2
      gRPC        localhost:9000 (all addresses of this machine)
      REST        http://localhost:8123 (127.0.0.1, 192.0.2.1)
      dashboard   http://localhost:8123/dashboard
      management  http://localhost:8124
      devices     CPU (Some Processor @ 2 GHz)
      model       resnet, versions 1 and 3 on CPU
      model       vad, version 1 on CPU, stateful
      pipeline    ocr
      missing     model `face` has no version to serve
                  1 error, see above
      try         ovms infer resnet --random
                  curl http://localhost:8123/v2/models/resnet
    ");
    insta::assert_snapshot!(example().drawn(Some(50)), @"

    ovms 0.1.0 serves 2 models and 1 pipeline (1 not
    served), with OpenVINO 2026.4.1 and Python 3.11.2
      gRPC        localhost:9000 (all addresses of
                  this machine)
      REST        http://localhost:8123 (127.0.0.1,
                  192.0.2.1)
      dashboard   http://localhost:8123/dashboard
      management  http://localhost:8124
      devices     CPU (Some Processor @ 2 GHz)
      model       resnet, versions 1 and 3 on CPU
      model       vad, version 1 on CPU, stateful
      pipeline    ocr
      missing     model `face` has no version to serve
                  1 error, see above
      try         ovms infer resnet --random
                  curl http://localhost:8123/v2/models/resnet
    ");
}

#[test]
fn many_models_are_counted() {
    let mut summary = example();
    summary.served = (0..45)
        .map(|number| model(&format!("m{number:02}"), ""))
        .collect();
    summary.empty = vec!["`x`".to_owned(); 20];
    let drawn = summary.drawn(Some(80));
    assert!(drawn.lines().count() <= 27, "{drawn}");
    assert!(drawn.contains("37 more: ovms infer --status"), "{drawn}");
}

#[test]
fn the_page_is_on_the_management_port_where_there_is_no_other() {
    let mut summary = example();
    summary.rest = None;
    let drawn = summary.drawn(Some(80));
    assert!(
        drawn.contains("dashboard   http://localhost:8124/dashboard\n"),
        "{drawn}"
    );
}

#[test]
fn commands_name_the_server_where_it_is_not_the_usual_one() {
    let mut summary = example();
    assert_eq!(summary.tries(true)[0], "ovms infer resnet --random");
    summary.grpc = Place::of(Some(9001), &["::1".to_owned()], false);
    assert_eq!(
        summary.tries(true)[0],
        "ovms infer resnet --random --url [::1]:9001"
    );
    summary.grpc = None;
    summary.served[0].name = "it's".to_owned();
    assert_eq!(
        summary.tries(true),
        [r"ovms infer 'it'\''s' --random --api kserve-rest --url localhost:8123"]
    );
    summary.rest = None;
    summary.served.clear();
    assert_eq!(summary.tries(true), Vec::<String>::new());
}

#[test]
fn unix_sockets_are_shown_and_tried() {
    let mut summary = example();
    summary.grpc_socket = Some("/run/ovms/grpc.sock".to_owned());
    let drawn = summary.drawn(Some(80));
    let both = "  gRPC        localhost:9000 (all addresses of this machine)\n              \
                unix:/run/ovms/grpc.sock\n";
    assert!(drawn.contains(both), "{drawn}");
    (summary.grpc, summary.rest) = (None, None);
    summary.rest_socket = Some("/run/o v/rest.sock".to_owned());
    assert_eq!(
        summary.tries(true),
        [
            "ovms infer resnet --random --url unix:/run/ovms/grpc.sock",
            "curl --unix-socket '/run/o v/rest.sock' http://localhost/v2/models/resnet"
        ]
    );
    summary.grpc_socket = None;
    assert_eq!(
        summary.tries(true)[0],
        "ovms infer resnet --random --api kserve-rest --url unix:'/run/o v/rest.sock'"
    );
}

#[test]
fn tls_is_in_the_addresses() {
    let mut summary = example();
    summary.grpc = Place::of(Some(9000), &["0.0.0.0".to_owned()], true);
    summary.rest = Place::of(Some(8000), &["127.0.0.1".to_owned()], true);
    let drawn = summary.drawn(Some(80));
    for line in [
        "  gRPC        grpcs://localhost:9000 (all addresses",
        "  REST        https://localhost:8000\n",
        "  dashboard   https://localhost:8000/dashboard\n",
        "  try         ovms infer resnet --random --url grpcs://localhost:9000\n",
        "              curl https://localhost:8000/v2/models/resnet\n",
    ] {
        assert!(drawn.contains(line), "{line}: {drawn}");
    }
}
