//! Sheets of `tests/conformance`: requests and commands, each with the answer below it.
//!
//! A line at the margin is a step; the indented lines below it are its answer. `UPDATE_SHEETS=1` writes the
//! answers that came instead of comparing them.
//!
//! - `# …` is a comment.
//! - `serve MODEL [FLAGS]` starts a server of a fixture model: the shared one where no flags follow.
//!   `serve --config_path FILE [FLAGS]` starts one of a configuration file of the sheet, and `serve endless [FLAGS]` one
//!   of a model whose load never ends.
//! - `stop` ends the server of a configuration file, and waits until it and its workers have ended.
//! - `file NAME` writes the indented lines below it into a file of the sheet.
//! - `relu FOLDER INPUT OUTPUT SHAPE` writes a model of one operation, `strings FOLDER RANK` one of strings.
//! - `generator` starts the fake server of graphs ([`crate::support::generator`]), which commands ask from then on.
//! - `code GRAPH` sends the lines behind it to a graph whose handler runs them ([`crate::support::graphs::CODE`]).
//! - `library NAME SOURCE` compiles a custom node of the fixtures to `NAME.so`.
//! - `log TEXT` waits for the lines of the server's log with this text, each once.
//! - `history TEXT` waits for the lines with this text as well, and shows what follows it in each, in their order.
//! - `over WIRE, …` chooses the wires of the steps that follow, or forms of them; by default an inference goes over all.
//! - `request FORM` is the form of the calls that follow, which have but what takes the place of each `…`, with `|`
//!   between two of them; `request …` ends it.
//! - `POST /PATH [BODY]` is a call over REST, and `SERVICE/METHOD MESSAGE`, with the message as JSON, one over gRPC
//!   ([`calls`]).
//! - `MODEL INPUT TYPE SHAPE …` is an inference, sent in every form of every wire ([`inference`]). Where answers
//!   differ, each names its forms.
//! - `$ COMMAND` is a command for `sh`, in a folder of the sheet ([`shell`]).
//!
//! Codes of gRPC stand for the statuses of REST as well ([`CODES`]), and `<address>`, `<folder>`, and `<version>` for
//! what is another one each time.

mod calls;
mod inference;
mod log;
mod request;
mod shell;

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    Server, fixture, generator::Generator, graphs, grpc::Grpc, http, ir, nodes, repository,
};

/// Code of gRPC and status of REST for the same refusal.
const CODES: [(&str, u16); 5] = [
    ("InvalidArgument", 400),
    ("NotFound", 404),
    ("Unimplemented", 501),
    ("Unavailable", 503),
    ("DeadlineExceeded", 504),
];

/// Indentation of an answer.
const INDENT: &str = "    ";

/// Makes a test of each sheet of a folder, and one that none is left out.
macro_rules! sheets {
    ($folder:literal: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                crate::support::sheet::run($folder, stringify!($name));
            }
        )*

        #[test]
        fn every_sheet_is_run() {
            crate::support::sheet::assert_listed($folder, &[$(stringify!($name)),*]);
        }
    };
}
pub(crate) use sheets;

/// Runs a sheet from its first step to its last.
///
/// # Panics
///
/// If an answer is another one than the sheet has.
pub(crate) fn run(folder: &str, name: &str) {
    let path = place(folder).join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap();
    let mut sheet = Sheet::new();
    let mut came = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(came, "{line}").unwrap();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        assert!(
            !line.starts_with(' '),
            "{name}: no step has this answer: {line}"
        );
        let mut step = line.to_owned();
        while let Some(more) = lines.next_if(|more| more.starts_with('>')) {
            writeln!(came, "{more}").unwrap();
            step = format!(
                "{step}\n{}",
                more[1..].strip_prefix(' ').unwrap_or(&more[1..])
            );
        }
        let below = below(&mut lines);
        let answer = match step.split_once(' ') {
            Some(("file", name)) => {
                sheet.write(name, &below);
                below
            }
            _ => sheet.step(&step, below.lines().count()),
        };
        for line in visible(&answer).trim_end().lines() {
            let indent = if line.is_empty() { "" } else { INDENT };
            writeln!(came, "{indent}{line}").unwrap();
        }
    }
    sheet.assert_live();
    if is_updated() {
        fs::write(path, came).unwrap();
    } else {
        assert_same(&format!("{folder}/{name}.txt"), &text, &came);
    }
}

