//! `plugin_config`: device properties as a JSON object, with the keys of older releases.

use serde_json::{Map, Value};

/// Reads the text of the flag and adds the default: low latency, unless streams or a hint are set.
/// `DEVICE_PROPERTIES` may hold an object for each device, which is passed on as JSON.
///
/// For low latency on the CPU, threads are not pinned to cores, unless that is asked for: the
/// runtime pins whichever thread calls it and lets it go again, twice a system call for each
/// inference, and moves the server's threads about. Measured with a tiny model and 16 clients:
/// 23,000 requests/s pinned, 31,000–37,000 not; a ResNet-50 takes the same time either way.
///
/// # Errors
///
/// Fails with what is wrong with the text.
pub(super) fn properties(
    device: &str,
    text: Option<&str>,
) -> Result<Vec<(String, String)>, String> {
    let object: Map<String, Value> = match text {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| format!("expected a JSON object of properties: {error}"))?,
        None => Map::new(),
    };
    let mut pairs = Vec::new();
    for (key, value) in object {
        let value = match value {
            Value::String(text) => text,
            Value::Bool(value) => flag(value).to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Object(devices) if key == "DEVICE_PROPERTIES" => {
                Value::Object(devices).to_string()
            }
            other => {
                return Err(format!(
                    "property {key} is {other}; expected a string, number, true or false"
                ));
            }
        };
        pairs.push((key, value));
    }
    Ok(complete(device, pairs))
}

/// Returns a truth value as the runtime writes it.
pub(super) fn flag(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}

/// Translates old keys, and adds defaults.
pub(super) fn complete(device: &str, pairs: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut properties: Vec<(String, String)> = pairs
        .into_iter()
        .map(|(key, value)| modern(key, value))
        .collect();
    let value = |wanted: &str| {
        let found = properties.iter().find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.clone())
    };
    let hint = value("PERFORMANCE_HINT");
    let streams = value("NUM_STREAMS");
    let pinning = value("ENABLE_CPU_PINNING");
    if hint.is_none() && streams.is_none() {
        properties.push(("PERFORMANCE_HINT".to_owned(), "LATENCY".to_owned()));
    }
    let low_latency = streams.is_none() && hint.is_none_or(|hint| hint == "LATENCY");
    if device == "CPU" && low_latency && pinning.is_none() {
        properties.push(("ENABLE_CPU_PINNING".to_owned(), "NO".to_owned()));
    }
    properties
}

/// Translates the keys of older OpenVINO releases that mean the same as newer ones, also with the
/// prefix of their names in programs. Others are left for the device to refuse, with their successors.
fn modern(key: String, value: String) -> (String, String) {
    let new = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let old = key.strip_prefix("KEY_").unwrap_or(&key);
    match (old, &*value) {
        (
            "CPU_THROUGHPUT_STREAMS" | "GPU_THROUGHPUT_STREAMS",
            "CPU_THROUGHPUT_AUTO" | "GPU_THROUGHPUT_AUTO",
        ) => new("PERFORMANCE_HINT", "THROUGHPUT"),
        ("CPU_THROUGHPUT_STREAMS" | "GPU_THROUGHPUT_STREAMS", _) => new("NUM_STREAMS", &value),
        ("CPU_THREADS_NUM", _) => new("INFERENCE_NUM_THREADS", &value),
        // It has two more values, which nothing is the same as.
        ("CPU_BIND_THREAD", "YES" | "NO") => new("ENABLE_CPU_PINNING", &value),
        _ => (key, value),
    }
}

#[cfg(test)]
mod tests {
    use super::properties;

    fn pairs(text: &str) -> String {
        properties("CPU", Some(text))
            .unwrap()
            .iter()
            .map(|(key, value)| format!("{key}={value};"))
            .collect()
    }

    #[test]
    fn low_latency_is_the_default() {
        assert_eq!(
            pairs("{}"),
            "PERFORMANCE_HINT=LATENCY;ENABLE_CPU_PINNING=NO;"
        );
        assert_eq!(
            pairs(r#"{"ENABLE_CPU_PINNING":true}"#),
            "ENABLE_CPU_PINNING=YES;PERFORMANCE_HINT=LATENCY;"
        );
        assert_eq!(
            pairs(r#"{"PERFORMANCE_HINT":"LATENCY"}"#),
            "PERFORMANCE_HINT=LATENCY;ENABLE_CPU_PINNING=NO;"
        );
        let throughput = r#"{"PERFORMANCE_HINT":"THROUGHPUT"}"#;
        assert_eq!(pairs(throughput), "PERFORMANCE_HINT=THROUGHPUT;");
        assert_eq!(pairs(r#"{"NUM_STREAMS":2}"#), "NUM_STREAMS=2;");
        assert_eq!(
            properties("AUTO", None).unwrap(),
            [("PERFORMANCE_HINT".to_owned(), "LATENCY".to_owned())]
        );
    }

    #[test]
    fn old_keys_become_new_ones() {
        assert_eq!(
            pairs(r#"{"CPU_THROUGHPUT_STREAMS":"4","CPU_THREADS_NUM":1}"#),
            "INFERENCE_NUM_THREADS=1;NUM_STREAMS=4;"
        );
        assert_eq!(
            pairs(r#"{"CPU_THROUGHPUT_STREAMS":"CPU_THROUGHPUT_AUTO"}"#),
            "PERFORMANCE_HINT=THROUGHPUT;"
        );
        assert_eq!(
            pairs(r#"{"KEY_CPU_BIND_THREAD":true,"KEY_CPU_THREADS_NUM":"2"}"#),
            "ENABLE_CPU_PINNING=YES;INFERENCE_NUM_THREADS=2;PERFORMANCE_HINT=LATENCY;"
        );
        assert_eq!(
            pairs(r#"{"CPU_BIND_THREAD":"NUMA","KEY_X":1,"NUM_STREAMS":1}"#),
            "CPU_BIND_THREAD=NUMA;KEY_X=1;NUM_STREAMS=1;"
        );
    }

    #[test]
    fn what_is_no_property_is_named() {
        assert!(
            properties("CPU", Some("[1]"))
                .unwrap_err()
                .starts_with("expected a JSON object")
        );
        assert_eq!(
            properties("CPU", Some(r#"{"A":[1]}"#)).unwrap_err(),
            "property A is [1]; expected a string, number, true or false"
        );
    }
}
