//! The page of figures has every row of the bench, and the hashes of its sources; computation and
//! formats of the bench.

use std::{env, fs, path::Path};

use tempfile::TempDir;

use self::report::{
    busy::{Others, Processes, Ticks},
    catalog::{self, Part, batching},
    curve::{self, CURVES, Line},
    page,
    row::{Bound, Row, Side, Spec, Unit, Verdict},
    sources::Sources,
    stats::Summary,
    table, when,
};

#[path = "../../../benches/report/mod.rs"]
#[expect(
    dead_code,
    reason = "the bench uses all of it, and these tests a part of it"
)]
mod report;

fn root() -> &'static Path {
    Path::new(env!("WORKSPACE_ROOT"))
}

fn document() -> String {
    fs::read_to_string(root().join("docs/benchmarks.md")).unwrap()
}

#[test]
fn the_page_has_every_row_and_no_other() {
    let page = document();
    let blocks = page::blocks(&page);
    let mut names: Vec<&str> = catalog::parts().iter().map(|part| part.name).collect();
    names.insert(0, page::RUN);
    let found: Vec<&str> = blocks.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, names, "the blocks of docs/benchmarks.md");
    for (part, (_, block)) in catalog::parts().iter().zip(&blocks[1..]) {
        let written: Vec<&str> = block
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .map(|(id, _)| id)
            .collect();
        let known: Vec<&str> = part.rows.iter().map(|spec| spec.id.as_str()).collect();
        assert_eq!(written, known, "the rows of `{}`", part.name);
        for spec in &part.rows {
            assert!(block.contains(&spec.text), "the text of `{}`", spec.id);
        }
    }
}

/// Figures of rows that other pages quote in milliseconds: the row, the page, and what is before and behind its figure.
const QUOTED: [(&str, &str, &str, &str); 6] = [
    (
        "sequences-store-step",
        "docs/stateful.md",
        "| nothing is lost | +",
        " ms with Redis on the same machine, ",
    ),
    (
        "sequences-store-hop",
        "docs/stateful.md",
        " ms with Redis on the same machine, +",
        " ms if each step reaches another server, ",
    ),
    (
        "sequences-store-file",
        "docs/stateful.md",
        " ms if each step reaches another server, +",
        " ms with a folder |",
    ),
    (
        "sequences-store-hop",
        "docs/scaling.md",
        "| `step` | before each answer | at once | nothing is lost | +",
        " ms |",
    ),
    (
        "sequences-store-step",
        "docs/scaling.md",
        "| `step`, the client stays with a replica | as above | | nothing is lost | +",
        " ms |",
    ),
    (
        "sequences-store-file",
        "docs/scaling.md",
        "a folder (`file://`) adds ",
        " ms with `step`.",
    ),
];

/// Returns the median of a row in milliseconds, with two decimals; `None` if the machine was busy.
fn milliseconds(page: &str, row: &str) -> Option<String> {
    let begin = format!("| `{row}` | ");
    let line = page.lines().find(|line| line.starts_with(&begin));
    let line = line.unwrap_or_else(|| panic!("docs/benchmarks.md has no row `{row}`"));
    let measured = line.split('|').nth(4).unwrap_or_default().trim();
    if measured.starts_with('—') {
        return None;
    }
    let mut words = measured.split(' ');
    let number: Option<f64> = words.next().and_then(|word| word.parse().ok());
    let per = match words.next() {
        Some("µs") => 1000.0,
        Some("ms") => 1.0,
        _ => panic!("expected a time in the row `{row}`, got `{measured}`"),
    };
    let number = number.unwrap_or_else(|| panic!("expected a number, got `{measured}`"));
    Some(format!("{:.2}", number / per))
}

