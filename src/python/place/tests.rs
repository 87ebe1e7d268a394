use super::*;

fn quick() -> Calls {
    let calls = Calls::new();
    calls.average.store(0, Ordering::Relaxed);
    calls
}

/// Runs work in place; long calls of other tests refuse that for a while.
fn in_place(calls: &Calls, work: impl Fn()) {
    let began = Instant::now();
    while calls.here(&work).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "never in place");
    }
}

/// Works for longer than the limit of a call in place, on any machine.
fn work() {
    let (began, effort) = (Instant::now(), Effort::now());
    while began.elapsed() <= TOO_LONG || Effort::now().worked - effort.worked <= TOO_LONG {
        std::hint::spin_loop();
    }
}

#[test]
fn who_works_or_waits_has_not_only_been_kept_from_its_processor() {
    let effort = Effort::now();
    work();
    assert!(!effort.is_little());
    let effort = Effort::now();
    std::thread::sleep(Duration::from_millis(1));
    assert!(!effort.is_little());
}

#[test]
fn a_call_that_takes_long_in_place_is_kept_off_for_a_while() {
    let calls = quick();
    in_place(&calls, || ());
    for times in 1..=3 {
        in_place(&calls, work);
        // One long call among short ones leaves the average low.
        calls.average.store(0, Ordering::Relaxed);
        assert_eq!(calls.banned.load(Ordering::Relaxed), PENALTY << (times - 1));
        while calls.banned.load(Ordering::Relaxed) > 0 {
            assert!(calls.here(|| ()).is_err());
        }
    }
}

#[test]
fn calls_that_take_long_are_never_in_place() {
    let calls = Calls::new();
    assert!(calls.here(|| ()).is_err());
    for _ in 0..100 {
        calls.learn(Duration::from_millis(1));
    }
    assert!(calls.here(|| ()).is_err());
    for _ in 0..100 {
        calls.learn(Duration::from_micros(5));
    }
    in_place(&calls, || ());
}

#[test]
fn one_call_is_in_place() {
    let calls = quick();
    in_place(&calls, || {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(quick().here(|| ()).is_err()));
        });
    });
}

#[test]
fn nothing_is_in_place_while_a_long_call_is_elsewhere() {
    Calls::new().away(|| assert!(quick().here(|| ()).is_err()));
    assert_eq!(quick().away(|| 5), 5);
}

#[test]
fn the_network_is_served_while_a_call_in_place_takes_long() {
    use std::{
        io::{Read, Write},
        net::TcpStream,
        sync::mpsc,
    };
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let (began, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Arc::new(Mutex::new(ends));
    let _server = runtime.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (began, ends) = (began.clone(), Arc::clone(&ends));
            crate::task::Task::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if byte == b'c' {
                        in_place(&quick(), || {
                            began.send(()).unwrap();
                            let ends = ends.lock().unwrap();
                            // The end of a call that blocked all others.
                            let _ = ends.recv_timeout(Duration::from_secs(20));
                        });
                    }
                    stream.write_u8(byte).await.unwrap();
                }
            })
            .detach();
        }
    });
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        let limit = Some(Duration::from_secs(10));
        stream.set_read_timeout(limit).unwrap();
        stream
    };
    let echo = |mut stream: &TcpStream| {
        stream.write_all(b"e").unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).expect("no answer");
        assert_eq!(answer, *b"e");
    };
    let (mut calling, other) = (connect(), connect());
    for _ in 0..20 {
        echo(&calling);
        echo(&other);
        calling.write_all(b"c").unwrap();
        begins.recv_timeout(Duration::from_secs(60)).unwrap();
        echo(&other);
        echo(&other);
        end.send(()).unwrap();
        let mut answer = [0];
        calling.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"c");
    }
}

#[tokio::test]
async fn a_handler_has_a_number_of_places() {
    let calls = Calls {
        places: Arc::new(Semaphore::new(2)),
        ..Calls::new()
    };
    let first = calls.place().await;
    let second = calls.place().await;
    assert!(futures::FutureExt::now_or_never(calls.place()).is_none());
    drop(first);
    let third = futures::FutureExt::now_or_never(calls.place());
    assert!(third.is_some());
    drop(second);
}
