//! `make bench-curves`: how the cost of a request grows with connections, bytes, models, sequences,
//! and nodes of a pipeline. [`crate::report::curve`] lists the points, and has the lines through them.
//!
//! A point is a server of its own, but for sequences, of which there are ever more in one. Its
//! figures are those of the turn with the median latency.

mod points;

use std::{fs, path::PathBuf, time::Instant};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    meter::Meter,
    report::{
        curve::{self, CURVES, Curve, Point},
        page,
        when::today,
    },
    run::{machine, stop, version},
};

/// Extent of a run.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Duration of a turn in seconds.
    seconds: f64,
    /// Number of turns of a point.
    turns: usize,
    is_quick: bool,
}

/// Measures the curves, and writes them into a page with `--write FILE`.
pub(crate) fn run(args: &[&str]) {
    let (extent, page) = wanted(args);
    let mut text = page.as_ref().map(|path| {
        fs::read_to_string(path)
            .unwrap_or_else(|error| stop(66, &format!("{}: {error}", path.display())))
    });
    // A run takes minutes, so errors of the page are reported before it.
    let names = CURVES.iter().map(|curve| curve.name).chain([curve::HEAD]);
    for name in names {
        put(&mut text, name, "");
    }
    more_files();
    let begun = Instant::now();
    let meter = Meter::start();
    for curve in &CURVES {
        let block = curve::markdown(curve, &measure(curve, extent));
        println!("## {}\n\n{block}\n", curve.name);
        put(&mut text, curve.name, &block);
    }
    let head = head(extent, begun.elapsed().as_secs_f64(), meter.others().share);
    println!("{head}");
    put(&mut text, curve::HEAD, &head);
    if let (Some(path), Some(text)) = (page, text) {
        fs::write(&path, text)
            .unwrap_or_else(|error| stop(74, &format!("{}: {error}", path.display())));
    }
}

fn wanted(args: &[&str]) -> (Extent, Option<PathBuf>) {
    let mut extent = Extent {
        seconds: 1.0,
        turns: 3,
        is_quick: false,
    };
    let mut page = None;
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            // Cargo adds it.
            "--bench" => {}
            "--quick" => {
                extent = Extent {
                    seconds: 0.1,
                    turns: 1,
                    is_quick: true,
                }
            }
            "--write" => match args.next() {
                Some(path) => page = Some(PathBuf::from(path)),
                None => stop(64, "--write needs a file"),
            },
            other => stop(
                64,
                &format!("{other} is no flag of curves; there are --quick and --write FILE"),
            ),
        }
    }
    (extent, page)
}

/// Replaces a block of the page, if there is one.
fn put(text: &mut Option<String>, name: &str, block: &str) {
    if let Some(before) = text {
        match page::replaced(before, name, block) {
            Some(replaced) => *text = Some(replaced),
            None => stop(65, &format!("the page has no block `{name}`")),
        }
    }
}

fn measure(curve: &Curve, extent: Extent) -> Vec<Point> {
    let count = if extent.is_quick {
        curve.quick
    } else {
        curve.points.len()
    };
    let points = &curve.points[..count];
    match curve.name {
        "curve-connections" => points::connections(points, extent),
        "curve-bytes" => points::bytes(points, extent),
        "curve-models" => points::models(points, extent),
        "curve-sequences" => points::sequences(points, extent),
        "curve-nodes" => points::nodes(points, extent),
        other => unreachable!("no curve is named {other}"),
    }
}

/// Returns machine, program, and date.
fn head(extent: Extent, seconds: f64, others: f64) -> String {
    let quick = if extent.is_quick {
        " A quick run, which only shows that everything works: its figures mean nothing."
    } else {
        ""
    };
    let others = if others > crate::report::busy::MAX_SHARE {
        format!(" Other work took {:.0} % of the machine.", others * 100.0)
    } else {
        String::new()
    };
    format!(
        "{}; {}; {}. It took {:.1} minutes.{others}{quick}",
        machine(),
        version(),
        today(),
        seconds / 60.0
    )
}

/// Allows this process, and those that it starts, as many files as it may have.
fn more_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("a limit may be raised to its maximum");
}
