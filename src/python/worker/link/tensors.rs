//! Tensors of calls: what of them lies in memory that both sides have.

use std::{
    collections::HashMap,
    fmt, io,
    os::fd::OwnedFd,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use pyovms::{
    memory::{Shared, Span, arena_length},
    message::{Arena, Contents, MAX_INLINE, MAX_TENSORS, Outputs, Tensor},
};

use super::{super::group::COMMON, Link};
use crate::{
    error::{Error, ErrorKind},
    python::{
        HandlerTensor,
        error::HandlerError,
        tensor::{Origin, RemoteObject},
    },
    tensor::DataType,
};

/// Bytes that are copied at a time, between which others have their turns: to wake a thread for the whole would take
/// longer than some of them. Of 512 KiB a copy into pages of 4 KiB takes a third more time for each byte: the C library
/// then leaves it to one instruction.
const PIECE: usize = 1 << 20;

/// Maximum number of arenas of a worker at once: each is a mapping, of which Linux lets a process have 65530.
const MAX_ARENAS: usize = 4096;

/// Maximum number of bytes in arenas of a worker at once, as a multiple of the budget, and where that is less. Results
/// that are on their way, and what the worker keeps for the next ones, are no use of the budget yet.
const MAX_SHARE: usize = 4;
const LEAST_SHARE: usize = 512 << 20;

/// Returns the most bytes that a worker may share at once, by the budget.
pub(in crate::python::worker) fn max_shared(budget: usize) -> u64 {
    budget.saturating_mul(MAX_SHARE).max(LEAST_SHARE) as u64
}

/// Arenas that a worker has announced and not ended, with their bytes.
#[derive(Default)]
pub(super) struct Announced {
    arenas: HashMap<u32, u64>,
    bytes: u64,
}

impl Announced {
    /// Notes an arena. Fails if that is more than a worker may have, with the reason as in "the worker …".
    fn note(&mut self, arena: &Arena, budget: usize) -> Result<(), String> {
        let most = max_shared(budget);
        self.forget(arena.number);
        self.arenas.insert(arena.number, arena.bytes);
        self.bytes = self.bytes.saturating_add(arena.bytes);
        if self.bytes > most {
            return Err(format!(
                "was ended: it shares {} bytes of memory with the server, more than the limit of {most}, {MAX_SHARE} \
                 times --max-bytes-in-flight; return less at once, or raise that",
                self.bytes
            ));
        }
        if self.arenas.len() > MAX_ARENAS {
            return Err(format!(
                "was ended: it shares {} pieces of memory with the server, more than the limit of {MAX_ARENAS}; \
                 return fewer large tensors at once",
                self.arenas.len()
            ));
        }
        Ok(())
    }

    fn forget(&mut self, number: u32) {
        if let Some(bytes) = self.arenas.remove(&number) {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

impl Link {
    /// Maps an arena of the worker; one that has come without a descriptor is missing.
    ///
    /// # Errors
    ///
    /// Fails if it is none, and with [`io::ErrorKind::QuotaExceeded`] if the worker has more than it may.
    pub(super) fn map(&self, arena: &Arena, file: Option<OwnedFd>) -> io::Result<()> {
        let noted = (self.announced.lock()).note(arena, self.wire.budget.max());
        noted.map_err(|reason| {
            // Its calls fail with it.
            self.killed_for.lock().get_or_insert_with(|| reason.clone());
            io::Error::new(io::ErrorKind::QuotaExceeded, reason)
        })?;
        match file {
            Some(file) => self.shared.map(arena.number, arena.bytes, file),
            None => {
                self.shared.miss(arena.number);
                Ok(())
            }
        }
    }

    /// Forgets an arena of the worker, which has ended.
    pub(super) fn unmap(&self, number: u32) {
        self.announced.lock().forget(number);
        self.shared.unmap(number);
    }

    /// Makes the tensors of a message, whose contents are copied to shared memory if they are large.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for one, or if there is more of them than a worker reads at once.
    pub(in crate::python) async fn all_sent(
        &self,
        tensors: &[HandlerTensor],
    ) -> Result<LentTensors, HandlerError> {
        let mut sent = LentTensors {
            shared: Arc::clone(&self.shared),
            tensors: Vec::with_capacity(tensors.len()),
        };
        let mut bytes = 0;
        for tensor in tensors {
            let tensor = self.sent(tensor).await?;
            bytes += tensor.most_bytes();
            sent.tensors.push(tensor);
        }
        if bytes > MAX_TENSORS {
            let text = format!(
                "no memory to hand {bytes} bytes to a Python worker: names, datatypes, and shapes of inputs have \
                 {MAX_TENSORS} bytes at most"
            );
            return Err(HandlerError::Memory(ErrorKind::TooLarge, text));
        }
        Ok(sent)
    }

    async fn sent(&self, tensor: &HandlerTensor) -> Result<Tensor, HandlerError> {
        let mut message = Tensor {
            name: tensor.name().to_owned(),
            datatype: tensor.datatype().to_owned(),
            shape: tensor.shape().to_vec(),
            typed: tensor.is_typed(),
            ..Tensor::default()
        };
        let origin = match tensor.origin() {
            Some(origin) if origin.link.ptr_eq(&self.own) => Some(origin),
            Some(origin) if !origin.has_contents => {
                return Err(HandlerError::Worker(format!(
                    "worker of {} has ended, which alone had the contents of tensor {:?}",
                    self.of,
                    tensor.name()
                )));
            }
            _ => None,
        };
        if let Some(object) = origin.and_then(|origin| origin.object.as_ref()) {
            message.object = object.number();
            return Ok(message);
        }
        let bytes = tensor.bytes();
        message.contents = Some(if bytes.len() <= MAX_INLINE {
            Contents::Inline(bytes.clone())
        } else if let Some(span) = origin.and_then(|origin| origin.span.as_ref()) {
            Contents::Shared(self.shared.lend(span))
        } else {
            Contents::Shared(self.shared.lend(&self.copied(bytes).await?))
        });
        Ok(message)
    }

    async fn copied(&self, bytes: &[u8]) -> Result<Span, HandlerError> {
        let taken = self.shared.take(bytes.len()).or_else(|error| {
            match kind_of(&error) == ErrorKind::Exhausted && self.makes_room(bytes.len()) {
                true => self.shared.take(bytes.len()),
                false => Err(error),
            }
        });
        let mut span = taken.map_err(|error| {
            let kind = kind_of(&error);
            if kind == ErrorKind::Exhausted {
                self.wire.warn_of_inputs(arena_length(bytes.len()));
            }
            let text = format!(
                "no memory to hand {} bytes to a Python worker: {error}",
                bytes.len()
            );
            HandlerError::Memory(kind, text)
        })?;
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            if index > 0 {
                tokio::task::yield_now().await;
            }
            span.fill(index * PIECE, piece);
        }
        Ok(span)
    }

    /// Ends free memory that other workers keep for their next tensors, where that makes room for so many bytes; returns
    /// whether there was any. All of them are asked for what their handlers have freed since the last call.
    fn makes_room(&self, bytes: usize) -> bool {
        let is_own_part = !self.wire.has_room(arena_length(bytes));
        let others = COMMON.links().into_iter();
        let others = others.filter(|link| !is_own_part || link.of == self.of);
        let freed = others.filter(|link| {
            link.wire.nudge();
            link.shared.end_free()
        });
        freed.count() > 0
    }

    /// Takes the tensors of a message.
    ///
    /// # Errors
    ///
    /// Fails if one is none; within that, if there is no room for one.
    pub(super) fn all_received(
        &self,
        outputs: Outputs,
    ) -> io::Result<Result<Vec<HandlerTensor>, HandlerError>> {
        let tensors = outputs.tensors.into_iter();
        // All of them, whatever comes of one: those that are not used are given back.
        let received = tensors.map(|tensor| self.received(tensor));
        let received = received.collect::<io::Result<Vec<_>>>()?;
        Ok(received.into_iter().collect())
    }

    /// Takes a tensor of a message, and charges what it has of the worker's memory for as long as anybody has that.
    ///
    /// # Errors
    ///
    /// Fails if it is none; within that, if there is no room for it.
    fn received(&self, tensor: Tensor) -> io::Result<Result<HandlerTensor, HandlerError>> {
        let object = (tensor.object != 0).then(|| RemoteObject::new(&self.own, tensor.object));
        let has_contents = tensor.contents.is_some();
        let refused = |bytes: u64, kind, error: &dyn fmt::Display| {
            let text = format!("no memory to take {bytes} bytes from a Python worker: {error}");
            Ok(Err(HandlerError::Memory(kind, text)))
        };
        let (bytes, span) = match tensor.contents {
            None => (Bytes::new(), None),
            Some(Contents::Inline(bytes)) => (bytes, None),
            Some(Contents::Shared(place)) => {
                let span = match self.shared.borrow(&place) {
                    Ok(span) => span,
                    Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                        return refused(place.length, ErrorKind::Exhausted, &error);
                    }
                    Err(error) => return Err(error),
                };
                // What is within an arena of this side is charged with that.
                let charge = match place.is_yours {
                    true => self.wire.budget.empty(),
                    false => match self.wire.budget.charge(span.len()) {
                        Ok(charge) => charge,
                        Err(error) => return refused(place.length, error.kind(), &error),
                    },
                };
                match DataType::from_kserve(&tensor.datatype) {
                    // Each of their bytes counts for itself.
                    Some(dtype) if dtype != DataType::String => {
                        (charge.keep(span.bytes()), Some(span))
                    }
                    // Others have parts that say where the next one is, which must not change any more.
                    _ => (charge.keep(Bytes::copy_from_slice(span.as_ref())), None),
                }
            }
        };
        let origin = Origin {
            link: Weak::clone(&self.own),
            object,
            span,
            has_contents,
        };
        Ok(Ok(HandlerTensor::returned(
            &tensor.name,
            &tensor.datatype,
            tensor.shape,
            bytes,
            origin,
        )))
    }
}

/// Returns the kind of the error that a budget has given, or that of no memory.
fn kind_of(error: &io::Error) -> ErrorKind {
    let refused = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    refused.map_or(ErrorKind::Exhausted, Error::kind)
}

/// Tensors of a message. Those whose memory is lent for it are given back if it is not sent.
pub(in crate::python) struct LentTensors {
    shared: Arc<Shared>,
    tensors: Vec<Tensor>,
}

impl LentTensors {
    /// Returns the tensors, which are sent.
    pub(in crate::python) fn into_sent(mut self) -> Vec<Tensor> {
        std::mem::take(&mut self.tensors)
    }
}

impl Drop for LentTensors {
    fn drop(&mut self) {
        self.shared.take_back(&self.tensors);
    }
}

#[cfg(test)]
mod tests {
    use pyovms::message::Arena;

    use super::{Announced, LEAST_SHARE, MAX_ARENAS, MAX_SHARE};

    /// Announces arenas until one is refused; returns how many were not, and why it was.
    fn until_refused(bytes: usize, budget: usize) -> (u32, String) {
        let mut announced = Announced::default();
        let bytes = bytes as u64;
        (0..)
            .find_map(|number| {
                let refused = announced.note(&Arena { number, bytes }, budget).err();
                refused.map(|reason| (number, reason))
            })
            .unwrap()
    }

    #[test]
    fn arenas_are_as_many_and_as_large_as_a_worker_may_have() {
        const MIB: usize = 1 << 20;
        let (count, reason) = until_refused(64 * MIB, 1);
        assert_eq!(count as usize * 64 * MIB, LEAST_SHARE);
        assert!(reason.contains("shares 603979776 bytes"), "{reason}");
        let budget = 256 * MIB;
        let (count, reason) = until_refused(64 * MIB, budget);
        assert_eq!(count as usize * 64 * MIB, MAX_SHARE * budget);
        assert!(reason.contains("the limit of 1073741824"), "{reason}");
        let (count, reason) = until_refused(1, usize::MAX);
        assert_eq!(count as usize, MAX_ARENAS);
        assert!(reason.contains("shares 4097 pieces"), "{reason}");
        assert_eq!(until_refused(usize::MAX, 1).0, 0);
    }

    #[test]
    fn those_that_have_ended_make_room() {
        let mut announced = Announced::default();
        let bytes = LEAST_SHARE as u64;
        for number in 0..10 {
            announced.note(&Arena { number, bytes }, 1).unwrap();
            // Announced again, it is one.
            announced.note(&Arena { number, bytes }, 1).unwrap();
            announced.forget(number);
            announced.forget(number);
        }
        assert_eq!((announced.arenas.len(), announced.bytes), (0, 0));
    }
}
