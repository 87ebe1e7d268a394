//! Checked flags, with their files read before anything is sent.

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use ovms::{
    client::{
        Api, Request, TensorForm,
        input::{Argument, ElementSource, MAX_OF_FILES},
        load::{ArrivalProcess, LoadPlan, LoadTarget, TrafficKind, Until},
    },
    whole_file,
};

use super::{
    args::{
        BenchArgs, BenchFormat, BenchOutputArgs, LevelArgs, Responses, TrafficArgs, VerdictArgs,
    },
    foreign::NO_COUNT,
    report::{BenchReport, FORM, ReportedFlags},
};
use crate::{
    error::Failure,
    infer::{self, Job, strip_mark},
    ui,
};

/// Maximum size of a file of requests, in bytes.
const MAX_REQUESTS: u64 = 256 << 20;

/// Work to be done.
#[derive(Debug)]
pub(super) struct BenchPlan {
    pub(super) job: Job,
    pub(super) targets: Vec<LoadTarget>,
    pub(super) kind: TrafficKind,
    /// Requests as lines, with what to call them in messages.
    pub(super) lines: Option<RequestLines>,
    /// Sends several values of an input one after the other.
    pub(super) is_in_turn: bool,
    pub(super) seed: u64,
    pub(super) warmup: u64,
    pub(super) rule: StabilityRule,
    pub(super) output: BenchOutputArgs,
    pub(super) verdict: VerdictArgs,
    /// Report to compare with.
    pub(super) before: Option<BenchReport>,
}

/// Lines of a file of requests.
#[derive(Debug)]
pub(super) struct RequestLines {
    pub(super) name: String,
    /// Folder of the files that the lines name.
    pub(super) folder: PathBuf,
    pub(super) text: String,
}

/// Rule for the end of a level, without the time that is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct StabilityRule {
    window: Duration,
    windows: u16,
    percent: u16,
    max_windows: u16,
    pub(super) max_time: Duration,
}

impl StabilityRule {
    /// Returns the longest time that a level may take, if so much is left for it.
    pub(super) fn longest(self, left: Duration) -> Duration {
        let windows = self.window.saturating_mul(self.max_windows.into());
        windows.min(left)
    }
}

impl BenchPlan {
    /// Checks the flags and reads their files.
    pub(super) fn new(args: BenchArgs) -> Result<Self, Failure> {
        let BenchArgs {
            model,
            load,
            measurement,
            traffic,
            mut inputs,
            image,
            request,
            output,
            verdict,
            server,
        } = args;
        if let Some(note) = measurement.note() {
            ui::note(&note);
        }
        inputs.inputs.iter().try_for_each(check_protocol)?;
        let seed = inputs.seed.unwrap_or_else(rand_seed);
        let targets = targets(&load, seed)?;
        let kind = kind(&traffic, server.api())?;
        let max_windows = measurement.max_windows()?;
        check_verdict(&verdict)?;
        let before = verdict.against.as_deref().map(read_report).transpose()?;
        output.save.as_deref().map_or(Ok(()), check_saved)?;
        check_page(
            &output,
            [verdict.against.as_deref(), output.save.as_deref()],
        )?;
        for path in [&output.html, &output.save].into_iter().flatten() {
            check_folder(path)?;
        }
        let lines = traffic.requests.as_deref().map(read_lines).transpose()?;
        for shape in traffic.shape {
            inputs.inputs.push(Argument {
                name: Some(shape.name),
                shape: Some(shape.shape),
                ..Argument::default()
            });
        }
        // Values that were given want to be completed by their giver.
        let is_filled = |it: &Argument| it.source == ElementSource::Fill;
        if lines.is_none() && !inputs.zeros && inputs.inputs.iter().all(is_filled) {
            inputs.random = true;
        }
        if inputs.random {
            inputs.seed = Some(seed);
        }
        let (interval, windows, max_windows) = match measurement.duration {
            Some(duration) => (duration.length, 1, 1),
            None => (measurement.interval, measurement.windows, max_windows),
        };
        let most = match traffic.in_turn {
            true => MAX_OF_FILES,
            false => u64::MAX,
        };
        let inputs = infer::inputs_within(inputs, image, most)?;
        let job = Job::of_load(model, server, request, inputs)?;
        Ok(Self {
            job,
            targets,
            kind,
            lines,
            is_in_turn: traffic.in_turn,
            seed,
            warmup: measurement.warmup,
            rule: StabilityRule {
                window: interval,
                windows,
                percent: measurement.stability,
                max_windows,
                max_time: measurement.max_time.length,
            },
            output,
            verdict,
            before,
        })
    }

    /// Returns the plan of a level, with the time that is left for it.
    pub(super) fn level(&self, target: LoadTarget, left: Duration) -> LoadPlan {
        LoadPlan {
            target,
            warmup: self.warmup,
            until: Until::Stable {
                window: self.rule.window,
                windows: self.rule.windows.into(),
                tolerance: f64::from(self.rule.percent) / 100.0,
                max_windows: self.rule.max_windows.into(),
                max_time: left,
            },
        }
    }

