//! Flags of Triton's `perf_analyzer` and of load generators for HTTP, and what to write in place of them.

/// Advice for a number of requests.
pub(super) const NO_COUNT: &str =
    "write `--duration TIME`; `ovms infer MODEL --random --repeat N` measures N requests";

/// Flags that are none here, each with the next step. Those with the same meaning under another name are aliases
/// in the arguments.
const FLAGS: &[(&[&str], &str)] = &[
    (&["-m", "--model-name"], "write `ovms bench MODEL`"),
    (&["-x"], "write `--model-version N`"),
    (&["-u"], "write `--url HOST:PORT`"),
    (
        &["--service-kind"],
        "leave it out: the server is one that `--url` names, with `--api kserve-grpc`, `kserve-rest`, `tfs-grpc`, or \
         `tfs-rest`",
    ),
    (
        &["-b", "--batch-size", "--batch"],
        "write `--shape INPUT:N,…`, with the batch size as the first length",
    ),
    (&["-p"], "write `--interval TIME`, such as 5s for `-p 5000`"),
    (&["-s"], "write `--stability PERCENT`"),
    (&["-r"], "write `--max-trials N`"),
    (
        &["-t", "-c", "--clients", "--connections"],
        "write `--concurrency N`",
    ),
    (
        &["-d", "-z", "--time"],
        "write `--duration TIME`, such as 10s",
    ),
    (&["--qps", "-R"], "write `--rate N`"),
    (
        &["-l", "--latency-threshold"],
        "write `--fail-if 'p99>20ms'`; all levels are measured",
    ),
    (
        &["--binary-search"],
        "leave it out: `--concurrency 1:64` measures level after level, and `--fail-if 'p99>20ms'` names those beyond a limit",
    ),
    (
        &["--percentile"],
        "leave it out: p50, p90, p95, and p99 are in every report, and windows agree by rate and mean latency; \
         `--fail-if 'p95>20ms'` is a limit",
    ),
    (
        &["--request-distribution"],
        "write `--poisson` for `poisson`; without it requests come at equal intervals",
    ),
    (
        &["--request-intervals"],
        "write `--rate N --poisson`; recorded intervals are not replayed",
    ),
    (
        &["--measurement-mode", "--measurement-request-count"],
        "write `--interval TIME`: windows are measured in time, not in requests",
    ),
    (
        &["--request-count", "-n", "--count", "--num-requests"],
        NO_COUNT,
    ),
    (&["--warmup-request-count"], "write `--warmup N`"),
    (
        &["--input-data"],
        "write `--requests FILE` with one request in each line, `-i INPUT=@FILE` for one value, `--zeros`, or `--random`",
    ),
    (
        &["--string-data", "--string-length"],
        "write `-i 'INPUT=[\"TEXT\"]'`",
    ),
    (
        &["--streaming"],
        "write `--stream`, and `--stream --responses end` for a generator, which Triton calls decoupled",
    ),
    (
        &["--sync", "--async", "-a"],
        "leave it out: as many requests are in flight as `--concurrency` says, or as are due with `--rate`",
    ),
    (
        &["--shared-memory", "--output-shared-memory-size"],
        "leave it out: tensors go with the requests; `perf_analyzer` itself works with this server's shared memory",
    ),
    (
        &["--max-threads", "--num-threads"],
        "leave it out: one thread sends all; `--max-in-flight N` bounds the requests of `--rate`",
    ),
    (
        &[
            "-f",
            "--filename",
            "--latency-report-file",
            "--profile-export-file",
        ],
        "write `--output csv > FILE`, `--save FILE` for JSON, or `--html FILE`",
    ),
    (
        &["--verbose-csv"],
        "write `--output csv`, which has all columns",
    ),
    (
        &["--sequence-length", "--num-of-sequences"],
        "write `--sequence N --concurrency C`: N requests in each sequence, and C sequences at once",
    ),
    (
        &["--collect-metrics", "--metrics-url", "--metrics-interval"],
        "leave it out: `curl http://HOST:PORT/metrics` has the metrics of the server",
    ),
    (
        &["--grpc-compression-algorithm"],
        "leave it out: requests are sent without compression",
    ),
    (&["-H"], "write `--header KEY=VALUE`"),
    (
        &["-v"],
        "leave it out: `--output json` has all figures, and `--histogram` shows the latencies",
    ),
    (&["--random-seed"], "write `--seed N`"),
    (
        &[
            "--ssl-grpc-use-ssl",
            "--ssl-grpc-root-certifications-file",
            "--ssl-https-ca-certificates-file",
        ],
        "write `--url grpcs://HOST:PORT` or `https://HOST:PORT`, and `--cacert FILE`",
    ),
];

/// Returns what to write in place of a flag that is none of `ovms bench`.
pub(crate) fn hint_of_flag(flag: &str) -> Option<&'static str> {
    // Flags of one letter may have their value behind them.
    let is = |name: &&&str| match name.strip_prefix("--") {
        Some(long) => flag
            .strip_prefix("--")
            .is_some_and(|it| it.replace('_', "-") == long),
        None => flag == **name,
    };
    let mut rows = FLAGS.iter();
    rows.find_map(|(names, hint)| names.iter().find(is).map(|_| *hint))
}

/// Returns what to write in place of a value of a flag that both have, with another meaning.
pub(crate) fn hint_of_value(flag: &str, value: &str) -> Option<&'static str> {
    let is_plain = flag == "--interval" && value.parse::<u64>().is_ok();
    is_plain.then_some("the intervals of `perf_analyzer` are in milliseconds: 5000 is `5s`")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::{Args as _, Command};

    use super::{FLAGS, hint_of_flag, hint_of_value};
    use crate::bench::BenchArgs;

    #[test]
    fn flags_of_others_are_none_of_ours_and_stand_once() {
        let command = BenchArgs::augment_args(Command::new("bench"));
        let mut known = HashSet::new();
        for arg in command.get_arguments() {
            known.extend(arg.get_long().map(|long| format!("--{long}")));
            known.extend(arg.get_short().map(|short| format!("-{short}")));
            let aliases = arg.get_all_aliases().unwrap_or_default();
            known.extend(aliases.into_iter().map(|long| format!("--{long}")));
        }
        for name in FLAGS.iter().flat_map(|(names, _)| *names) {
            assert!(known.insert((*name).to_owned()), "{name}");
        }
        // What stands in backquotes and begins with a hyphen is a flag here.
        for (_, hint) in FLAGS {
            for word in hint.split('`').skip(1).step_by(2) {
                let flag = word.split([' ', '=']).next().unwrap();
                let is_ours = !flag.starts_with("--") || known.contains(flag);
                assert!(is_ours, "{hint}");
            }
        }
    }

    #[test]
    fn underscores_are_hyphens_in_long_flags() {
        assert_eq!(
            hint_of_flag("--request_count"),
            hint_of_flag("--request-count")
        );
        assert!(hint_of_flag("--request_count").is_some());
        assert_eq!(hint_of_flag("--nothing"), None);
        assert!(hint_of_value("--interval", "5000").is_some());
        assert_eq!(hint_of_value("--interval", "5x"), None);
    }
}
