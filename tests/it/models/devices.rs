//! Devices composed of others, and their properties.

use ovms::{
    openvino::{BatchOption, LoadOptions},
    tensor::Dim,
};

use crate::support::{
    loaded::{infer, load, options},
    model, repository,
};

/// One device of each kind; `AUTO:-GPU,CPU` is all but the GPU.
const DEVICES: [&str; 7] = [
    "CPU",
    "AUTO",
    "AUTO:CPU",
    "AUTO:-GPU,CPU",
    "HETERO:CPU",
    "MULTI:CPU",
    "BATCH:CPU(4)",
];

fn with(device: &str, properties: &[(&str, &str)]) -> LoadOptions {
    let properties = properties
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    LoadOptions {
        device: device.to_owned(),
        properties: properties.collect(),
        nireq: 0,
        ..options()
    }
}

/// Loads `fullsize` and returns the optimal number of slots of the device. Its tensors are too
/// large for one slot per core.
fn slots(device: &str, properties: &[(&str, &str)]) -> usize {
    let options = LoadOptions {
        batch: Some(BatchOption::Dim(Dim::Fixed(4))),
        ..with(device, properties)
    };
    match load(&model("fullsize"), &options, &[]) {
        Ok(model) => model.runner.slots(),
        Err(error) => panic!("{device} {properties:?}: {}", ovms::error::chain(&error)),
    }
}

/// Returns the error for invalid options, with its causes.
fn refused(device: &str, properties: &[(&str, &str)]) -> String {
    match load(&model("dummy"), &with(device, properties), &[]) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => ovms::error::chain(&error),
    }
}

#[test]
fn every_kind_of_device_string_serves() {
    for device in DEVICES {
        let defaults = [
            ("INFERENCE_PRECISION_HINT", "f32"),
            ("PERFORMANCE_HINT", "LATENCY"),
        ];
        let dummy = match load(&model("dummy"), &with(device, &defaults), &[]) {
            Ok(dummy) => dummy,
            Err(error) => panic!("{device}: {}", ovms::error::chain(&error)),
        };
        let outputs = infer(&dummy, &[("b", &[1, 10], &[0.3; 10])]).unwrap();
        assert_eq!(outputs, [(vec![1, 10], vec![1.3; 10])], "{device}");
    }
}

