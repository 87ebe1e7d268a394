//! A run: its parts one after the other, each after a look at the machine, and its report.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, exit},
    time::Instant,
};

use ovms::openvino::runtime::{self, RuntimeSearchPath};
use serde_json::{Value, json};

use crate::{
    against, attacks,
    awake::Awake,
    batching, cells, graphs, meter, metrics, peer, pipelines, reload,
    report::{
        busy::{MAX_SHARE, Others},
        catalog::{self, AGAINST, CELLS, Part},
        page,
        row::Row,
        sources::Sources,
        table,
        when::today,
    },
    rest, sequences, targets, threads, tls, traces,
};

/// Extent of a run.
pub(crate) struct Lengths {
    /// Path of the runtime.
    pub(crate) library: PathBuf,
    /// Number of pairs of turns.
    pub(crate) pairs: usize,
    /// Number of pairs where each side is a process of its own, or takes seconds.
    pub(crate) restarts: usize,
    /// Minimum number of requests in a turn of many clients with a tiny model.
    pub(crate) requests: usize,
    /// Duration of a cell of the table of absolute figures, in seconds.
    pub(crate) cell: f64,
    /// Duration of a load at a fixed rate, in seconds.
    pub(crate) rate: f64,
    /// Number of requests before the last measurement of memory.
    pub(crate) many: usize,
}

impl Lengths {
    /// Returns the lengths of a full run, or of a quick one that only shows that everything works.
    fn new(library: PathBuf, is_quick: bool) -> Self {
        if is_quick {
            Self {
                library,
                pairs: 3,
                restarts: 2,
                requests: 200,
                cell: 0.2,
                rate: 0.5,
                many: 20_000,
            }
        } else {
            Self {
                library,
                pairs: 41,
                restarts: 7,
                requests: REQUESTS,
                cell: 1.0,
                rate: 3.0,
                many: 200_000,
            }
        }
    }

    /// Returns how many requests a turn has that has so many in a full run.
    pub(crate) fn turn(&self, full: usize) -> usize {
        full * self.requests / REQUESTS
    }
}

/// [`Lengths::requests`] of a full run.
const REQUESTS: usize = 1_000;

/// Parsed command line.
#[derive(Debug, Default)]
struct Wanted {
    parts: Vec<String>,
    is_quick: bool,
    page: Option<PathBuf>,
    json: Option<PathBuf>,
}

/// A measured part.
struct Done {
    part: Part,
    rows: Vec<Row>,
    seconds: f64,
}

/// Measures the requested parts, and writes the report.
pub(crate) fn run(args: &[&str]) {
    let wanted = wanted(args);
    if wanted.parts == ["list"] {
        for part in catalog::parts().into_iter().chain([catalog::against()]) {
            println!("{:<10} {}", part.name, part.about);
        }
        return;
    }
    let parts = chosen(&wanted);
    let root = Path::new(env!("WORKSPACE_ROOT"));
    let sources = Sources::of(root).expect("the tree is there");
    let lengths = Lengths::new(library(), wanted.is_quick);
    if let Some(path) = &wanted.page {
        // A run is long, so errors of the page are reported before it.
        look_at(path, &parts, &sources);
    }
    let is_other = peer::is_other();
    if is_other && wanted.page.is_some() {
        stop(
            64,
            "--write takes the program of the tree, so unset BENCH_PROGRAM",
        );
    }
    let head = head(&sources, wanted.is_quick, is_other);
    println!("{head}\n");
    let load_average = meter::load_average();
    let done: Vec<Done> = parts
        .into_iter()
        .map(|part| measure(part, &lengths))
        .collect();
    let times = times(&done);
    println!("{times}");
    if let Some(path) = &wanted.json {
        let json = json(&sources, &wanted, &load_average, &done);
        let text = serde_json::to_string_pretty(&json).expect("plain numbers and texts");
        fs::write(path, text + "\n").unwrap_or_else(|error| stop(74, &reported(path, &error)));
    }
    if let Some(path) = &wanted.page {
        let head = format!("{head}\n\n{times}");
        write(path, &head, wanted.parts.is_empty(), &done);
    }
}

