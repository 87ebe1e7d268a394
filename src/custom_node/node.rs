//! One custom node of a pipeline: a library, parameters, and the handle that the library gave.

use std::{
    ffi::{CString, c_int, c_void},
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{
    abi::{RawParam, as_array},
    error::NodeError,
    library::Library,
};

/// Number of nodes of this process that have not been deinitialized.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Returns how many nodes are there that have been initialized and not deinitialized, so that a stop
/// can wait for their end wherever the last of their owners is.
pub fn alive() -> usize {
    ALIVE.load(Ordering::SeqCst)
}

/// A node that the library has initialized; it is deinitialized once, when dropped.
///
/// Whoever drops the last owner is where the library's `deinitialize` runs, which may take its
/// time: not on an async worker. Tensors that the node gave are owners too, and take care of that
/// themselves.
pub struct Node {
    pub(super) library: Arc<Library>,
    params: Params,
    pub(super) handle: *mut c_void,
}

// SAFETY: the interface says that any function but `initialize` and `deinitialize` is called on any
// thread, several at once, with the same handle. `initialize` has returned before there is a
// `Node`, and `deinitialize` is called by the last owner. The pointers of the parameters are never
// written through.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

/// Parameters as the library gets them: pointers to texts that stay where they are for as long as
/// the node lives.
struct Params {
    raw: Vec<RawParam>,
    /// Texts that `raw` points to.
    _texts: Vec<CString>,
}

impl Node {
    /// Makes a node of a library. Runs the library's `initialize`: not for an async worker.
    ///
    /// # Errors
    ///
    /// Fails if a parameter has a zero byte, or if `initialize` fails; it is then not
    /// deinitialized.
    pub fn initialize<'a>(
        library: &Arc<Library>,
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Arc<Self>, NodeError> {
        let params = Params::new(library, params)?;
        let (raw, count) = as_array(&params.raw);
        let mut handle = ptr::null_mut();
        library.keep();
        // SAFETY: the library is open; `handle` and the parameters are valid during the call, and
        // the parameters stay so until the node has been deinitialized.
        let code = unsafe { (library.functions.initialize)(&raw mut handle, raw, count) };
        if code != 0 {
            return Err(NodeError::Call {
                library: library.name().to_owned(),
                function: "initialize",
                code,
            });
        }
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(Self {
            library: Arc::clone(library),
            params,
            handle,
        }))
    }

    /// Returns the parameters as arguments.
    pub(super) fn params(&self) -> (*const RawParam, c_int) {
        as_array(&self.params.raw)
    }

    /// Gives a buffer back to the library; does nothing with a null pointer.
    ///
    /// # Safety
    ///
    /// The library returned the buffer by a call for this node, and it has not been given back.
    /// Nobody uses it any more.
    pub(super) unsafe fn release(&self, buffer: *mut c_void) {
        if buffer.is_null() {
            return;
        }
        // SAFETY: as the caller promises; the library is open and the handle is initialized.
        let code = unsafe { (self.library.functions.release)(buffer, self.handle) };
        if code != 0 {
            tracing::debug!(
                library = self.library.name(),
                code,
                "`release` of a custom node returned an error"
            );
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a successful `initialize`. Calls and tensors that are still
        // to be released hold the node, so that none of them is left, and this is the only time.
        let code = unsafe { (self.library.functions.deinitialize)(self.handle) };
        if code != 0 {
            tracing::warn!(
                library = self.library.name(),
                code,
                "`deinitialize` of a custom node returned an error"
            );
        }
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Params {
    fn new<'a>(
        library: &Library,
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, NodeError> {
        let mut raw = Vec::new();
        let mut texts = Vec::new();
        for (key, value) in params {
            let text = |text: &str| {
                CString::new(text).map_err(|_| NodeError::Parameter {
                    library: library.name().to_owned(),
                    key: key.escape_debug().to_string(),
                })
            };
            let (key, value) = (text(key)?, text(value)?);
            raw.push(RawParam {
                key: key.as_ptr(),
                value: value.as_ptr(),
            });
            // The text itself stays where it is when its owner moves.
            texts.extend([key, value]);
        }
        Ok(Self { raw, _texts: texts })
    }
}