/// Comparison of quoted figures with their tables; `UPDATE_DOCS=1` sets them right.
#[test]
fn other_pages_quote_the_figures_that_are_there() {
    let figures = document();
    for (row, page, before, behind) in QUOTED {
        let Some(wanted) = milliseconds(&figures, row) else {
            continue;
        };
        let path = root().join(page);
        let text = fs::read_to_string(&path).unwrap();
        let quote = text.split_once(before).and_then(|(start, rest)| {
            let (found, end) = rest.split_once(behind)?;
            Some((start, found, end))
        });
        let (start, found, end) =
            quote.unwrap_or_else(|| panic!("{page} has no `{before}…{behind}`"));
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(path, [start, before, &wanted, behind, end].concat()).unwrap();
        } else {
            assert_eq!(
                found, wanted,
                "`{row}` in {page}; UPDATE_DOCS=1 sets it right"
            );
        }
    }
}

#[test]
fn the_page_of_performance_has_every_point_of_every_curve() {
    let page = fs::read_to_string(root().join("docs/performance.md")).unwrap();
    let blocks = page::blocks(&page);
    let names: Vec<&str> = blocks.iter().map(|(name, _)| *name).collect();
    let mut known = vec![curve::HEAD];
    known.extend(CURVES.iter().map(|curve| curve.name));
    assert_eq!(names, known, "the blocks of docs/performance.md");
    for (curve, (_, block)) in CURVES.iter().zip(&blocks[1..]) {
        // Nothing until they are measured.
        if block.is_empty() {
            continue;
        }
        let cell = |line: &str| line.split('|').nth(1).map(|cell| cell.trim().to_owned());
        let rows = block.lines().filter(|line| line.starts_with('|')).skip(2);
        let written: Vec<String> = rows.filter_map(cell).collect();
        let points = curve.points.iter().map(|&point| curve::grouped(point));
        assert_eq!(written, points.collect::<Vec<_>>(), "{}", curve.name);
        let lines = curve.columns.iter().filter(|column| column.is_line);
        for column in lines {
            let line = format!("- {}: ", column.title);
            assert!(block.contains(&line), "a line for {}", column.title);
        }
    }
}

#[test]
fn a_line_goes_through_points_on_it_and_weighs_distances_by_the_values() {
    let line = Line::fit(&[(1.0, 12.0), (10.0, 30.0), (1000.0, 2010.0)]);
    assert!((line.base - 10.0).abs() < 1e-9, "{line:?}");
    assert!((line.slope - 2.0).abs() < 1e-9, "{line:?}");
    assert!(line.off < 1e-9, "{line:?}");
    // Unweighted, the base would be that of the large ones alone.
    let line = Line::fit(&[(1.0, 1.0), (2.0, 2.0), (1000.0, 1100.0), (2000.0, 2200.0)]);
    assert!(line.base.abs() < 0.2, "{line:?}");
    assert!((0.03..0.12).contains(&line.off), "{line:?}");
}

