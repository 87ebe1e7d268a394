//! `ovms infer --sequence --retries`: a sequence goes on where its server dies, and no step is counted twice.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout},
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicU32, Ordering},
    },
};

use super::{MODEL, STEP, serve, shared};
use crate::support::{
    Server,
    cli::Run,
    http::get,
    infer::{GRPC, REST, TFS_GRPC, TFS_REST, at, port},
    repository,
    server::free_ports,
    steps::{ended, spawn},
    thread,
};

/// A way to a server that another one may take the place of, and which loses answers: it closes the connection instead.
struct Way {
    port: u16,
    server: Arc<AtomicU16>,
    lost: Arc<AtomicU32>,
}

impl Way {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Self {
            port,
            server: Arc::new(server.into()),
            lost: Arc::default(),
        };
        let (server, lost) = (Arc::clone(&way.server), Arc::clone(&way.lost));
        // Until the test ends.
        let _listens = thread(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let port = server.load(Ordering::Relaxed);
                // One that cannot be reached closes the connection as well.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                    join(client, server, &lost);
                }
            }
        });
        way
    }
}

fn join(client: TcpStream, server: TcpStream, lost: &Arc<AtomicU32>) {
    let lost = Arc::clone(lost);
    let ways = [
        (client.try_clone().unwrap(), server.try_clone().unwrap()),
        (server, client),
    ];
    for (number, (mut from, mut to)) in ways.into_iter().enumerate() {
        let lost = Arc::clone(&lost);
        let _passes = thread(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let less = |count: u32| count.checked_sub(1);
                let is_answer = number == 1;
                let relaxed = Ordering::Relaxed;
                if is_answer && lost.fetch_update(relaxed, relaxed, less).is_ok() {
                    break;
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            for end in [from, to] {
                let _ = end.shutdown(Shutdown::Both);
            }
        });
    }
}

/// A client whose steps are written one by one.
struct Talk {
    id: u8,
    client: Child,
    steps: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    fn write(&mut self) {
        self.steps.write_all(b"[1,1,1,1]\n").unwrap();
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }

    fn answer(&mut self, number: u8) {
        let mut expected = format!("{},{number}", self.id);
        for _ in 0..4 {
            write!(expected, ",{number}.0").unwrap();
        }
        assert_eq!(self.read().trim_end(), expected);
    }

    fn end(self) -> Run {
        drop(self.steps);
        ended(self.client)
    }
}

fn begin(way: &Way, api: &str, id: u8, flags: &[&str]) -> Talk {
    // The header of the table comes with the first answer.
    let args = [MODEL, "-i", "-", "--sequence", "--each", "--output=csv"];
    let mut client = spawn(
        at(way.port, api)
            .args(args)
            .arg(format!("--sequence-id={id}"))
            .args(flags),
    );
    let mut talk = Talk {
        id,
        steps: client.stdin.take().unwrap(),
        answers: BufReader::new(client.stdout.take().unwrap()),
        client,
    };
    talk.write();
    assert!(talk.read().starts_with("sequence_id,step,"));
    talk.answer(1);
    talk
}

fn steps_of(server: &Server) -> u64 {
    let list = get(server, &format!("/v1/models/{MODEL}/sequences")).json();
    list["sequences"][0]["steps"].as_u64().unwrap_or(0)
}

#[test]
fn a_step_whose_answer_is_lost_is_counted_once() {
    let server = shared::file("step");
    for api in [REST, TFS_REST] {
        let way = Way::to(server.rest_port);
        let mut talk = begin(&way, api, 7, &["--retries", "5"]);
        for number in 2..5 {
            way.lost.store(2, Ordering::Relaxed);
            talk.write();
            talk.answer(number);
            assert_eq!(way.lost.load(Ordering::Relaxed), 0);
            assert_eq!(steps_of(server), u64::from(number));
        }
        // The end is a step as well.
        way.lost.store(1, Ordering::Relaxed);
        let run = talk.end();
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let warned = run.stderr.matches("; again in 0.").count();
        assert_eq!(warned, 7, "{}", run.stderr);
        assert!(
            run.stderr.contains(" s, 4 attempts left\n"),
            "{}",
            run.stderr
        );
        assert_eq!(steps_of(server), 0);
    }
}

#[test]
fn a_sequence_goes_on_with_the_server_that_takes_the_place_of_a_killed_one() {
    let folder = repository::folder();
    let store = format!("file://{}", folder.path().display());
    let [mut server]: [Server; 1] = serve(MODEL, &store, &STEP);
    let mut talks = [(GRPC, 7), (REST, 8), (TFS_GRPC, 9)].map(|(api, id)| {
        let way = Way::to(port(&server, api));
        let talk = begin(&way, api, id, &["--retries", "100"]);
        (api, way, talk)
    });
    for number in [2, 3] {
        server.signal("KILL");
        server.wait();
        for (_, _, talk) in &mut talks {
            talk.write();
        }
        [server] = serve(MODEL, &store, &STEP);
        for (api, way, talk) in &mut talks {
            way.server.store(port(&server, api), Ordering::Relaxed);
            talk.answer(number);
        }
    }
    for (api, _, talk) in talks {
        let run = talk.end();
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        assert!(run.stderr.contains("; again in "), "{}", run.stderr);
    }
}

#[test]
fn a_sequence_whose_attempts_are_over_stays_open() {
    let folder = repository::folder();
    let store = format!("file://{}", folder.path().display());
    let [mut server]: [Server; 1] = serve(MODEL, &store, &STEP);
    let way = Way::to(server.rest_port);
    let mut talk = begin(&way, REST, 7, &["--retries", "2"]);
    server.signal("KILL");
    server.wait();
    talk.write();
    let run = talk.end();
    assert_eq!(run.code, Some(69), "{}", run.stderr);
    assert_eq!(
        run.stderr.matches("; again in ").count(),
        2,
        "{}",
        run.stderr
    );
    let open = "hint: sequence 7 is open: `--sequence --continue --sequence-id 7` continues it from step 2";
    assert!(run.stderr.contains(open), "{}", run.stderr);
    let [server] = serve(MODEL, &store, &STEP);
    assert_eq!(steps_of(&server), 1, "it is in the store");
    let rest = [
        "-i=x=[[1,1,1,1]]",
        "--sequence",
        "--continue",
        "--sequence-id=7",
        "--output=csv",
    ];
    let rest = ended(spawn(at(server.rest_port, REST).arg(MODEL).args(rest)));
    assert!(rest.text().contains("\n2.0,2.0,2.0,2.0"), "{}", rest.text());
}

#[test]
fn what_is_refused_for_good_is_not_sent_again() {
    let server = crate::sequences::shared::server();
    let args = [
        "-i=x=[[1,1,1,1]]",
        "--sequence",
        "--continue",
        "--sequence-id=97",
        "--retries=5",
    ];
    let run = ended(spawn(at(server.port, GRPC).arg(MODEL).args(args)));
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(!run.stderr.contains("again in"), "{}", run.stderr);
    // Single requests have no attempts, with or without a sequence.
    let (nobody, _) = free_ports();
    for (more, expected) in [
        (&["--start"][..], "error: `--retries` needs `--sequence`\n"),
        (
            &["--continue", "--sequence-id=7"],
            "required arguments were not provided",
        ),
        (&[], "required arguments were not provided"),
    ] {
        let args = ["-i=x=[[1,1,1,1]]", "--retries=5"];
        let run = ended(spawn(at(nobody, GRPC).arg(MODEL).args(args).args(more)));
        assert_eq!(run.code, Some(64), "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}
