//! Device strings, and the properties of the devices that they name.
//!
//! `AUTO:GPU,CPU` is a device that hands models on to others. Properties can be set for AUTO or
//! for CPU, never for the string as a whole, so each goes to those of its devices that know it.

use openvino::PropertyKey;
use serde_json::{Map, Value};

use super::{error::ModelLoadError, ffi::Core};
use crate::error::nearest;

/// Devices that hand models on to others.
const COMPOSED: [&str; 4] = ["AUTO", "MULTI", "HETERO", "BATCH"];

/// Properties of the runtime itself: no device lists them, and all take them.
const OF_RUNTIME: [&str; 2] = ["ENABLE_MMAP", "CACHE_DIR"];

/// The property whose value is an object of properties for each device.
const NESTED: &str = "DEVICE_PROPERTIES";

/// A device that properties can be set for, and the names of those that it knows.
struct Device {
    name: String,
    known: Vec<String>,
}

/// The devices that a device string names.
struct Devices<'a> {
    text: &'a str,
    list: Vec<Device>,
    /// Indicates that all of the devices exist. If not, the call that compiles reports it, or does without.
    complete: bool,
}

/// Sets the properties of a model's devices, each where it belongs.
pub(super) fn set_properties(
    core: &mut Core,
    device: &str,
    properties: &[(String, String)],
) -> Result<(), ModelLoadError> {
    let devices = devices_of(core, device)?;
    for (key, value) in properties {
        if key == NESTED {
            set_nested(core, &devices, value)?;
        } else {
            set(core, &devices, key, value)?;
        }
    }
    Ok(())
}

/// Sets a property of the runtime itself, for all devices. `device` is the one that the model is
/// for.
pub(super) fn set_of_runtime(
    core: &mut Core,
    device: &str,
    key: &str,
    value: &str,
) -> Result<(), ModelLoadError> {
    // The runtime takes a device without a name for all of them.
    set_on(core, ("", device), key, value)
}

/// Lists the devices of this machine; none if the runtime does not say.
pub(super) fn available(core: &Core) -> Vec<String> {
    core.available_devices().unwrap_or_default()
}

/// Returns the device for a model whose infer requests keep state: the CPU, since others, and
/// those that hand requests on to others, keep none from one run to the next.
pub(super) fn of_stateful(device: &str) -> Result<&'static str, ModelLoadError> {
    const CPU: &str = "CPU";
    let (front, below) = split(device);
    let is_cpu = |name: &str| name.split(['.', '(']).next() == Some(CPU);
    let alone = if front == "BATCH" {
        false
    } else if !COMPOSED.contains(&front) {
        is_cpu(front)
    } else if below.is_empty() {
        // Any of this machine's, save those that are left out.
        let list = device.split_once(':').map_or("", |(_, list)| list);
        let left_out: Vec<&str> = list
            .split(',')
            .filter_map(|name| name.trim().strip_prefix('-'))
            .collect();
        let core = Core::new().map_err(|error| ModelLoadError::Runtime(error.into()))?;
        let devices = available(&core);
        let mut devices = devices.iter().filter(|device| {
            let kind = device.split('.').next().unwrap_or_default();
            !left_out.contains(&kind) && !left_out.contains(&device.as_str())
        });
        devices.clone().next().is_some() && devices.all(|device| is_cpu(device))
    } else {
        below.iter().all(|device| is_cpu(device))
    };
    if alone {
        return Ok(CPU);
    }
    Err(ModelLoadError::unfit(format!(
        "Stateful models are supported only on CPU - found the device `{device}`"
    )))
}