/// Asserts that a list has all sheets of a folder.
pub(crate) fn assert_listed(folder: &str, listed: &[&str]) {
    for entry in fs::read_dir(place(folder)).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let is_listed = name
            .strip_suffix(".txt")
            .is_some_and(|name| listed.contains(&name));
        assert!(is_listed, "{folder}/{name} is not run");
    }
}

fn place(folder: &str) -> PathBuf {
    Path::new(env!("WORKSPACE_ROOT"))
        .join("tests/conformance")
        .join(folder)
}

/// Takes the indented lines, and the empty ones between them.
fn below<'a>(lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str> + Clone>) -> String {
    let mut text = String::new();
    loop {
        let mut ahead = lines.clone().skip_while(|line| line.is_empty());
        if !ahead.next().is_some_and(|line| line.starts_with(INDENT)) {
            return text;
        }
        let line = lines.next().unwrap_or_default();
        writeln!(text, "{}", line.strip_prefix(INDENT).unwrap_or(line)).unwrap();
    }
}

/// Asserts that texts are the same, and shows the lines that are not.
fn assert_same(name: &str, expected: &str, came: &str) {
    if expected == came {
        return;
    }
    let expected: Vec<&str> = expected.lines().collect();
    let came: Vec<&str> = came.lines().collect();
    let first = expected
        .iter()
        .zip(&came)
        .take_while(|(one, other)| one == other)
        .count();
    let shown = |lines: &[&str]| {
        let from = first.saturating_sub(2).min(lines.len());
        lines[from..lines.len().min(first + 8)].join("\n")
    };
    panic!(
        "{name}:{}: expected\n{}\ncame\n{}\n(UPDATE_SHEETS=1 writes what came)",
        first + 1,
        shown(&expected),
        shown(&came)
    );
}

/// State between the steps.
struct Sheet {
    served: Option<Served>,
    generator: Option<Generator>,
    folder: TempDir,
    /// Repository of the model that never loads.
    endless: Option<TempDir>,
    /// Wires that are chosen.
    over: Vec<String>,
    /// Form of the calls.
    request: String,
}

/// A running server, with a client.
struct Served {
    server: Running,
    grpc: Grpc,
}

enum Running {
    Own(Server),
    Shared(&'static Server),
}

impl Served {
    fn server(&self) -> &Server {
        match &self.server {
            Running::Own(server) => server,
            Running::Shared(server) => server,
        }
    }
}

impl Sheet {
    fn new() -> Self {
        let folder = repository::folder();
        symlink(fixture(""), folder.path().join("fixtures")).unwrap();
        Self {
            served: None,
            generator: None,
            folder,
            endless: None,
            over: Vec::new(),
            request: "…".to_owned(),
        }
    }

    /// Takes a step, and returns its answer, which is to have some lines.
    fn step(&mut self, step: &str, lines: usize) -> String {
        let (first, rest) = step.split_once(' ').unwrap_or((step, ""));
        let words = || -> Vec<String> { rest.split_whitespace().map(str::to_owned).collect() };
        match first {
            "serve" => self.serve(rest),
            "stop" => {
                let Some(Running::Own(mut server)) = self.served.take().map(|it| it.server) else {
                    panic!("`stop` is for a server of the sheet");
                };
                server.signal("TERM");
                assert!(server.wait().success(), "{}", server.log());
            }
            "over" => self.over = rest.split(',').map(|wire| wire.trim().to_owned()).collect(),
            "generator" => self.generator = Some(Generator::start()),
            "library" => {
                let (name, source) = rest.split_once(' ').unwrap();
                let library = self.folder.path().join(format!("{name}.so"));
                symlink(nodes::compiled(source), library).unwrap();
            }
            "code" => {
                let (graph, body) = rest.split_once('\n').unwrap();
                return graphs::reported(&self.served().grpc, graphs::code(graph, body));
            }
            "log" => {
                let folder = self.folder.path().to_str().unwrap();
                let text = rest.replace("<folder>", folder);
                return self.redacted(&log::lines(self.served().server(), &text, lines));
            }
            "history" => return log::history(self.served().server(), rest, lines),
            "strings" => {
                let (folder, rank) = rest.split_once(' ').unwrap();
                ir::strings(&self.folder.path().join(folder), rank.parse().unwrap());
            }
            "relu" => {
                let [folder, input, output, shape] = &words()[..] else {
                    panic!("{step}: found other than four words");
                };
                let shape: Vec<usize> = serde_json::from_str(shape).unwrap();
                ir::relu(&self.folder.path().join(folder), input, output, &shape);
            }
            "request" => self.request = rest.to_owned(),
            "$" => return self.redacted(&shell::run(self, rest)),
            _ if self.request != "…"
                || first == "graph"
                || first.contains('/')
                || rest.starts_with('/') =>
            {
                return self.redacted(&calls::send(self.served(), &filled(&self.request, step)));
            }
            _ => return self.redacted(&inference::send(self.served(), &self.over, step)),
        }
        String::new()
    }

