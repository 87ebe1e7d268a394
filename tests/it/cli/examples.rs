//! Examples, each with its one command: their results are right, they draw only in a terminal, and
//! they leave no server behind.

use std::{
    collections::HashSet,
    env, fs,
    io::Read as _,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::support::{
    cli::{self, Run},
    eventually, fixture,
    infer::interrupt,
    thread,
};

/// Names of all examples.
const ALL: [&str; 5] = ["classification", "ocr", "shapes", "streaming", "voice"];

/// Lines of a terminal besides the command line.
const LINES: usize = 25;
const COLUMNS: usize = 80;

fn root() -> PathBuf {
    PathBuf::from(env!("WORKSPACE_ROOT"))
}

/// Creates a command with the built program first in `PATH`.
fn with_ovms(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_ovms")).parent().unwrap();
    let path = env::var_os("PATH").unwrap();
    let folders = [folder.to_owned()]
        .into_iter()
        .chain(env::split_paths(&path));
    let mut command = Command::new(program);
    command
        .env("PATH", env::join_paths(folders).unwrap())
        .env("COLUMNS", COLUMNS.to_string())
        .env_remove("NO_COLOR")
        .current_dir(root())
        .stdin(Stdio::null());
    command
}

fn example(name: &str) -> Command {
    with_ovms(root().join("examples").join(name).join("run"))
}

/// Runs an example without a terminal; returns its output.
fn piped(name: &str, args: &[&str]) -> String {
    output(example(name).args(args))
}

/// Runs the command of an example without a terminal; returns its output.
fn output(command: &mut Command) -> String {
    let run = cli::run(command);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.starts_with("$ "), "{}", run.stderr);
    let text = run.text();
    assert!(!text.contains('\u{1b}'), "{text}");
    text
}

/// Runs an example in a terminal of some columns.
fn in_terminal(name: &str, is_coloured: bool, columns: usize) -> Run {
    let spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let mut command = with_ovms("python3");
    command
        .args(["-c", spawn])
        .arg(root().join("examples").join(name).join("run"))
        .env("COLUMNS", columns.to_string())
        .env("TERM", "xterm-256color");
    if !is_coloured {
        command.env("NO_COLOR", "1");
    }
    cli::run(&mut command)
}

#[test]
fn images_are_what_they_show() {
    let text = piped("classification", &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 12, "{text}");
    for (of_image, label) in lines.chunks(4).zip(["star", "ring", "diamond"]) {
        assert_eq!(of_image[0], format!("{label}.png"));
        let words: Vec<&str> = of_image[1].split_whitespace().collect();
        assert_eq!(words[0], label, "{text}");
        let score: f64 = words[1].trim_end_matches('%').parse().unwrap();
        assert!(score > 90.0, "{text}");
    }
    let other = fixture("images/star.jpg");
    let text = piped("classification", &[other.to_str().unwrap()]);
    assert!(text.starts_with("star.jpg\n  star "), "{text}");
}