/// Takes a device string apart and asks each device for the properties that it knows.
fn devices_of<'a>(core: &Core, text: &'a str) -> Result<Devices<'a>, ModelLoadError> {
    let unknown = |source: Option<openvino::InferenceError>| ModelLoadError::Device {
        device: text.escape_debug().to_string(),
        known: available(core),
        source: source.map(Into::into),
    };
    let (front, below) = split(text);
    // The runtime takes an empty name for all devices, and no text with a zero character.
    if front.is_empty() || text.contains('\0') {
        return Err(unknown(None));
    }
    let known = ask(core, front).map_err(|error| unknown(Some(error)))?;
    let mut devices = Devices {
        text,
        list: vec![Device {
            name: front.to_owned(),
            known,
        }],
        complete: true,
    };
    let below = if below.is_empty() && COMPOSED.contains(&front) {
        available(core)
    } else {
        below
    };
    let mut missing = None;
    for name in below {
        match ask(core, &name) {
            Ok(known) => devices.list.push(Device { name, known }),
            // These take no less than all that they are given.
            Err(error) if ["HETERO", "BATCH"].contains(&front) => {
                return Err(unknown(Some(error)));
            }
            Err(error) => missing = Some(error),
        }
    }
    devices.complete = missing.is_none();
    match missing {
        Some(error) if devices.list.len() == 1 => Err(unknown(Some(error))),
        _ => Ok(devices),
    }
}

/// Takes a device string apart: `BATCH:CPU(4)` is BATCH over CPU, `AUTO:-GPU` AUTO over what there
/// is.
fn split(text: &str) -> (&str, Vec<String>) {
    let Some((front, list)) = text.split_once(':') else {
        return (text, Vec::new());
    };
    let below = list
        .split(',')
        .map(|name| name.split('(').next().unwrap_or_default().trim())
        .filter(|name| !name.is_empty() && !name.starts_with('-'))
        .map(ToOwned::to_owned)
        .collect();
    (front, below)
}

/// Asks a device for the properties that it knows. The device is made for that, which it would be
/// for the model anyway; from then on it checks each property that is set.
fn ask(core: &Core, device: &str) -> Result<Vec<String>, openvino::InferenceError> {
    let known = core.get_property(device, &PropertyKey::SupportedProperties)?;
    Ok(known.split_whitespace().map(ToOwned::to_owned).collect())
}

/// Sets a property for each device that knows it.
fn set(
    core: &mut Core,
    devices: &Devices<'_>,
    key: &str,
    value: &str,
) -> Result<(), ModelLoadError> {
    if OF_RUNTIME.contains(&key) {
        return set_of_runtime(core, devices.text, key, value);
    }
    let mut found = false;
    for device in &devices.list {
        if device.known.iter().any(|known| known == key) {
            set_on(core, (&device.name, &device.name), key, value)?;
            found = true;
        }
    }
    // A device that is not there might know it.
    if found || !devices.complete {
        return Ok(());
    }
    let known = devices.list.iter().flat_map(|device| &device.known);
    let instead = match (successor(key), nearest(key, known.map(String::as_str))) {
        (Some(successor), _) => format!(", which is of older releases; {successor} instead"),
        (None, Some(nearest)) => format!("; did you mean {nearest}?"),
        (None, None) => String::new(),
    };
    Err(ModelLoadError::UnknownProperty {
        device: devices.text.to_owned(),
        key: key.escape_debug().to_string(),
        instead,
    })
}

/// Returns the successor of a property of older releases.
fn successor(key: &str) -> Option<&'static str> {
    match key.strip_prefix("KEY_").unwrap_or(key) {
        "CPU_BIND_THREAD" | "AFFINITY" => Some("use ENABLE_CPU_PINNING (YES or NO)"),
        "ENFORCE_BF16" => Some("use INFERENCE_PRECISION_HINT (bf16 or f32)"),
        "CPU_THREADS_NUM" => Some("use INFERENCE_NUM_THREADS"),
        "CPU_THROUGHPUT_STREAMS" | "GPU_THROUGHPUT_STREAMS" => Some("use NUM_STREAMS"),
        "DYN_BATCH_ENABLED" | "DYN_BATCH_LIMIT" => {
            Some("set a range such as 1:8 as the batch size")
        }
        _ => None,
    }
}