    fn serve(&mut self, args: &str) {
        let args = shell::words(args);
        let flags: Vec<&str> = args.iter().map(String::as_str).collect();
        let server = match &flags[..] {
            ["endless", flags @ ..] => {
                let root = self.endless.insert(repository::endless());
                let server = Server::begin("endless", root.path(), flags);
                server.wait_log("loading");
                Running::Own(server)
            }
            [name] => Running::Shared(Server::shared(name)),
            ["--config_path", file, flags @ ..] => {
                let server = Server::of_file(&self.folder.path().join(file), flags);
                server.wait_ready();
                Running::Own(server)
            }
            [name, flags @ ..] => Running::Own(Server::start_with(name, flags)),
            [] => panic!("`serve` names a model"),
        };
        let grpc = Grpc::connect(match &server {
            Running::Own(server) => server,
            Running::Shared(server) => server,
        });
        self.assert_live();
        self.served = Some(Served { server, grpc });
    }

    fn served(&self) -> &Served {
        self.served
            .as_ref()
            .expect("a line with `serve` comes first")
    }

    /// Asserts that the server is there after all that was sent.
    fn assert_live(&self) {
        if let Some(served) = &self.served {
            let live = http::get(served.server(), "/v2/health/live");
            assert_eq!(live.status, 200);
        }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Replaces what is another one each time.
    fn redacted(&self, text: &str) -> String {
        let mut text = text
            .replace(self.folder.path().to_str().unwrap(), "<folder>")
            .replace(env!("CARGO_PKG_VERSION"), "<version>")
            .replace(fixture("").to_str().unwrap(), "fixtures/");
        if let Some(served) = &self.served {
            for port in [served.server().port, served.server().rest_port] {
                text = text.replace(&format!("127.0.0.1:{port}"), "<address>");
            }
        }
        if let Some(generator) = &self.generator {
            text = text.replace(&format!("127.0.0.1:{}", generator.port), "<address>");
        }
        text
    }
}

/// Returns whether the sheets are to have the answers that come.
fn is_updated() -> bool {
    std::env::var_os("UPDATE_SHEETS").is_some()
}

/// Spells characters that are not seen.
fn visible(text: &str) -> String {
    let spelled = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(spelled).collect()
}

/// Fills the gaps of a form.
fn filled(form: &str, parts: &str) -> String {
    if form == "…" {
        return parts.to_owned();
    }
    let mut parts = parts.split('|').map(str::trim);
    let mut pieces = form.split('…');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push_str(parts.next().unwrap_or_default());
        text.push_str(piece);
    }
    assert!(parts.all(str::is_empty), "{form} has no place for it");
    text
}

/// Returns the answers of several forms: one if all are the same, else each with its forms.
fn grouped(answers: &[(String, String)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (form, answer) in answers {
        match groups.iter_mut().find(|(known, _)| known == answer) {
            Some((_, forms)) => forms.push(form),
            None => groups.push((answer, vec![form])),
        }
    }
    match &groups[..] {
        [(answer, _)] => (*answer).to_owned(),
        groups => groups.iter().fold(String::new(), |text, (answer, forms)| {
            let forms = shortened(forms, answers);
            if answer.trim_end().contains('\n') {
                format!("{text}-- {forms}\n{}\n", answer.trim_end())
            } else {
                format!("{text}{forms}: {}\n", answer.trim_end())
            }
        }),
    }
}

/// Writes a list of forms, with the wire alone where all of its forms are there.
fn shortened(forms: &[&str], answers: &[(String, String)]) -> String {
    let wire = |form: &str| form.split(' ').next().unwrap_or_default().to_owned();
    let is_whole = |of: &str| {
        let mut all = answers.iter().filter(|(form, _)| wire(form) == of);
        all.all(|(form, _)| forms.contains(&form.as_str()))
    };
    let mut names: Vec<String> = Vec::new();
    for form in forms {
        let wire = wire(form);
        let name = if is_whole(&wire) {
            wire
        } else {
            (*form).to_owned()
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}