fn wanted(args: &[&str]) -> Wanted {
    let mut wanted = Wanted {
        json: std::env::var_os("BENCH_JSON").map(PathBuf::from),
        ..Wanted::default()
    };
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        let mut file = || match args.next() {
            Some(path) => Some(PathBuf::from(path)),
            None => stop(64, &format!("{arg} needs a file")),
        };
        match arg {
            // Cargo adds it.
            "--bench" => {}
            "--quick" => wanted.is_quick = true,
            "--write" => wanted.page = file(),
            "--json" => wanted.json = file(),
            flag if flag.starts_with('-') => stop(
                64,
                &format!("{flag} is no flag; there are --quick, --write FILE and --json FILE"),
            ),
            names => wanted.parts.extend(names.split(',').map(str::to_owned)),
        }
    }
    wanted
}

/// Returns the requested parts, or all but the comparison of two programs if none is named.
fn chosen(wanted: &Wanted) -> Vec<Part> {
    if wanted.parts.is_empty() {
        return catalog::parts();
    }
    let all = || catalog::parts().into_iter().chain([catalog::against()]);
    let find = |name: &String| {
        all().find(|part| part.name == name).unwrap_or_else(|| {
            let names: Vec<&str> = all().map(|part| part.name).collect();
            stop(
                64,
                &format!("no part is named `{name}`; there are {}", names.join(", ")),
            )
        })
    };
    let parts: Vec<Part> = wanted.parts.iter().map(find).collect();
    if parts.iter().any(|part| part.name == AGAINST)
        && std::env::var_os(against::BASELINE).is_none()
    {
        stop(
            64,
            &format!(
                "{AGAINST} needs {}=PATH, another server program",
                against::BASELINE
            ),
        );
    }
    parts
}

/// Parts about requests that take less than it takes a processor to be woken; a part that is about others as well sees to
/// that itself.
const AWAKE: [&str; 6] = ["echo", "tfs", "rest", "metrics", "traces", "sequences"];

/// Measures a part and prints it.
fn measure(part: Part, lengths: &Lengths) -> Done {
    let before = meter::before();
    println!("## {}: {}\n", part.name, part.about);
    if before.are_busy() {
        println!("{}\n", busy(before));
    }
    let awake = AWAKE.contains(&part.name).then(Awake::start);
    let begun = Instant::now();
    let mut rows = (measures(part.name))(lengths);
    let seconds = begun.elapsed().as_secs_f64();
    drop(awake);
    for row in &mut rows {
        row.others = row.others.max(before.share);
    }
    let measured: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let known: Vec<&str> = part.rows.iter().map(|spec| spec.id.as_str()).collect();
    assert_eq!(measured, known, "the catalog has the rows in their order");
    println!("{}\n", table::markdown(&part, &rows));
    Done {
        part,
        rows,
        seconds,
    }
}

fn busy(others: Others) -> String {
    format!(
        "The machine is busy: others take {:.0} % of it, {:.0} % of that the hypervisor; above {:.0} % \
         no ratios are printed.",
        others.share * 100.0,
        others.stolen / others.share * 100.0,
        MAX_SHARE * 100.0
    )
}

fn measures(part: &str) -> fn(&Lengths) -> Vec<Row> {
    match part {
        CELLS => cells::run,
        "echo" => targets::echo,
        "raw" => targets::raw,
        "memory" => targets::memory,
        "tfs" => rest::tfs,
        "rest" => rest::run,
        "tls" => tls::run,
        "metrics" => metrics::run,
        "traces" => traces::run,
        "reload" => reload::run,
        "sequences" => sequences::run,
        "batching" => batching::run,
        "threads" => threads::run,
        "pipelines" => pipelines::run,
        "graphs" => graphs::run,
        "attacks" => attacks::run,
        AGAINST => against::run,
        other => unreachable!("the catalog has no part {other}"),
    }
}

/// Returns the head of the report: sources, date and machine.
fn head(sources: &Sources, is_quick: bool, is_other: bool) -> String {
    let other = if is_other {
        "\n\nThe server is the one that BENCH_PROGRAM names; only the bench is of these sources."
    } else {
        ""
    };
    let quick = if is_quick {
        "\n\nA quick run, which only shows that everything works: its figures mean nothing."
    } else {
        ""
    };
    format!(
        "{}; {}; {}.\n\n`{sources}`{other}{quick}",
        machine(),
        version(),
        today()
    )
}