#[test]
fn properties_reach_the_device_that_knows_them() {
    // Two streams need two cores, and give two slots.
    let streams = std::thread::available_parallelism().unwrap().get().min(2);
    let two = ("NUM_STREAMS", "2");
    let latency = ("PERFORMANCE_HINT", "LATENCY");
    for device in DEVICES {
        assert_eq!(slots(device, &[latency]), 1, "{device}");
        assert_eq!(slots(device, &[latency, two]), streams, "{device}");
        let nested = ("DEVICE_PROPERTIES", r#"{"CPU":{"NUM_STREAMS":2}}"#);
        assert_eq!(slots(device, &[latency, nested]), streams, "{device}");
    }
    // The composed device hands its own hint on.
    assert_eq!(
        slots("AUTO:CPU", &[("PERFORMANCE_HINT", "THROUGHPUT")]),
        streams
    );
}

#[test]
fn requests_are_put_into_one_batch_by_a_device_that_does_so() {
    let dummy = load(&model("dummy"), &with("BATCH:CPU(64)", &[]), &[]).unwrap();
    assert_eq!(dummy.runner.slots(), 64);
}

#[test]
fn properties_of_the_runtime_itself_are_always_taken() {
    for device in ["CPU", "AUTO:CPU", "HETERO:CPU"] {
        let dummy = load(
            &model("dummy"),
            &with(device, &[("ENABLE_MMAP", "NO")]),
            &[],
        );
        assert!(dummy.is_ok(), "{device}");
    }
}

#[test]
fn properties_for_a_device_that_is_not_used_are_passed_over() {
    let nested = r#"{"GPU":{"NUM_STREAMS":2}}"#;
    assert_eq!(slots("AUTO:CPU", &[("DEVICE_PROPERTIES", nested)]), 1);
}

#[test]
fn properties_that_no_device_knows_are_refused_by_name() {
    let nested = |text| refused("AUTO:CPU", &[("DEVICE_PROPERTIES", text)]);
    let errors = [
        refused("CPU", &[("NUM_STREAM", "2")]),
        refused("CPU", &[("ZEBRA", "2")]),
        refused("AUTO:CPU", &[("PERFORMANCE_HINTS", "LATENCY")]),
        refused("HETERO:CPU", &[("num_streams", "2")]),
        refused("CPU", &[("NUM_STREAMS", "many")]),
        refused("CPU", &[("NUM_STREAMS", "2\0")]),
        refused("CPU", &[("FULL_DEVICE_NAME", "x")]),
        refused("CPU", &[("ENABLE_MMAP", "x")]),
        nested("{CPU:{NUM_STREAMS:2}}"),
        nested(r#"{"CPU":{"NUM_STREAM":2}}"#),
        nested(r#"{"CPU":2}"#),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    Model config is invalid - device CPU has no property NUM_STREAM; did you mean NUM_STREAMS?
    Model config is invalid - device CPU has no property ZEBRA
    Model config is invalid - device AUTO:CPU has no property PERFORMANCE_HINTS; did you mean PERFORMANCE_HINT?
    Model config is invalid - device HETERO:CPU has no property num_streams; did you mean NUM_STREAMS?
    Model config is invalid - device CPU refuses property NUM_STREAMS=many: Could not read number of streams from str: many; stoi
    Model config is invalid - device CPU refuses property NUM_STREAMS=2\0: a character is zero
    Model config is invalid - device CPU refuses property FULL_DEVICE_NAME=x: NotFound: Unsupported property FULL_DEVICE_NAME by CPU plugin.
    Model config is invalid - device CPU refuses property ENABLE_MMAP=x: Could not convert to bool from string x
    Model config is invalid - DEVICE_PROPERTIES: expected an object of properties for each device: key must be a string at line 1 column 2
    Model config is invalid - device CPU has no property NUM_STREAM; did you mean NUM_STREAMS?
    Model config is invalid - DEVICE_PROPERTIES: CPU has 2; expected an object of properties
    "#);
}

#[test]
fn properties_of_older_releases_are_refused_with_what_has_taken_their_place() {
    let errors = [
        ("CPU_BIND_THREAD", "NUMA"),
        ("ENFORCE_BF16", "YES"),
        ("AFFINITY", "CORE"),
        ("KEY_DYN_BATCH_ENABLED", "YES"),
    ]
    .map(|property| refused("CPU", &[property]));
    insta::assert_snapshot!(errors.join("\n"), @"
    Model config is invalid - device CPU has no property CPU_BIND_THREAD, which is of older releases; use ENABLE_CPU_PINNING (YES or NO) instead
    Model config is invalid - device CPU has no property ENFORCE_BF16, which is of older releases; use INFERENCE_PRECISION_HINT (bf16 or f32) instead
    Model config is invalid - device CPU has no property AFFINITY, which is of older releases; use ENABLE_CPU_PINNING (YES or NO) instead
    Model config is invalid - device CPU has no property KEY_DYN_BATCH_ENABLED, which is of older releases; set a range such as 1:8 as the batch size instead
    ");
}

#[test]
fn devices_that_are_not_there_are_refused() {
    let hint = [("PERFORMANCE_HINT", "LATENCY")];
    let errors = ["TOASTER", "", "CPU\0", "AUTO:TOASTER", "HETERO:TOASTER"]
        .map(|device| refused(device, &hint));
    insta::assert_snapshot!(errors.join("\n"), @r#"
    cannot use device `TOASTER`: Device with "TOASTER" name is not registered in the OpenVINO Runtime
    cannot use device ``
    cannot use device `CPU\0`
    cannot use device `AUTO:TOASTER`: Device with "TOASTER" name is not registered in the OpenVINO Runtime
    cannot use device `HETERO:TOASTER`: Device with "TOASTER" name is not registered in the OpenVINO Runtime
    "#);
}

#[test]
fn an_extension_that_is_none_is_reported() {
    let root = repository::folder();
    let path = root.path().join("more.so");
    std::fs::write(&path, "no library").unwrap();
    let options = LoadOptions {
        cpu_extension: Some(path.clone()),
        ..with("CPU", &[])
    };
    let error = load(&model("dummy"), &options, &[]).err().unwrap();
    let text = ovms::error::chain(&error).replace(path.to_str().unwrap(), "<file>");
    insta::assert_snapshot!(text, @r#"cannot load the CPU extension <file>: Cannot add extension. Cannot find entry point to the extension library. This error happened: Cannot load library "<file>": <file>: file too short"#);
}
