//! HTTP/2 as raw frames, which no well-behaved library would send.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use prost::Message;

use crate::support::Server;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

/// Flag of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 1;
/// Flag of HEADERS and CONTINUATION.
pub(super) const END_HEADERS: u8 = 4;
/// Flag of SETTINGS and PING.
pub(super) const ACK: u8 = 1;

pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;
pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;

pub(super) const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
pub(super) const STREAM_INFER: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// An HTTP/2 connection.
pub(super) struct Http2 {
    stream: TcpStream,
    /// Stream id of the next call.
    next: u32,
    /// Settings of the server.
    pub(super) settings: Vec<(u16, u32)>,
}

/// A frame from the server.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Http2 {
    /// Connects without waiting for bytes from the server, which may have no slot yet.
    pub(super) fn waiting(server: &Server) -> Self {
        let mut connection = Self::open_socket(server);
        connection.say(&[]);
        connection
    }

    /// Connects, sends the preface with these settings, and reads the server's.
    pub(super) fn connect(server: &Server, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self::open_socket(server);
        connection.say(settings);
        connection.settings = connection.server_settings();
        // The server takes more than the usual 64 KiB from when it has said so.
        connection.until("room", |frame| {
            frame.kind == WINDOW_UPDATE && frame.stream == 0
        });
        connection
    }

    fn open_socket(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("sockets take limits");
        let mut connection = Self {
            stream,
            next: 1,
            settings: Vec::new(),
        };
        connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        connection
    }

    /// Sends bytes; errors of a closed connection are left to the reader.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends as much as the server takes without a pause; returns whether that was all.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let pause = Some(Duration::from_millis(500));
        let limited = self.stream.set_write_timeout(pause);
        limited.is_ok() && self.stream.write_all(bytes).is_ok()
    }

    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&frame(kind, flags, stream, payload));
    }

    pub(super) fn say(&mut self, settings: &[(u16, u32)]) {
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| {
                let value = value.to_be_bytes();
                name.to_be_bytes().into_iter().chain(value)
            })
            .collect();
        self.frame(SETTINGS, 0, 0, &payload);
    }

    pub(super) fn ping(&mut self) {
        self.frame(PING, 0, 0, &[7; 8]);
    }

    /// Opens a stream with the head of a call; returns its number.
    pub(super) fn open(&mut self, path: &str) -> u32 {
        self.open_with(&head(path))
    }

    /// Opens a stream with a header block; returns its number.
    pub(super) fn open_with(&mut self, block: &[u8]) -> u32 {
        let stream = self.next;
        self.next += 2;
        self.frame(HEADERS, END_HEADERS, stream, block);
        stream
    }

    /// Sends a whole call.
    pub(super) fn call(&mut self, path: &str, message: &impl Message) -> u32 {
        let stream = self.open(path);
        self.frame(DATA, END_STREAM, stream, &framed(message));
        stream
    }

    /// Reads the next frame, if one comes within the limit of the socket; settings are acknowledged.
    pub(super) fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload)?;
        let frame = Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.frame(SETTINGS, ACK, 0, &[]);
        }
        Ok(frame)
    }

    /// Reads until a frame matches.
    pub(super) fn until(&mut self, what: &str, is: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            match self.read() {
                Ok(frame) if is(&frame) => return frame,
                Ok(_) => {}
                Err(error) => panic!("waited in vain for {what}: {error}"),
            }
        }
    }

    fn server_settings(&mut self) -> Vec<(u16, u32)> {
        let frame = self.until("settings", |frame| frame.kind == SETTINGS);
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, &byte| sum << 8 | u32::from(byte))
        };
        frame
            .payload
            .chunks(6)
            .map(|pair| {
                let name = number(&pair[..2]).try_into().expect("it has two bytes");
                (name, number(&pair[2..]))
            })
            .collect()
    }

    /// Reads until the server has closed, and repeats an action meanwhile; returns the time it took,
    /// and the frames.
    pub(super) fn until_closed(
        &mut self,
        mut meanwhile: impl FnMut(&mut Self),
    ) -> (Duration, Vec<Frame>) {
        const LIMIT: Duration = Duration::from_secs(30);
        let started = Instant::now();
        let mut frames = Vec::new();
        loop {
            // Only a frame's first byte may be long in coming.
            let pause = Some(Duration::from_millis(50));
            self.stream.set_read_timeout(pause).expect("it takes one");
            let peeked = self.stream.peek(&mut [0]);
            let limit = Some(LIMIT);
            self.stream.set_read_timeout(limit).expect("it takes one");
            match peeked {
                Ok(0) => return (started.elapsed(), frames),
                Ok(_) => match self.read() {
                    Ok(frame) => frames.push(frame),
                    Err(_) => return (started.elapsed(), frames),
                },
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(_) => return (started.elapsed(), frames),
            }
            meanwhile(self);
            assert!(started.elapsed() < LIMIT, "it stays open");
        }
    }
}

/// Encodes a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes the header block of a gRPC call.
pub(super) fn head(path: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        header(&mut block, name, value);
    }
    block
}

/// Adds a literal header without indexing (RFC 7541, 6.2.2).
pub(super) fn header(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        length(block, text.len());
        block.extend(text.as_bytes());
    }
}

/// Encodes the length of a string (RFC 7541, 5.1).
fn length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(127) else {
        return block.push(length.try_into().expect("it is below 127"));
    };
    block.push(127);
    while rest >= 128 {
        block.push((rest % 128 + 128).try_into().expect("it is below 256"));
        rest /= 128;
    }
    block.push(rest.try_into().expect("it is below 128"));
}

/// Frames a message as gRPC does.
pub(super) fn framed(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).expect("it is short");
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    message.encode(&mut framed).expect("a Vec takes it");
    framed
}
