//! Framed messages over a stream socket, with descriptors.
//!
//! A frame is the length of a message in four bytes, least first, and the message. A descriptor comes with the frame
//! of the message that is about it.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Bytes before a message.
const PREFIX: usize = 4;

/// Maximum size of a message in bytes: far more than any that either side makes.
const MAX_MESSAGE: usize = 256 << 20;

/// Maximum number of bytes that are read at a time.
const MAX_READ: usize = 64 << 10;

/// Maximum number of descriptors that are received at a time.
const MAX_DESCRIPTORS: usize = 8;

/// Messages that were received in part.
#[derive(Debug)]
pub struct Incoming {
    /// Buffer that the system fills.
    buffer: Box<[u8]>,
    bytes: BytesMut,
    /// `None` for one that the system has dropped.
    descriptors: VecDeque<Option<OwnedFd>>,
    /// Indicates that the system had no more when it was asked last.
    has_all: bool,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            buffer: vec![0; MAX_READ].into_boxed_slice(),
            bytes: BytesMut::new(),
            descriptors: VecDeque::new(),
            has_all: false,
        }
    }
}

impl Incoming {
    /// Receives what there is, and returns how many bytes that was; 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Fails as the system call does; with `WouldBlock`, if there is nothing.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        // After an error there is nothing, either.
        self.has_all = true;
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received =
            rustix::io::retry_on_intr(|| recvmsg(&socket, &mut slices, &mut ancillary, flags));
        let received = received?;
        let bytes = received.bytes;
        self.bytes.extend_from_slice(&self.buffer[..bytes]);
        self.has_all = bytes < MAX_READ;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.map(Some));
                // The system stops behind them, whatever follows.
                self.has_all = false;
            }
        }
        // A message has one at most, so that this is the one that came last.
        if received.flags.contains(ReturnFlags::CTRUNC) {
            self.descriptors.push_back(None);
            self.has_all = false;
        }
        Ok(bytes)
    }

    /// Waits until there is something, and receives it. A thread that waited in `recvmsg` itself would be woken by the
    /// other side's reading too, since that makes room.
    ///
    /// # Errors
    ///
    /// Fails as the system calls do.
    pub fn wait(&mut self, socket: impl AsFd) -> io::Result<usize> {
        loop {
            match self.receive(&socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut readable = [PollFd::new(&socket, PollFlags::IN)];
                    rustix::io::retry_on_intr(|| poll(&mut readable, None))?;
                }
                received => return received,
            }
        }
    }

    /// Returns whether the system had no more when it was asked last.
    pub fn has_all(&self) -> bool {
        self.has_all
    }

    /// Returns the next message that is whole.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are none.
    pub fn take<M: Message + Default>(&mut self) -> io::Result<Option<M>> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > MAX_MESSAGE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message is too long",
            ));
        }
        if self.bytes.len() < PREFIX + length {
            return Ok(None);
        }
        self.bytes.advance(PREFIX);
        let message: Bytes = self.bytes.split_to(length).freeze();
        M::decode(message).map(Some).map_err(io::Error::other)
    }

    /// Takes the descriptor that has come with the last message; `None` if this process had as many as it may, so that
    /// the system has dropped it.
    ///
    /// # Errors
    ///
    /// Fails if none has come.
    pub fn descriptor(&mut self) -> io::Result<Option<OwnedFd>> {
        self.descriptors.pop_front().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "a message came without its descriptor",
            )
        })
    }
}

/// Messages that are not sent yet.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: BytesMut,
    /// Descriptors, with the number of bytes in front of their frames.
    descriptors: VecDeque<(usize, OwnedFd)>,
}

