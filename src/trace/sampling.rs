//! The choice of the requests that have spans.

use opentelemetry::trace::TraceId;

use super::variables::{Setting, Variables};

/// Decides which requests have spans.
#[derive(Debug)]
pub(super) struct Sampling {
    /// Follows the decision of the client for a request that comes with one.
    pub(super) follows_parent: bool,
    /// Traces whose random number is below are sampled, out of [`RANDOM`].
    below: u64,
}

/// Count of the random numbers that ids of traces have in their last bytes, as OpenTelemetry's samplers read them.
const RANDOM: u64 = 1 << 63;

/// The name of the sampler.
const SAMPLER: Setting<'_> = Setting {
    names: &["OTEL_TRACES_SAMPLER"],
    expected: "always_on, always_off, or traceidratio, also with parentbased_ before it",
    default: "parentbased_always_on",
};

/// The share of all traces that traceidratio takes.
const RATIO: Setting<'_> = Setting {
    names: &["OTEL_TRACES_SAMPLER_ARG"],
    expected: "a number from 0 to 1",
    default: "1",
};

impl Sampling {
    pub(super) fn read<V: Fn(&str) -> Option<String>>(variables: &mut Variables<'_, V>) -> Self {
        let (follows_parent, below) = variables.setting(&SAMPLER, |named| {
            let (follows_parent, name) = match named.strip_prefix("parentbased_") {
                Some(name) => (true, name),
                None => (false, named),
            };
            let below = match name {
                "always_on" => Some(RANDOM),
                "always_off" => Some(0),
                // As the variable beside it says.
                "traceidratio" => None,
                _ => return None,
            };
            Some((follows_parent, below))
        });
        let below = below.unwrap_or_else(|| {
            share(variables.setting(&RATIO, |text| {
                let ratio = text.parse::<f64>().ok();
                ratio.filter(|ratio| (0.0..=1.0).contains(ratio))
            }))
        });
        Self {
            follows_parent,
            below,
        }
    }

    /// Decides by the id of a trace.
    pub(super) fn takes(&self, trace: TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace.to_bytes();
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.below
    }
}

/// Returns below which number the ids of a share of all traces are.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share is from 0 to 1"
)]
fn share(ratio: f64) -> u64 {
    (ratio * RANDOM as f64) as u64
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TraceId;

    use super::{Sampling, Variables};

    fn read(variables: &[(&str, &str)], warnings: &mut Vec<String>) -> Sampling {
        let variable = |name: &str| {
            let mut known = variables.iter().filter(|(known, _)| *known == name);
            known.next().map(|(_, value)| (*value).to_owned())
        };
        Sampling::read(&mut Variables::new(variable, warnings))
    }

    #[test]
    fn samplers_are_those_of_the_variables() {
        let sampling = |sampler: &str, argument: &str| {
            let variables = [
                ("OTEL_TRACES_SAMPLER", sampler),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            let mut warnings = Vec::new();
            let sampling = read(&variables, &mut warnings);
            (sampling, warnings.len())
        };
        let low = TraceId::from(1_u128);
        let high = TraceId::from(u128::MAX);
        for (sampler, argument, follows, takes, warnings) in [
            ("", "", true, [true, true], 0),
            ("always_on", "", false, [true, true], 0),
            ("parentbased_always_off", "", true, [false, false], 0),
            ("traceidratio", "0.5", false, [true, false], 0),
            ("parentbased_traceidratio", "0", true, [false, false], 0),
            ("parentbased_traceidratio", "1.5", true, [true, true], 1),
            ("parentbased_traceidratio", "x", true, [true, true], 1),
            ("xray", "", true, [true, true], 1),
        ] {
            let (sampling, warned) = sampling(sampler, argument);
            let taken = [sampling.takes(low), sampling.takes(high)];
            assert_eq!(
                (sampling.follows_parent, taken, warned),
                (follows, takes, warnings),
                "{sampler} {argument}"
            );
        }
    }

    #[test]
    fn shares_are_those_of_other_services() {
        use opentelemetry::trace::SpanKind;
        use opentelemetry_sdk::trace::{
            IdGenerator as _, RandomIdGenerator, Sampler, SamplingDecision, ShouldSample as _,
        };
        let ids = RandomIdGenerator::default();
        for ratio in [0.0, 1e-9, 0.01, 0.5, 0.99, 1.0] {
            let text = ratio.to_string();
            let variables = [
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_TRACES_SAMPLER_ARG", text.as_str()),
            ];
            let sampling = read(&variables, &mut Vec::new());
            let theirs = Sampler::TraceIdRatioBased(ratio);
            for _ in 0..1000 {
                let id = ids.new_trace_id();
                let result = theirs.should_sample(None, id, "", &SpanKind::Server, &[], &[]);
                let sampled = result.decision == SamplingDecision::RecordAndSample;
                assert_eq!(sampling.takes(id), sampled, "{ratio} {id}");
            }
        }
    }
}
