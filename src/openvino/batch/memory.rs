//! Memory of the compiled models of batches: tensors are counted before a model is compiled, and what the runtime
//! takes beside them is measured. Both are charged to the memory budget for as long as the model is there.

use std::sync::Arc;

use crate::{
    budget::{Budget, BudgetOwner, Charge},
    error::{Error, ErrorKind},
    openvino::{ffi, options::LoadOptions},
};

/// Share of the memory budget that batches of all models may have, as a divisor: requests need the rest.
const OF_ALL: usize = 2;

/// Share of that for the batches of one model without a setting of its own: as one is loaded anew, both are there.
const OF_ONE: usize = 2;

/// Makes the budget of the batches of all models, as part of the whole one.
pub fn batch_budget(whole: &Budget) -> Budget {
    whole.part(whole.max() / OF_ALL, Arc::new(AllModels))
}

/// Batches of all models.
struct AllModels;

impl BudgetOwner for AllModels {
    fn exhausted(&self, max: usize) -> Error {
        let text = format!(
            "batches of all models may take {}, half of --max-bytes-in-flight",
            ByteCount(max)
        );
        Error::new(ErrorKind::Exhausted, text)
    }

    fn too_large(&self, max: usize) -> Error {
        self.exhausted(max)
    }
}

/// Batches of one model.
struct OneModel {
    is_set: bool,
}

impl BudgetOwner for OneModel {
    fn exhausted(&self, max: usize) -> Error {
        let most = ByteCount(max);
        let text = match self.is_set {
            true => format!("max_bytes of dynamic_batching is {most}"),
            false => format!(
                "those of one model may take {most}, a quarter of --max-bytes-in-flight; dynamic_batching may have a \
                 max_bytes of its own, up to twice as much"
            ),
        };
        Error::new(ErrorKind::Exhausted, text)
    }

    fn too_large(&self, max: usize) -> Error {
        self.exhausted(max)
    }
}

/// A size of batch that takes more memory than there is for it.
#[derive(Debug, thiserror::Error)]
#[error("batches of {rows} rows take about {}{}, and {reason}", ByteCount(*bytes), beside(*others))]
pub(super) struct TooMuchMemory {
    rows: usize,
    bytes: usize,
    /// Bytes of the other sizes.
    others: usize,
    reason: Error,
}

/// Describes the memory that others take, if there are any.
fn beside(others: usize) -> String {
    match others {
        0 => String::new(),
        _ => format!(" beside {} of smaller ones", ByteCount(others)),
    }
}

/// Memory for the batches of a model that is being loaded.
pub(in crate::openvino) struct BatchMemory {
    budget: Budget,
    /// Number of infer requests that are made of each compiled model.
    slots: usize,
}

impl BatchMemory {
    /// Makes it for a model with so many infer requests.
    pub(in crate::openvino) fn new(options: &LoadOptions, slots: usize) -> Self {
        let all = &options.batch_budget;
        let max = options.batch_bytes.unwrap_or(all.max() / OF_ONE);
        let is_set = options.batch_bytes.is_some();
        Self {
            budget: all.part(max, Arc::new(OneModel { is_set })),
            slots,
        }
    }

    /// Charges the tensors of a size that is about to be compiled, of so many bytes for each infer request.
    ///
    /// # Errors
    ///
    /// Fails if they are more than is left.
    pub(super) fn begin(&self, rows: usize, tensors: usize) -> Result<BatchCost, TooMuchMemory> {
        let mut cost = BatchCost {
            charge: self.budget.empty(),
            others: self.budget.charged(),
            rows,
            budget: self.budget.clone(),
            slots: self.slots,
            tensors,
            compiled: 0,
            before: 0,
        };
        cost.grow(tensors)?;
        cost.before = ffi::heap();
        Ok(cost)
    }
}

/// Memory that a compiled model for batches takes, with its infer requests.
#[derive(Debug)]
pub(super) struct BatchCost {
    charge: Charge,
    budget: Budget,
    /// Bytes of the other sizes.
    others: usize,
    rows: usize,
    slots: usize,
    tensors: usize,
    /// Bytes of the compiled model itself.
    compiled: usize,
    /// Memory of the runtime before the step that is measured.
    before: usize,
}

impl BatchCost {
    /// Charges what the compiled model has taken.
    ///
    /// # Errors
    ///
    /// Fails if it is more than is left.
    pub(super) fn compiled(&mut self) -> Result<(), TooMuchMemory> {
        self.compiled = self.taken();
        self.grow(self.tensors)
    }

    /// Charges what infer requests take, if the one that was made and has run since took more than its tensors.
    ///
    /// # Errors
    ///
    /// Fails if it is more than is left.
    pub(super) fn ran(&mut self) -> Result<(), TooMuchMemory> {
        let slot = self.taken();
        self.grow(slot.max(self.tensors))
    }

    /// Returns the bytes that are charged.
    pub(super) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Returns the memory of one of the infer requests, whose rows were counted with so many bytes of inputs.
    pub(super) fn of_slot(&self, counted: usize) -> RowMemory {
        RowMemory {
            counted: counted.max(1),
            tensors: self.tensors,
            more: self.budget.empty(),
        }
    }