/// Returns the text of the page, as the models read it.
fn page() -> String {
    let expected = fs::read(fixture("expected/ocr.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
    let lines = expected["lines"].as_array().unwrap().iter();
    lines
        .map(|line| {
            let (place, sure) = (&line["box"], line["confidence"].as_f64().unwrap());
            let place = format!("{:>4},{:<4}", place[0].to_string(), place[1].to_string());
            format!(
                "{place} {:>3.0}%  {}\n",
                100.0 * sure,
                line["text"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn the_page_is_read_as_the_models_read_it_without_the_source_tree() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = folder.path().join("fixtures/pipelines/ocr");
    fs::create_dir_all(&pipeline).unwrap();
    let copy = |from: PathBuf, to: &str| {
        let mut command = Command::new("cp");
        command.arg("-r").arg(from).arg(folder.path().join(to));
        assert!(command.status().unwrap().success());
    };
    copy(root().join("examples"), "examples");
    copy(fixture("custom_nodes"), "fixtures");
    for file in ["Makefile", "config.json"] {
        copy(
            fixture("pipelines/ocr").join(file),
            "fixtures/pipelines/ocr",
        );
    }
    for folder_name in ["models", "images"] {
        let place = folder.path().join("fixtures").join(folder_name);
        std::os::unix::fs::symlink(fixture(folder_name), place).unwrap();
    }
    std::os::unix::fs::symlink("../../models", pipeline.join("models")).unwrap();

    let text = output(&mut with_ovms(folder.path().join("examples/ocr/run")));
    assert_eq!(text, page());
    let library = pipeline.join("libocr_crops.so");
    fs::remove_file(&library).unwrap();
    let run = cli::run(with_ovms("make").arg("-C").arg(&pipeline));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(library.is_file(), "{}", run.text());
}

#[test]
fn shapes_are_found_where_they_are() {
    let text = piped("shapes", &[]);
    // As make_scene.py has put them, from the top down.
    let drawn = [
        ("star", 95, 90),
        ("ring", 245, 100),
        ("plus", 395, 88),
        ("hexagon", 545, 100),
        ("triangle", 110, 262),
        ("crescent", 262, 260),
        ("diamond", 405, 262),
        ("circle", 548, 262),
    ];
    let mut found: Vec<(&str, [i32; 4])> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let numbers = words[0].split(',').chain(words[1].split('x'));
            let numbers: Vec<i32> = numbers.map(|it| it.parse().unwrap()).collect();
            (*words.last().unwrap(), numbers.try_into().unwrap())
        })
        .collect();
    assert_eq!(found.len(), drawn.len(), "{text}");
    for (name, x, y) in drawn {
        let at = found
            .iter()
            .position(|(label, [left, top, width, height])| {
                *label == name
                    && (*left..left + width).contains(&x)
                    && (*top..top + height).contains(&y)
            });
        found.swap_remove(at.unwrap_or_else(|| panic!("{name}\n{text}")));
    }
}

#[test]
fn speech_is_found_where_it_is() {
    let text = piped("voice", &[]);
    let found: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("speech from"))
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse().ok())
        .collect();
    // As make_wav.py has put the phrases.
    let spoken = [0.48, 1.15, 1.86, 4.13, 4.99, 5.63];
    assert_eq!(found.len(), spoken.len(), "{text}");
    for (found, spoken) in found.into_iter().zip(spoken) {
        assert!((found - spoken).abs() < 0.1, "{text}");
    }
    assert!(text.starts_with("6.40 s were heard, "), "{text}");
}

#[test]
fn words_are_shown_as_they_are_written() {
    let mut child = example("streaming")
        .arg("The sea")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut text, mut parts, mut buffer) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        let length = stdout.read(&mut buffer).unwrap();
        if length == 0 {
            break;
        }
        text.extend_from_slice(&buffer[..length]);
        parts.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(text).unwrap();
    let (story, end) = text.trim_end().rsplit_once("\n\n").unwrap();
    let story: Vec<&str> = story.split_whitespace().collect();
    assert_eq!(story[..2], ["The", "sea"]);
    let count: usize = end.split(' ').next().unwrap().parse().unwrap();
    assert_eq!((count >= 30, story.len()), (true, count + 2), "{text}");
    let known = fs::read_to_string(root().join("examples/streaming/writer/story.txt")).unwrap();
    let known: HashSet<&str> = known.split_whitespace().collect();
    assert!(story.iter().all(|word| known.contains(word)), "{text}");
    // Most words came by themselves, however busy the machine is.
    assert!(parts.len() > 10, "{parts:?}");
}

#[test]
fn the_drawings_fit_a_terminal() {
    for name in ALL {
        // Some take their time.
        let runs = [true, false].map(|is_coloured| {
            let run = thread(move || in_terminal(name, is_coloured, COLUMNS));
            (is_coloured, run)
        });
        for (is_coloured, run) in runs {
            let run = run.join().unwrap();
            let text = run.text();
            assert_eq!(run.code, Some(0), "{name}: {text}{}", run.stderr);
            assert_eq!(
                text.contains("\u{1b}["),
                is_coloured || name == "voice",
                "{text}"
            );
            assert!(!text.contains("\u{1b}[3") || is_coloured, "{text}");
            let shown = last_state(&text);
            // The first run in a tree compiles its custom node, and says so.
            let not_said = usize::from(name == "ocr" && !text.contains("$ make"));
            let lines = shown.len() + not_said;
            assert!(lines <= LINES, "{name}: {lines} lines\n{text}");
            for line in &shown {
                assert!(line.chars().count() <= COLUMNS, "{name}: {line}");
            }
            assert!(shown.iter().any(|line| line.contains(['█', '━', '[', '.'])));
        }
    }
}

#[test]
fn drawings_of_images_fit_a_narrow_terminal() {
    let columns = 40;
    for name in ["ocr", "shapes"] {
        let run = in_terminal(name, false, columns);
        let text = run.text();
        assert_eq!(run.code, Some(0), "{name}: {text}{}", run.stderr);
        // The drawing is between the commands and a sentence.
        let shown = last_state(&text);
        let drawn = shown
            .iter()
            .rev()
            .skip(1)
            .take_while(|line| !line.is_empty());
        let drawn: Vec<_> = drawn.collect();
        assert!(drawn.len() > 5, "{name}: {text}");
        for line in drawn {
            assert!(line.chars().count() <= columns, "{name}: {line}\n{text}");
        }
    }
}

/// Returns the last state of a terminal, without colours and redrawn lines.
fn last_state(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.split('\n') {
        let mut plain = String::new();
        let mut parts = line.trim_end_matches('\r').split("\u{1b}[");
        plain.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap();
            if part[end..].starts_with('A') {
                let up: usize = part[..end].parse().unwrap();
                lines.truncate(lines.len() - up);
            }
            plain.push_str(&part[end + 1..]);
        }
        lines.push(plain);
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[test]
fn no_server_is_left_after_ctrl_c() {
    let reported = broken_off();
    assert!(!reported.contains("Traceback"), "{reported}");
    let words: Vec<&str> = reported.split_whitespace().collect();
    let ports = words.windows(2).filter(|pair| pair[0].ends_with("port"));
    let ports: Vec<u16> = ports.map(|pair| pair[1].parse().unwrap()).collect();
    assert_eq!(ports.len(), 2, "{reported}");
    for port in ports {
        eventually("nobody listens", || {
            TcpStream::connect(("127.0.0.1", port))
                .is_err()
                .then_some(())
        });
    }
}

/// Interrupts a story at its first words and returns the messages of the example.
fn broken_off() -> String {
    let mut child = example("streaming")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let reported = thread(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    // It is writing.
    let mut text = String::new();
    let mut buffer = [0; 256];
    while !text.contains("Once upon a ") {
        let length = stdout.read(&mut buffer).unwrap();
        assert!(length > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    interrupt(&child);
    let code = child.wait().unwrap().code();
    let reported = reported.join().unwrap().unwrap();
    assert_eq!(code, Some(130), "{reported}");
    reported
}

#[test]
fn what_is_missing_is_reported() {
    // A Python, and nothing else.
    let folder = tempfile::tempdir().unwrap();
    let python = cli::run(with_ovms("python3").args(["-c", "import sys; print(sys.executable)"]));
    std::os::unix::fs::symlink(python.text().trim(), folder.path().join("python3")).unwrap();
    let copy = folder.path().join("clone");
    let status = Command::new("cp")
        .arg("-r")
        .arg(root().join("examples"))
        .arg(&copy)
        .status();
    assert!(status.unwrap().success());
    let alone = |run: &Path| {
        let mut command = Command::new(folder.path().join("python3"));
        cli::run(command.arg(run).env("PATH", folder.path()))
    };
    let run = alone(&copy.join("voice/run"));
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.starts_with("error: there is no `ovms` in PATH"),
        "{}",
        run.stderr
    );
    // A model that is not there: the server's own words, and no Traceback.
    let mut command = with_ovms(copy.join("voice/run"));
    let run = cli::run(command.env("TMPDIR", folder.path()));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("error: the server does not serve `vad`"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("Traceback"), "{}", run.stderr);
    let run = cli::run(example("voice").arg("no.wav"));
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("hint: name a WAV file"),
        "{}",
        run.stderr
    );
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let scene = fs::read(root().join("examples/shapes/scene.png")).unwrap();
    let speech = fs::read(root().join("examples/voice/speech.wav")).unwrap();
    let deep = [&speech[..34], &[24], &speech[35..]].concat();
    for (name, contents, expected) in [
        ("shapes", &scene[..3000], "is cut short or damaged: "),
        ("shapes", &scene[..20], "is cut short or damaged: "),
        ("shapes", &scene[..8], "is cut short or damaged: "),
        ("shapes", b"", " is no PNG"),
        (
            "voice",
            &speech[..45],
            " has 0 samples, expected 512 at least",
        ),
        ("voice", &deep, " samples a second of 24 bits, 1 channels"),
    ] {
        let file = folder.path().join("file");
        fs::write(&file, contents).unwrap();
        let run = cli::run(example(name).arg(&file));
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let (error, hint) = run.stderr.trim_end().split_once('\n').unwrap();
        assert!(
            error.starts_with("error: ") && error.contains(expected),
            "{error}"
        );
        assert!(hint.starts_with("hint: ") && !hint.contains('\n'), "{hint}");
    }
}