/// Returns the time that each part took, as text.
fn times(done: &[Done]) -> String {
    let all: f64 = done.iter().map(|done| done.seconds).sum();
    let parts: Vec<String> = done
        .iter()
        .map(|done| format!("{} {:.0} s", done.part.name, done.seconds))
        .collect();
    format!("It took {:.1} minutes: {}.", all / 60.0, parts.join(", "))
}

fn json(sources: &Sources, wanted: &Wanted, load_average: &[f64], done: &[Done]) -> Value {
    let parts: Vec<Value> = done
        .iter()
        .map(|done| {
            json!({
                "name": done.part.name,
                "seconds": done.seconds,
                "rows": table::json(&done.part, &done.rows),
            })
        })
        .collect();
    json!({
        "machine": machine(),
        "version": version(),
        "date": today(),
        "sources": sources.to_string(),
        "other_program": peer::is_other(),
        "quick": wanted.is_quick,
        "load_average_before": load_average,
        "parts": parts,
    })
}

/// Exits if a page lacks blocks; reports the sources that have changed since it was written.
fn look_at(path: &Path, parts: &[Part], sources: &Sources) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| stop(66, &reported(path, &error)));
    let blocks = page::blocks(&text);
    let names = parts.iter().map(|part| part.name);
    for name in [page::RUN].into_iter().chain(names) {
        if !blocks.iter().any(|(block, _)| *block == name) {
            stop(65, &format!("{} has no block `{name}`", path.display()));
        }
    }
    match Sources::read(&text).map(|before| before.changed(sources)) {
        Some(changed) if changed.is_empty() => eprintln!("the page is of these sources already"),
        Some(changed) => eprintln!("changed since the page was written: {}", changed.join(", ")),
        None => {}
    }
}

/// Begins what a page says about a run of some parts.
const AGAIN: &str = "Some parts were measured again:";

/// Replaces the blocks of a page. What is said about a run of some parts goes behind what is said about all.
fn write(path: &Path, head: &str, is_whole: bool, done: &[Done]) {
    let mut text =
        fs::read_to_string(path).unwrap_or_else(|error| stop(66, &reported(path, &error)));
    let mut head = head.to_owned();
    if !is_whole {
        let blocks = page::blocks(&text);
        let before = blocks.iter().find(|(name, _)| *name == page::RUN);
        let before = before.map_or("", |(_, block)| block);
        let again = match before.contains(AGAIN) {
            true => String::new(),
            false => format!("{AGAIN}\n\n"),
        };
        head = format!("{}\n\n{again}{head}", before.trim_end());
    }
    let blocks = done
        .iter()
        .map(|done| (done.part.name, table::markdown(&done.part, &done.rows)));
    for (name, block) in [(page::RUN, head)].into_iter().chain(blocks) {
        match page::replaced(&text, name, &block) {
            Some(replaced) => text = replaced,
            None => stop(65, &format!("{} has no block `{name}`", path.display())),
        }
    }
    fs::write(path, text).unwrap_or_else(|error| stop(74, &reported(path, &error)));
}

fn reported(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

pub(crate) fn stop(code: i32, why: &str) -> ! {
    eprintln!("{why}");
    exit(code)
}

/// Finds the runtime as the program does.
fn library() -> PathBuf {
    match runtime::find(&places()) {
        Ok(found) => found.library,
        Err(error) => stop(72, &format!("{error}; `make bench` brings one")),
    }
}

/// Returns the search path of the runtime.
pub(crate) fn places() -> RuntimeSearchPath {
    RuntimeSearchPath {
        install_dir: std::env::var_os("OPENVINO_INSTALL_DIR").map(PathBuf::from),
        system: true,
        ..RuntimeSearchPath::default()
    }
}

pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(": "))
        .map_or("an unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{name}, {cores} cores, OpenVINO {}",
        runtime::PINNED_VERSION
    )
}

/// Asks the server program for its version.
pub(crate) fn version() -> String {
    let output = Command::new(peer::program()).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or("ovms").to_owned()
}