    /// Returns the maximum number of requests in flight of all levels.
    pub(super) fn max_lanes(&self) -> usize {
        let lanes = self.targets.iter().map(LoadTarget::max_in_flight);
        lanes.max().unwrap_or(1)
    }

    /// Returns the flags that figures depend on, with those of the request.
    pub(super) fn flags(&self, request: &Request) -> ReportedFlags {
        let (max_in_flight, poisson) = match self.targets.first() {
            Some(LoadTarget::Rate {
                max_in_flight,
                arrivals,
                ..
            }) => (Some(*max_in_flight), *arrivals != ArrivalProcess::Constant),
            Some(LoadTarget::Concurrency(_)) | None => (None, false),
        };
        ReportedFlags {
            window_seconds: self.rule.window.as_secs_f64(),
            windows: self.rule.windows,
            stability: self.rule.percent,
            max_trials: self.rule.max_windows,
            warmup: self.warmup,
            max_in_flight,
            poisson,
            in_turn: self.is_in_turn,
            requests: self.lines.as_ref().map(|lines| lines.name.clone()),
            form: match request.form {
                TensorForm::Bytes => "binary".to_owned(),
                TensorForm::Values => "values".to_owned(),
            },
            output_names: request.outputs.clone(),
        }
    }

    /// Returns whether stdout has a table for people.
    pub(super) fn is_table(&self) -> bool {
        self.output.output == BenchFormat::Table
    }
}

/// Chooses a seed, small enough for every reader of JSON.
fn rand_seed() -> u64 {
    ovms::client::session::random_id() & u64::from(u32::MAX)
}

fn targets(load: &LevelArgs, seed: u64) -> Result<Vec<LoadTarget>, Failure> {
    if let Some(rates) = &load.rate {
        let arrivals = match load.poisson {
            true => ArrivalProcess::Poisson { seed },
            false => ArrivalProcess::Constant,
        };
        let target = |per_second: &f64| LoadTarget::Rate {
            per_second: *per_second,
            arrivals,
            max_in_flight: load.max_in_flight.into(),
        };
        return Ok(rates.levels.iter().map(target).collect());
    }
    let Some(levels) = &load.concurrency else {
        return Ok(vec![LoadTarget::Concurrency(1)]);
    };
    let typed = &levels.typed;
    let levels = levels.whole().map_err(|level| {
        // A level of a range is none that was typed.
        let place = match level.to_string() == *typed {
            true => String::new(),
            false => format!(" in `{typed}`"),
        };
        Failure::usage(format!(
            "found {level} requests at once{place}, expected whole numbers up to {}",
            u16::MAX
        ))
        .hint("`--rate` takes fractions")
    })?;
    Ok(levels.into_iter().map(LoadTarget::Concurrency).collect())
}

fn kind(traffic: &TrafficArgs, api: Api) -> Result<TrafficKind, Failure> {
    if let Some(length) = traffic.sequence {
        if length == 1 && api.is_tfs() {
            let failure = Failure::usage(format!("`--sequence 1` does not fit `--api {api}`"));
            return Err(failure
                .hint("its requests can start or end a sequence, so the shortest one has two"));
        }
        return Ok(TrafficKind::Sequences {
            length: length as usize,
        });
    }
    if !traffic.stream {
        return Ok(TrafficKind::Unary);
    }
    if api.is_tfs() {
        let failure = Failure::usage(format!("`--stream` does not fit `--api {api}`"));
        return Err(failure.hint("kserve-grpc and kserve-rest have streams"));
    }
    Ok(TrafficKind::Streams {
        responses: match (traffic.responses, api) {
            (Some(Responses::End), _) | (None, Api::KserveRest) => None,
            (Some(Responses::Count(count)), Api::KserveRest) => {
                let text = format!("`--responses {count}` does not fit `--api {api}`");
                let hint = "each request has its own stream there, which the server ends";
                return Err(Failure::usage(text).hint(hint));
            }
            (Some(Responses::Count(count)), _) => Some(count),
            (None, _) => Some(1),
        },
    })
}

/// Refuses the protocol that `-i` of `perf_analyzer` names, which would be sent as a text.
fn check_protocol(input: &Argument) -> Result<(), Failure> {
    let ElementSource::Inline(text) = &input.source else {
        return Ok(());
    };
    let protocol = ["http", "grpc"]
        .into_iter()
        .find(|it| text.eq_ignore_ascii_case(it));
    match (protocol, &input.name) {
        (Some(protocol), None) => {
            let api = if protocol == "http" {
                "kserve-rest"
            } else {
                "kserve-grpc"
            };
            let failure =
                Failure::usage(format!("`-i {text}` would be the value of an input here"));
            Err(failure.hint(format!(
                "write `--api {api}` in place of `-i` of `perf_analyzer`, or `-i INPUT={text}` for that text"
            )))
        }
        _ => Ok(()),
    }
}

pub(super) fn check_verdict(verdict: &VerdictArgs) -> Result<(), Failure> {
    if verdict.is_by_comparison() && verdict.against.is_none() {
        return Err(Failure::usage("`--fail-if worse` needs `--against`")
            .hint("`--save FILE` writes a report to compare with"));
    }
    Ok(())
}

