//! `mean`, `scale`, `color_format` and `precision`: their texts.

use crate::{
    openvino::{ColorFormat, Conversion, PerChannel, Precision, Preprocessing},
    tensor::DataType,
};

/// A text that does not say how an input is preprocessed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The provided {key} is in wrong format - found `{found}`; expected {}",
    expected(key)
)]
pub struct PreprocessingError {
    /// The setting.
    pub key: &'static str,
    /// The text.
    pub found: String,
}

/// The settings, as texts by key.
pub(super) const KEYS: [&str; 4] = ["mean", "scale", "color_format", "precision"];

fn expected(key: &str) -> &'static str {
    match key {
        "mean" => "a number, or one for each channel, such as (123.7,116.8,103.9)",
        "scale" => "a number that is not 0, or one for each channel, such as (58.4,57.1,57.4)",
        "color_format" => {
            "TARGET or TARGET:SOURCE of RGB, BGR, GRAY, NV12, NV12_2, I420, I420_3, where SOURCE is what \
             clients send"
        }
        _ => {
            "TARGET or TARGET:SOURCE of fp64, fp32, fp16, bf16, int8, int16, int32, int64, uint1, uint8, \
             uint16, uint32, uint64, where SOURCE is what clients send"
        }
    }
}

/// Reads one of the settings; an empty text sets nothing.
pub(super) fn read(
    into: &mut Preprocessing,
    key: &'static str,
    text: &str,
) -> Result<(), PreprocessingError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let error = || PreprocessingError {
        key,
        found: text.to_owned(),
    };
    match key {
        "mean" => into.mean = Some(numbers(text).ok_or_else(error)?),
        "scale" => {
            let divides = |number: &f32| *number != 0.0;
            let scale = numbers(text).filter(|scale| match scale {
                PerChannel::All(number) => divides(number),
                PerChannel::Each(numbers) => numbers.iter().all(divides),
            });
            into.scale = Some(scale.ok_or_else(error)?);
        }
        "color_format" => into.color = Some(conversion(text, color).ok_or_else(error)?),
        _ => into.precision = Some(conversion(text, precision).ok_or_else(error)?),
    }
    Ok(())
}

/// Reads `1.5`, `(1,2,3)` or `[1,2,3]`.
fn numbers(text: &str) -> Option<PerChannel> {
    let text = text.trim();
    let finite = |number: &str| {
        let number: f32 = number.trim().parse().ok()?;
        number.is_finite().then_some(number)
    };
    let inner = |open, close| text.strip_prefix(open)?.strip_suffix(close);
    match inner('(', ')').or_else(|| inner('[', ']')) {
        Some(list) => {
            let numbers = list.split(',').map(finite).collect::<Option<_>>()?;
            Some(PerChannel::Each(numbers))
        }
        None => finite(text).map(PerChannel::All),
    }
}

/// Reads `TARGET` or `TARGET:SOURCE`.
fn conversion<T: Copy>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Conversion<T>> {
    let (target, source) = text.split_once(':').unwrap_or((text, text));
    Some(Conversion {
        source: read(source.trim())?,
        target: read(target.trim())?,
    })
}

fn color(name: &str) -> Option<ColorFormat> {
    Some(match name.to_ascii_uppercase().as_str() {
        "RGB" => ColorFormat::Rgb,
        "BGR" => ColorFormat::Bgr,
        "GRAY" => ColorFormat::Gray,
        "NV12" => ColorFormat::Nv12,
        "NV12_2" => ColorFormat::Nv12Planes,
        "I420" => ColorFormat::I420,
        "I420_3" => ColorFormat::I420Planes,
        _ => return None,
    })
}

fn precision(name: &str) -> Option<Precision> {
    match name.to_ascii_uppercase().as_str() {
        "UINT1" => Some(Precision::Bit),
        "BOOL" | "BYTES" => None,
        name => DataType::from_kserve(name).map(Precision::Type),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::openvino::{ColorFormat, Conversion, PerChannel, Precision, Preprocessing};
    use crate::tensor::DataType;

    fn with(key: &'static str, text: &str) -> Result<Preprocessing, String> {
        let mut into = Preprocessing::default();
        read(&mut into, key, text).map_err(|error| error.to_string())?;
        Ok(into)
    }

    #[test]
    fn every_form_is_read() {
        let numbers = |text| with("mean", text).unwrap().mean.unwrap();
        assert_eq!(numbers("123.7"), PerChannel::All(123.7));
        assert_eq!(numbers("-1"), PerChannel::All(-1.0));
        let three = PerChannel::Each(vec![1.0, 2.5, 3.0]);
        assert_eq!(numbers("(1, 2.5,3)"), three);
        assert_eq!(numbers(" [1,2.5,3] "), three);
        assert_eq!(numbers("(7)"), PerChannel::Each(vec![7.0]));
        let color = |text| with("color_format", text).unwrap().color.unwrap();
        let (rgb, bgr) = (ColorFormat::Rgb, ColorFormat::Bgr);
        let same = Conversion {
            source: rgb,
            target: rgb,
        };
        assert_eq!(color("RGB"), same);
        let turned = Conversion {
            source: bgr,
            target: rgb,
        };
        assert_eq!(color("RGB:BGR"), turned, "the client sends what is behind");
        assert_eq!(color("rgb:NV12_2").source, ColorFormat::Nv12Planes);
        let precision = with("precision", "fp32:uint8").unwrap().precision.unwrap();
        assert_eq!(precision.source, Precision::Type(DataType::U8));
        assert_eq!(precision.target, Precision::Type(DataType::F32));
        assert!(with("scale", " ").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for (key, texts) in [
            (
                "mean",
                &["x", "1,2", "(1,2", "()", "(1,,2)", "inf", "NaN", "1e39"][..],
            ),
            ("scale", &["0", "(1,0,1)", "[1 2]"]),
            ("color_format", &["RGBA", "RGB:", ":RGB", "RGB:BGR:RGB"]),
            ("precision", &["float", "fp32:", "int4", "fp32:u8"]),
        ] {
            for text in texts {
                let error = with(key, text).unwrap_err();
                let start = format!("The provided {key} is in wrong format - found `{text}`; ");
                assert!(error.starts_with(&start), "{error}");
            }
        }
    }
}