#[test]
fn a_curve_is_a_table_with_its_lines() {
    let curve = &CURVES[2];
    let points = [
        (1, vec![0.1, 60.0, 100.0, 9.0]),
        (1000, vec![1.099, 1059.0, 110.0, 9.5]),
    ];
    insta::assert_snapshot!(curve::markdown(curve, &points), @"
    | models | start s | memory MB | p50 µs | CPU a request µs | memory, each ▇ doubles it |
    |--:|--:|--:|--:|--:|---|
    | 1 | 0.10 | 60.0 | 100.0 | 9.0 | ▇ |
    | 1,000 | 1.10 | 1059.0 | 110.0 | 9.5 | ▇▇▇▇▇ |

    - start: 99.0 ms and 1.00 ms for each model; points are up to 0 % off.
    - memory: 59.0 MB and 1.00 MB for each model; points are up to 0 % off.
    ");
}

/// Figures are taken anew now and then and not for each change: only who asks for it has this fail.
#[test]
fn the_page_says_of_what_sources_it_is() {
    let page = document();
    let written = Sources::read(&page).expect("docs/benchmarks.md has a line of sources");
    let changed = written.changed(&Sources::of(root()).unwrap());
    if changed.is_empty() {
        return;
    }
    let notice = format!(
        "docs/benchmarks.md is of other sources: {} parts of the tree changed since ({}); `make \
         bench-page` measures again",
        changed.len(),
        changed.join(", ")
    );
    assert!(
        std::env::var_os("OVMS_BENCH_FRESH").is_none_or(|it| it != "1"),
        "{notice}"
    );
    println!("{notice}");
}

#[test]
fn ids_are_there_once() {
    let parts = catalog::parts().into_iter().chain([catalog::against()]);
    let mut ids: Vec<String> = parts
        .flat_map(|part| part.rows)
        .map(|spec| spec.id)
        .collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

/// A turn in which no answer is waited for is a burst.
#[test]
fn in_turns_about_rates_each_client_waits_for_answers() {
    let rates = batching::BATCH_RATES.map(|rate| (rate.id, rate.clients, rate.turn));
    let bounds = [("batch-rate-bound", 16, batching::BOUND_TURN)];
    for (id, clients, turn) in rates.into_iter().chain(bounds) {
        assert!(turn >= 200.max(6 * clients), "{id}: {turn} of {clients}");
    }
    for (model, turn) in batching::THREAD_MODELS {
        assert!(turn >= 4 * 16, "{model}: {turn}");
    }
}

#[test]
fn a_summary_is_the_median_and_the_quartiles() {
    let of = |values: &[f64]| {
        let summary = Summary::of(values).unwrap();
        let [low, high] = summary.quartiles;
        (low, summary.median, high, summary.count)
    };
    assert_eq!(of(&[3.0]), (3.0, 3.0, 3.0, 1));
    assert_eq!(of(&[4.0, 1.0]), (1.75, 2.5, 3.25, 2));
    assert_eq!(of(&[5.0, 1.0, 4.0, 2.0, 3.0]), (2.0, 3.0, 4.0, 5));
    assert_eq!(Summary::of(&[]), None);
}

/// `/proc/stat` at the start of one second of two processors.
const BEFORE: &str = "cpu  1000 200 300 4000 50 10 20 30 400 0\ncpu0 500 100 150 2000 25 5 10 15\n";
const AFTER: &str = "cpu  1060 210 310 4090 60 12 18 40 400 0\ncpu0 500 100 150 2000 25 5 10 15\n";

#[test]
fn ticks_are_read_from_the_first_line() {
    let ticks = Ticks::read(BEFORE).unwrap();
    let expected = Ticks {
        busy: 1530,
        idle: 4050,
        stolen: 30,
    };
    assert_eq!(ticks, expected);
    assert_eq!(Ticks::read("cpu0 1 2 3 4 5 6 7 8\n"), None);
    assert_eq!(Ticks::read("cpu  1 2 3\n"), None);
}

#[test]
fn others_are_what_was_busy_or_stolen_and_not_ours() {
    let [before, after] = [BEFORE, AFTER].map(|text| Ticks::read(text).unwrap());
    // 80 busy, 100 idle, 10 stolen.
    let others = Others::between(before, after, 50);
    assert_eq!(others.share, 40.0 / 190.0);
    assert_eq!(others.stolen, 10.0 / 190.0);
    assert!(others.are_busy());
    let alone = Others::between(before, after, 80);
    assert_eq!(alone.share, 10.0 / 190.0);
    assert!(!alone.are_busy());
    // The kernel samples one and counts the other.
    assert_eq!(Others::between(before, after, 90), alone);
    assert_eq!(Others::between(before, before, 0), Others::default());
}

#[test]
fn ours_are_the_processes_below_one_with_those_that_it_waited_for() {
    let mut processes = Processes::default();
    let mut add = |id, name: &str, parent: u32, ticks: [u64; 4]| {
        let [user, system, children, below] = ticks;
        let stat = format!(
            "{id} ({name}) S {parent} 1 1 0 -1 4194560 1 0 0 0 {user} {system} {children} {below} 20 0"
        );
        processes.add(id, &stat).unwrap();
    };
    add(1, "init", 0, [1, 0, 0, 0]);
    add(10, "bench", 1, [2, 3, 4, 5]);
    add(11, "a) S 7 (b", 10, [20, 0, 0, 0]);
    add(12, "child", 11, [100, 0, 0, 0]);
    add(20, "other", 1, [1000, 0, 0, 0]);
    assert_eq!(processes.below(10), 134);
    assert_eq!(processes.below(99), 0);
    assert_eq!(processes.add(30, "30 (cut) S 1"), None);
}

fn sample() -> (Part, Vec<Row>) {
    let side = |name: &str, unit, values: &[f64]| Side::new(name, unit, values.to_vec());
    let rates = || {
        [
            side("ovms", Unit::PerSecond, &[900.0, 850.0, 800.0]),
            side("echo", Unit::PerSecond, &[1000.0, 1000.0, 1000.0]),
        ]
    };
    let spec = |id, unit, wanted, text: &str| Spec::new(id, unit, wanted, text);
    let least = Some(Bound::Least(0.8));
    let specs = vec![
        spec("quiet", Unit::Ratio, least, "a comparison"),
        spec("busy", Unit::Ratio, least, "a comparison beside others"),
        spec("missed", Unit::Millis, Some(Bound::Most(1.9)), "a time"),
        spec("busy-time", Unit::Seconds, None, "a time beside others"),
        spec("memory", Unit::Megabytes, Some(Bound::Most(17.0)), "memory").steady(),
        spec("yes", Unit::Yes, Some(Bound::Least(1.0)), "an answer"),
    ];
    let memory = [
        side("ovms", Unit::Megabytes, &[60.0]),
        side("raw", Unit::Megabytes, &[44.5]),
    ];
    let mut rows = vec![
        Row::ratio("quiet", rates()).noted("a note".to_owned()),
        Row::ratio("busy", rates()),
        Row::new("missed", vec![2.5, 2.0, 3.0]),
        Row::new("busy-time", vec![1.25]),
        Row::difference("memory", memory),
        Row::new("yes", vec![1.0]),
    ];
    for index in [1, 3, 4] {
        rows[index].others = 0.25;
    }
    let part = Part {
        name: "sample",
        about: "",
        rows: specs,
    };
    (part, rows)
}

#[test]
fn rows_are_a_table() {
    let (part, rows) = sample();
    insta::assert_snapshot!(table::markdown(&part, &rows), @"
    | row | figure | wanted | measured | of | pairs | |
    |---|---|---|---|---|--:|---|
    | `quiet` | a comparison | ≥ 0.8 | 0.850 (0.825 to 0.875) | ovms 850/s, echo 1000/s, a note | 3 | met |
    | `busy` | a comparison beside others | ≥ 0.8 | — | ovms 850/s, echo 1000/s | 3 | busy |
    | `missed` | a time | ≤ 1.9 ms | 2.50 ms (2.25 to 2.75) |  | 3 | **missed** |
    | `busy-time` | a time beside others |  | 1.25 s |  | 1 | busy |
    | `memory` | memory | ≤ 17 MB | 15.5 MB | ovms 60.0 MB, raw 44.5 MB | 1 | met |
    | `yes` | an answer | yes | yes |  | 1 | met |

    The machine was busy: others took up to 25 % of it, so there are neither ratios nor verdicts in the rows that say so.
    ");
}

#[test]
fn rows_are_json() {
    let (part, rows) = sample();
    let json = table::json(&part, &rows);
    insta::assert_snapshot!(json[0], @r#"{"busy":false,"id":"quiet","median":0.85,"note":"a note","of":[{"median":850.0,"name":"ovms","unit":"/s","values":[900.0,850.0,800.0]},{"median":1000.0,"name":"echo","unit":"/s","values":[1000.0,1000.0,1000.0]}],"others":0.0,"pairs":3,"quartiles":[0.825,0.875],"text":"a comparison","unit":"ratio","values":[0.9,0.85,0.8],"verdict":"met","wanted":{"bound":"≥","value":0.8}}"#);
    insta::assert_snapshot!(json[1], @r#"{"busy":true,"id":"busy","note":"","of":[{"median":850.0,"name":"ovms","unit":"/s","values":[900.0,850.0,800.0]},{"median":1000.0,"name":"echo","unit":"/s","values":[1000.0,1000.0,1000.0]}],"others":0.25,"pairs":3,"text":"a comparison beside others","unit":"ratio","verdict":null,"wanted":{"bound":"≥","value":0.8}}"#);
    assert_eq!(json.as_array().unwrap().len(), rows.len());
}

#[test]
fn verdicts_need_a_bound_and_a_quiet_machine() {
    let (part, rows) = sample();
    let pairs = part.rows.iter().zip(&rows);
    let verdicts: Vec<Verdict> = pairs.map(|(spec, row)| row.verdict(spec)).collect();
    let expected = [
        Verdict::Met,
        Verdict::Busy,
        Verdict::Missed,
        Verdict::Busy,
        Verdict::Met,
        Verdict::Met,
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn a_block_is_replaced_whole() {
    let page =
        "a\n<!-- bench: x -->\nold\n\nlines\n<!-- end -->\nb\n<!-- bench: y -->\n<!-- end -->\n";
    let replaced = page::replaced(page, "x", "new").unwrap();
    assert_eq!(page::blocks(&replaced), [("x", "new"), ("y", "")]);
    assert!(replaced.starts_with("a\n<!-- bench: x -->\nnew\n<!-- end -->\nb\n"));
    assert_eq!(page::replaced(page, "z", "new"), None);
}

/// Creates a tree of sources.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("src/lib.rs", "mod a;"),
        ("src/a/tests.rs", "x"),
        ("src/a/tests/b.rs", "x"),
        ("commands/serve/mod.rs", "x"),
        ("commands/serve/flags.rs", "x"),
        ("commands/infer.rs", "x"),
        ("proto/a.proto", "x"),
        ("benches/main.rs", "x"),
        ("benches/tuning.py", "x"),
        ("Cargo.lock", "x"),
        (
            "Cargo.toml",
            "[package]\n[profile.release]\nlto = 1\n\n[lints]\nx = 1\n",
        ),
    ] {
        put(&folder, name, text);
    }
    folder
}

fn put(folder: &TempDir, name: &str, text: &str) {
    let path = folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn sources_are_what_is_measured_and_not_its_tests() {
    let folder = tree();
    let before = Sources::of(folder.path()).unwrap();
    for (name, text, changed) in [
        ("src/a/tests.rs", "y", None),
        ("src/a/tests/b.rs", "y", None),
        ("commands/infer.rs", "y", None),
        ("benches/tuning.py", "y", None),
        ("benches/guard/main.rs", "y", None),
        (
            "Cargo.toml",
            "[package]\nx = 1\n[profile.release]\nlto = 1\n",
            None,
        ),
        ("Cargo.toml", "[profile.release]\nlto = 2\n", Some("Cargo")),
        ("Cargo.lock", "y", Some("Cargo")),
        ("src/lib.rs", "mod b;", Some("src")),
        ("src/new.rs", "", Some("src")),
        ("commands/serve/flags.rs", "y", Some("commands")),
        ("proto/a.proto", "y", Some("proto")),
        ("benches/main.rs", "y", Some("benches")),
    ] {
        let folder = tree();
        put(&folder, name, text);
        let after = Sources::of(folder.path()).unwrap();
        assert_eq!(before.changed(&after), Vec::from_iter(changed), "{name}");
        assert_eq!(before == after, changed.is_none(), "{name}");
    }
}

#[test]
fn sources_are_read_as_they_are_written() {
    let sources = Sources::of(tree().path()).unwrap();
    let text = format!("a page\n\n`{sources}`\nmore\n");
    assert_eq!(Sources::read(&text), Some(sources));
    assert_eq!(Sources::read("sources: 123\n"), None);
    assert_eq!(Sources::read("sources: 123 (src 1, proto 2)\n"), None);
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (days, date) in [
        (0, (1970, 1, 1)),
        (59, (1970, 3, 1)),
        (11_016, (2000, 2, 29)),
        (20_453, (2025, 12, 31)),
        (20_454, (2026, 1, 1)),
    ] {
        assert_eq!(when::civil(days), date, "{days}");
    }
}