/// Reads a report of `--save`.
pub(super) fn read_report(path: &Path) -> Result<BenchReport, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let failure = Failure::cannot("read", path, &error);
        match error.kind() {
            // The first run of a check that repeats itself has nothing to compare with.
            io::ErrorKind::NotFound => failure.hint(format!(
                "the first run makes it: `--save {}` without `--against`",
                path.display()
            )),
            _ => failure,
        }
    })?;
    let report: BenchReport = serde_json::from_str(&text).map_err(|error| {
        Failure::failed(format!(
            "{} is not a report of `ovms bench`",
            path.display()
        ))
        .caused_by(&error)
        .hint("`--save FILE` writes one")
    })?;
    if report.ovms_bench != FORM {
        let text = format!(
            "{} has form {}, expected {FORM}",
            path.display(),
            report.ovms_bench
        );
        return Err(Failure::failed(text).hint("measure again with `--save`"));
    }
    Ok(report)
}

/// Refuses a report on stdout, or in a file that looks like one of another form.
fn check_saved(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let hint = match ending(path).as_deref() {
        _ if path == Path::new("-") => "`--output json` writes the report to stdout".to_owned(),
        Some("csv") => csv_hint(path),
        Some("html" | "htm") => format!("`--html {shown}` writes a page"),
        _ => return Ok(()),
    };
    let text = format!("cannot save to {shown}: `--save` writes JSON, for `--against`");
    Err(Failure::usage(text).hint(hint))
}

/// Refuses a page on stdout, in the place of a report, or in a file that looks like one of another form.
pub(super) fn check_page<'a>(
    output: &BenchOutputArgs,
    reports: impl IntoIterator<Item = Option<&'a Path>>,
) -> Result<(), Failure> {
    let Some(path) = &output.html else {
        return Ok(());
    };
    let shown = path.display();
    // One that is not there yet has no other name than those that are typed.
    let real = |path: &Path| {
        path.canonicalize()
            .or_else(|_| std::path::absolute(path))
            .ok()
    };
    let place = real(path);
    let mut reports = reports.into_iter().flatten();
    if reports.any(|it| place.is_some() && real(it) == place) {
        let text = format!("cannot write {shown}: `--html` writes a page, and it is a report");
        return Err(Failure::usage(text).hint("name another file for the page"));
    }
    let hint = match ending(path).as_deref() {
        _ if path == Path::new("-") => "name a file for it, as `--html report.html`".to_owned(),
        Some("csv") => csv_hint(path),
        Some("json") => format!("`--output json > {shown}` writes the report as JSON"),
        _ => return Ok(()),
    };
    let text = format!("cannot write {shown}: `--html` writes a page");
    Err(Failure::usage(text).hint(hint))
}

fn csv_hint(path: &Path) -> String {
    let shown = path.display();
    format!("`--output csv > {shown}` writes a line for each level")
}

/// Returns the ending of a path in small letters.
fn ending(path: &Path) -> Option<String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.map(str::to_ascii_lowercase)
}

/// Checks that a file can be written, as far as that is known before a run of minutes. Folders that are missing are made
/// when there is something to write.
fn check_folder(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::usage(format!("{} is a folder", path.display())));
    }
    let cannot = |error: io::Error| Failure::cannot("write", path, &error);
    let mut place = path;
    while let Some(folder) = place.parent().filter(|it| *it != Path::new("")) {
        match fs::metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => place = folder,
            Err(error) => return Err(cannot(error)),
            Ok(_) => break,
        }
    }
    whole_file::check(place).map_err(cannot)
}

fn read_lines(path: &Path) -> Result<RequestLines, Failure> {
    let is_number = path.to_str().is_some_and(|it| it.parse::<u64>().is_ok());
    let cannot = |error: io::Error| {
        let hint = is_number.then(|| format!("`--requests` names a file; {NO_COUNT}"));
        Failure::cannot("read", path, &error).may_hint(hint)
    };
    let is_stdin = path == Path::new("-");
    let mut text = String::new();
    if is_stdin {
        io::stdin()
            .lock()
            .take(MAX_REQUESTS + 1)
            .read_to_string(&mut text)
            .map_err(cannot)?;
    } else {
        fs::File::open(path)
            .and_then(|file| file.take(MAX_REQUESTS + 1).read_to_string(&mut text))
            .map_err(cannot)?;
    }
    if text.len() as u64 > MAX_REQUESTS {
        let text = format!("{} has more than {MAX_REQUESTS} bytes", path.display());
        return Err(Failure::failed(text).hint("part of the recording is enough"));
    }
    strip_mark(&mut text);
    Ok(RequestLines {
        folder: match path.parent() {
            Some(folder) if !is_stdin => folder.to_owned(),
            _ => PathBuf::new(),
        },
        name: match is_stdin {
            true => "standard input".to_owned(),
            false => PathBuf::from(path).display().to_string(),
        },
        text,
    })
}
