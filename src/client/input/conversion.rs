//! Reports of arrays that are converted to the datatype of the model's input.

use std::{fmt, path::PathBuf, sync::Arc};

use parking_lot::Mutex;

use crate::tensor::DataType;

/// Array that was converted, since the model's input has another datatype of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DtypeConversion {
    /// The name of the input.
    pub input: String,
    /// The file of the array; `None` if it came by standard input.
    pub path: Option<PathBuf>,
    /// The datatype of the array.
    pub found: DataType,
    /// The datatype of the input.
    pub expected: DataType,
}

impl fmt::Display for DtypeConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            input,
            path,
            found,
            expected,
        } = self;
        match path {
            Some(path) => write!(
                f,
                "{} has {found}; sent as {expected} for input `{input}`",
                path.display()
            ),
            None => write!(f, "input `{input}` was given {found}; sent as {expected}"),
        }
    }
}

/// Listener of conversions, which hears of each once, however many requests it is in.
#[derive(Clone, Default)]
pub(super) struct ConversionListener {
    report: Option<Arc<Report>>,
    reported: Arc<Mutex<Vec<DtypeConversion>>>,
}

type Report = dyn Fn(&DtypeConversion) + Send + Sync;

impl ConversionListener {
    pub(super) fn new(report: impl Fn(&DtypeConversion) + Send + Sync + 'static) -> Self {
        Self {
            report: Some(Arc::new(report)),
            reported: Arc::default(),
        }
    }

    /// Reports a conversion, unless it was reported before.
    pub(super) fn hear(&self, conversion: DtypeConversion) {
        let Some(report) = &self.report else {
            return;
        };
        let mut reported = self.reported.lock();
        if !reported.contains(&conversion) {
            report(&conversion);
            reported.push(conversion);
        }
    }
}

impl fmt::Debug for ConversionListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversionListener")
            .field("reported", &self.reported.lock())
            .finish_non_exhaustive()
    }
}