/// Sets a property for a device, which errors may call by another name.
fn set_on(
    core: &mut Core,
    (device, named): (&str, &str),
    key: &str,
    value: &str,
) -> Result<(), ModelLoadError> {
    let refuse = |source| ModelLoadError::Property {
        device: named.to_owned(),
        key: key.escape_debug().to_string(),
        // Shown without the characters that spoil a line of a log.
        value: value.escape_debug().to_string(),
        source,
    };
    if key.contains('\0') || value.contains('\0') {
        return Err(refuse(super::OpenVinoError::new("a character is zero")));
    }
    core.set_property(device, key, value)
        .map_err(|error| refuse(error.into()))
}

/// Sets the properties of `{"CPU":{"NUM_STREAMS":2}}`. The runtime takes such an object only at
/// the call that compiles, which is made without properties here.
fn set_nested(core: &mut Core, devices: &Devices<'_>, text: &str) -> Result<(), ModelLoadError> {
    for (name, properties) in nested(text)? {
        if !devices.list.iter().any(|device| device.name == name) {
            tracing::warn!(
                "{NESTED} has properties for {name}, which {} does not use here; they are ignored",
                devices.text
            );
            continue;
        }
        let alone = devices_of(core, &name)?;
        for (key, value) in properties {
            set(core, &alone, &key, &value)?;
        }
    }
    Ok(())
}

/// Devices and their properties.
type Nested = Vec<(String, Vec<(String, String)>)>;

/// Reads an object of objects; says what is wrong with it.
fn nested(text: &str) -> Result<Nested, ModelLoadError> {
    let fail = |error: String| {
        ModelLoadError::unfit(format!("Model config is invalid - {NESTED}: {error}"))
    };
    let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        fail(format!(
            "expected an object of properties for each device: {error}"
        ))
    })?;
    let mut devices = Nested::new();
    for (device, properties) in object {
        let Value::Object(properties) = properties else {
            return Err(fail(format!(
                "{device} has {properties}; expected an object of properties"
            )));
        };
        let scalars = properties
            .into_iter()
            .map(|(key, value)| Ok((key, scalar(value)?)));
        let properties = scalars.collect::<Result<_, String>>().map_err(fail)?;
        devices.push((device, properties));
    }
    Ok(devices)
}

/// Writes a value as the runtime reads it.
fn scalar(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(true) => Ok("YES".to_owned()),
        Value::Bool(false) => Ok("NO".to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(format!(
            "found {other}; expected a string, number, true or false"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{nested, split};

    #[test]
    fn device_strings_are_taken_apart() {
        let parts = |text| {
            let (front, below) = split(text);
            format!("{front} {}", below.join(" "))
        };
        assert_eq!(parts("CPU"), "CPU ");
        assert_eq!(parts("AUTO:GPU.1,CPU"), "AUTO GPU.1 CPU");
        assert_eq!(parts("AUTO:-GPU, CPU"), "AUTO CPU");
        assert_eq!(parts("BATCH:CPU(4)"), "BATCH CPU");
        assert_eq!(parts("MULTI:GPU(2),CPU(1)"), "MULTI GPU CPU");
        assert_eq!(parts(""), " ");
        assert_eq!(parts("HETERO:"), "HETERO ");
    }

    #[test]
    fn properties_for_each_device_are_read() {
        assert_eq!(
            nested(r#"{"CPU":{"NUM_STREAMS":2,"ENABLE_CPU_PINNING":true}}"#).unwrap(),
            [(
                "CPU".to_owned(),
                vec![
                    ("ENABLE_CPU_PINNING".to_owned(), "YES".to_owned()),
                    ("NUM_STREAMS".to_owned(), "2".to_owned())
                ]
            )]
        );
        let errors = ["{CPU:{}}", r#"{"CPU":1}"#, r#"{"CPU":{"A":[1]}}"#]
            .map(|text| nested(text).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @"
        Model config is invalid - DEVICE_PROPERTIES: expected an object of properties for each device: key must be a string at line 1 column 2
        Model config is invalid - DEVICE_PROPERTIES: CPU has 1; expected an object of properties
        Model config is invalid - DEVICE_PROPERTIES: found [1]; expected a string, number, true or false
        ");
    }
}