    /// Ends it with the charge.
    pub(super) fn into_charge(self) -> Charge {
        self.charge
    }

    /// Returns the bytes that the runtime has taken since the last call.
    fn taken(&mut self) -> usize {
        let now = ffi::heap();
        let taken = now.saturating_sub(self.before);
        self.before = now;
        taken
    }

    /// Charges all of it, with so many bytes for each infer request.
    fn grow(&mut self, slot: usize) -> Result<(), TooMuchMemory> {
        let slots = slot.saturating_mul(self.slots);
        let bytes = self.compiled.saturating_add(slots);
        self.charge.grow(bytes).map_err(|reason| TooMuchMemory {
            rows: self.rows,
            bytes,
            others: self.others,
            reason,
        })
    }
}

/// Memory of an infer request for batches whose rows may be larger than those that were counted: where dimensions
/// are open.
pub(super) struct RowMemory {
    /// Bytes of the inputs of a row, as counted.
    counted: usize,
    /// Bytes of the tensors with such rows; with larger ones they are as many times more.
    tensors: usize,
    /// Charge of what larger rows take beyond that, which the runtime does not give back.
    more: Charge,
}

impl RowMemory {
    /// Charges the tensors for rows whose inputs have so many bytes, in proportion to what was counted; returns
    /// whether there is enough memory.
    pub(super) fn admits(&mut self, row: usize) -> bool {
        let beyond = row.saturating_sub(self.counted);
        let more = self.tensors.saturating_mul(beyond) / self.counted;
        self.more.grow(more).is_ok()
    }
}

/// A number of bytes, as text for people.
pub(super) struct ByteCount(pub(super) usize);

impl std::fmt::Display for ByteCount {
    #[expect(
        clippy::cast_precision_loss,
        reason = "one digit behind the point is shown"
    )]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let unit = UNITS.into_iter().find(|(_, shift)| self.0 >= 1 << shift);
        match unit {
            Some((name, shift)) => write!(f, "{:.1} {name}", self.0 as f64 / f64::from(1 << shift)),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn memory(whole: &Budget, batch_bytes: Option<usize>) -> BatchMemory {
        let options = LoadOptions {
            batch_budget: batch_budget(whole),
            batch_bytes,
            ..LoadOptions::default()
        };
        BatchMemory::new(&options, 4)
    }

    #[test]
    fn tensors_of_all_infer_requests_are_charged_until_the_end() {
        let whole = Budget::new(64 * MIB);
        let cost = memory(&whole, None).begin(8, 3 * MIB).unwrap();
        assert!(whole.charged() >= 12 * MIB);
        let charge = cost.into_charge();
        assert!(whole.charged() >= 12 * MIB);
        drop(charge);
        assert_eq!(whole.charged(), 0);
    }

    #[test]
    fn what_is_refused_says_what_it_takes_and_which_limit_that_is() {
        let whole = Budget::new(64 * MIB);
        let refused = |max, tensors| {
            memory(&whole, max)
                .begin(8, tensors)
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(refused(None, 5 * MIB), @"batches of 8 rows take about 20.0 MiB, and those of one model may take 16.0 MiB, a quarter of --max-bytes-in-flight; dynamic_batching may have a max_bytes of its own, up to twice as much");
        insta::assert_snapshot!(refused(Some(3000), 1000), @"batches of 8 rows take about 3.9 KiB, and max_bytes of dynamic_batching is 2.9 KiB");
        insta::assert_snapshot!(refused(Some(100 * MIB), 9 * MIB), @"batches of 8 rows take about 36.0 MiB, and batches of all models may take 32.0 MiB, half of --max-bytes-in-flight");
        assert_eq!(whole.charged(), 0);
    }

    #[test]
    fn larger_rows_than_those_that_were_counted_are_charged_or_refused() {
        let whole = Budget::new(64 * MIB);
        let cost = memory(&whole, None).begin(8, MIB).unwrap();
        let before = whole.charged();
        let mut rows = cost.of_slot(1000);
        assert!(rows.admits(10) && rows.admits(1000));
        assert_eq!(whole.charged(), before);
        assert!(rows.admits(3000), "twice as much again");
        assert_eq!(whole.charged(), before + 2 * MIB);
        assert!(rows.admits(2000));
        assert_eq!(whole.charged(), before + 2 * MIB, "the runtime keeps it");
        assert!(!rows.admits(14_000), "a quarter of the budget is 16 MiB");
        assert!(!rows.admits(usize::MAX));
        assert_eq!(whole.charged(), before + 2 * MIB);
        drop((rows, cost));
        assert_eq!(whole.charged(), 0);
    }

    #[test]
    fn what_the_runtime_takes_beside_tensors_counts() {
        let whole = Budget::default();
        let mut cost = memory(&whole, None).begin(8, 100).unwrap();
        assert_eq!(whole.charged(), 400);
        cost.before = 0;
        cost.compiled().unwrap();
        assert_eq!(whole.charged(), 400 + cost.compiled);
        cost.before = 0;
        let compiled = cost.compiled;
        cost.ran().unwrap();
        assert!(whole.charged() >= 400 + compiled);
    }
}