impl Outgoing {
    /// Adds a message.
    pub fn push(&mut self, message: &impl Message) {
        let length = message.encoded_len();
        self.bytes.reserve(PREFIX + length);
        // Far below the limit.
        let prefix = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&prefix.to_le_bytes());
        // There is room.
        let _ = message.encode(&mut self.bytes);
    }

    /// Adds a message that is about a descriptor.
    pub fn push_with(&mut self, message: &impl Message, descriptor: OwnedFd) {
        self.descriptors.push_back((self.bytes.len(), descriptor));
        self.push(message);
    }

    /// Returns whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns how many bytes are not sent.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Sends what can be sent at once, or waits for all if the socket blocks.
    ///
    /// # Errors
    ///
    /// Fails as the system call does; with `WouldBlock`, if the socket does not block and is full.
    pub fn send(&mut self, socket: impl AsFd) -> io::Result<()> {
        while !self.bytes.is_empty() {
            // Bytes up to the next descriptor; those from there on go with it.
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let is_here = matches!(self.descriptors.front(), Some((0, _)));
            let next = self.descriptors.get(usize::from(is_here));
            let end = next.map_or(self.bytes.len(), |(at, _)| *at);
            let descriptor = self.descriptors.front().filter(|_| is_here);
            let descriptor = descriptor.map(|(_, descriptor)| [descriptor.as_fd()]);
            if let Some(descriptor) = &descriptor {
                ancillary.push(SendAncillaryMessage::ScmRights(descriptor));
            }
            let slices = [IoSlice::new(&self.bytes[..end])];
            let sent = rustix::io::retry_on_intr(|| {
                sendmsg(&socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)
            })?;
            if is_here {
                self.descriptors.pop_front();
            }
            self.bytes.advance(sent);
            for (at, _) in &mut self.descriptors {
                *at -= sent;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Seek as _, Write as _},
        os::unix::net::UnixStream,
        path::Path,
    };

    use super::{Incoming, Outgoing};
    use crate::message::Numbered;

    fn numbered(number: u64) -> Numbered {
        Numbered { number }
    }

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn messages_come_in_order_each_with_its_descriptor() {
        let (one, other) = UnixStream::pair().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.push(&numbered(1));
        outgoing.push_with(&numbered(2), file("two").into());
        outgoing.push(&numbered(3));
        outgoing.push_with(&numbered(4), file("four").into());
        outgoing.send(&one).unwrap();
        assert!(outgoing.is_empty());
        drop(one);
        let mut incoming = Incoming::default();
        while incoming.receive(&other).unwrap() > 0 {}
        for number in 1..=4 {
            let message: Numbered = incoming.take().unwrap().unwrap();
            assert_eq!(message.number, number);
            if number % 2 == 0 {
                let mut text = String::new();
                File::from(incoming.descriptor().unwrap().unwrap())
                    .read_to_string(&mut text)
                    .unwrap();
                assert_eq!(text, if number == 2 { "two" } else { "four" });
            }
        }
        assert!(incoming.take::<Numbered>().unwrap().is_none());
        assert!(incoming.descriptor().is_err());
    }

    #[test]
    fn a_reader_knows_when_there_is_no_more() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let mut incoming = Incoming::default();
        assert!(incoming.receive(&other).is_err() && incoming.has_all());
        one.write_all(&[0; super::MAX_READ + 1]).unwrap();
        assert_eq!(incoming.receive(&other).unwrap(), super::MAX_READ);
        assert!(!incoming.has_all(), "the buffer is full");
        assert_eq!(incoming.receive(&other).unwrap(), 1);
        assert!(incoming.has_all());
        // Behind a descriptor there may be more, whether or not there is.
        let mut outgoing = Outgoing::default();
        outgoing.push_with(&numbered(1), file("one").into());
        outgoing.send(&one).unwrap();
        one.write_all(b"more").unwrap();
        let first = incoming.receive(&other).unwrap();
        assert!(!incoming.has_all(), "{first} bytes came with it");
    }

    #[test]
    fn a_reader_that_waits_sleeps_while_the_other_side_reads() {
        const MESSAGES: usize = 100;
        let (mut one, mut other) = UnixStream::pair().unwrap();
        let reader = other.try_clone().unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let reading = std::thread::Builder::new().spawn(move || {
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            begun.send(Path::new("/proc").join(thread)).unwrap();
            Incoming::default().wait(&reader).unwrap()
        });
        let thread = begins.recv().unwrap();
        let status = |line: &str| {
            let status = std::fs::read_to_string(thread.join("status")).unwrap();
            let mut lines = status.lines();
            let value = lines.find_map(|it| it.strip_prefix(line)?.strip_prefix(":\t"));
            value.unwrap().to_owned()
        };
        let sleeps = || status("voluntary_ctxt_switches").parse::<usize>().unwrap();
        while !status("State").starts_with('S') {
            std::thread::yield_now();
        }
        let before = sleeps();
        for _ in 0..MESSAGES {
            other.write_all(&[1]).unwrap();
            one.read_exact(&mut [0]).unwrap();
            std::thread::yield_now();
        }
        assert!(
            sleeps() < before + MESSAGES / 10,
            "it slept {} times",
            sleeps() - before
        );
        one.write_all(&[1]).unwrap();
        assert_eq!(reading.unwrap().join().unwrap(), 1);
    }

    #[test]
    fn a_message_may_come_in_any_number_of_parts() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let mut incoming = Incoming::default();
        for byte in [2, 0, 0, 0, 8, 200] {
            assert!(incoming.take::<Numbered>().unwrap().is_none());
            one.write_all(&[byte]).unwrap();
            assert_eq!(incoming.receive(&other).unwrap(), 1);
        }
        assert!(
            incoming.take::<Numbered>().is_err(),
            "a number goes on behind it"
        );
        one.write_all(&[255; 4]).unwrap();
        incoming.receive(&other).unwrap();
        assert!(incoming.take::<Numbered>().is_err(), "nothing is that long");
    }

    #[test]
    fn a_socket_that_is_full_takes_the_rest_later() {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let mut outgoing = Outgoing::default();
        for number in 0..200_000 {
            outgoing.push(&numbered(number));
        }
        assert_eq!(
            outgoing.send(&one).unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock
        );
        let mut incoming = Incoming::default();
        let mut expected = 0;
        while expected < 200_000 {
            incoming.receive(&other).unwrap();
            while let Some(message) = incoming.take::<Numbered>().unwrap() {
                assert_eq!(message.number, expected);
                expected += 1;
            }
            let _ = outgoing.send(&one);
        }
        assert!(outgoing.is_empty());
    }
}
