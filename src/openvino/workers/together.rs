//! Runs that become one inference.

use std::{
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Job, Run, Shared};
use crate::{
    error::chain,
    metrics::{Active, BatchRun},
    openvino::{
        batch::{
            BatchRules,
            queue::{Batchable as _, Companions},
            rows::BatchItem,
        },
        pool::Lease,
        slot_error::SlotError,
    },
    trace::TraceContext,
};

impl Shared {
    /// Takes runs that wait for a slot, to run with another one; waits for more, if the rules say so.
    pub(super) fn companions(&self, rules: &BatchRules, run: &Run) -> Option<Companions<Run>> {
        // After a failure the runtime may take a batch for done that would fail, as it may be with one of its requests.
        if rules.are_off() || self.health.is_spoilt() {
            return None;
        }
        run.rows()?;
        // Their memory is given back without the lock.
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        let found = state.queue.companions(run, &rules.choice);
        if rules.delay.is_zero() {
            return found;
        }
        let mut others = found.map_or_else(Vec::new, |(_, others)| others);
        let mut is_over = false;
        // A client that leaves while it is gathered makes room for another one.
        while !is_over {
            let wanted = || iter::once(run).chain(&others).filter(|run| run.is_wanted());
            let rows: usize = wanted().filter_map(Run::rows).sum();
            let room = rules.choice.sizes().most().saturating_sub(rows);
            let deadline = wanted().map(|run| run.asked + rules.delay).min();
            let Some(deadline) = deadline.filter(|at| room > 0 && *at > Instant::now()) else {
                break;
            };
            let number = state.queue.open(run.shapes(), room);
            while !is_over && !state.queue.is_over(number) && !state.closed {
                is_over = self.gathered.wait_until(&mut state, deadline).timed_out();
            }
            let came = state.queue.close(number);
            is_over |= state.closed || !state.queue.is_empty() || came.is_empty();
            others.extend(came);
            gone.extend(others.extract_if(.., |run| !run.is_wanted()));
        }
        drop(state);
        let wanted = iter::once(run).chain(&others).filter(|run| run.is_wanted());
        let rows: Vec<usize> = wanted.filter_map(Run::rows).collect();
        let (first, all) = (*rows.first()?, rows.iter().sum());
        let size = rules.choice.gathered(first, all, Instant::now());
        (!others.is_empty()).then_some((size, others))
    }

    /// Runs several requests as one inference.
    pub(super) fn run_together(
        &self,
        rules: &BatchRules,
        (mut lease, active): (Lease, Active),
        run: Run,
        (size, others): Companions<Run>,
    ) -> Option<Job> {
        let started = Instant::now();
        let mut runs = vec![run];
        runs.extend(others);
        // Clients may have left while it was gathered.
        runs.retain(Run::is_wanted);
        for run in &mut runs {
            run.times.waited = started - run.asked;
            run.times.started = started;
        }
        let rows: usize = runs.iter().filter_map(Run::rows).sum();
        let gathered = runs.len();
        let infer = || match runs.len() {
            0 => Ok(Some(Vec::new())),
            1 => Ok(None),
            _ => {
                let is_doubtful = || rules.is_doubtful();
                lease
                    .slot()
                    .infer_batch(size, &mut items(&mut runs), &is_doubtful)
            }
        };
        let together = catch_unwind(AssertUnwindSafe(infer)).ok()?;
        if matches!(together, Ok(None)) && runs.len() > 1 {
            rules.has_refused.call_once(|| {
                tracing::warn!(
                    model = self.model,
                    "requests of {rows} rows run one by one: rows as large as theirs take more memory in a batch than \
                     there is for it; max_bytes of dynamic_batching sets how much that is"
                );
            });
        }
        let mut is_batch = false;
        let outputs: Vec<(Result<_, SlotError>, Instant)> = match together {
            Ok(Some(outputs)) => {
                is_batch = true;
                let ended = Instant::now();
                outputs.into_iter().map(|it| (Ok(it), ended)).collect()
            }
            // One that fails is not to fail the others.
            failed => {
                let spoils = self.health.may_be_spoilt() && breaks_off(&failed);
                if spoils {
                    // Others on the same compiled model may be wrong, or fail, from here on.
                    rules.doubt();
                }
                // Clients may have left while it ran; a step ends for its sequence all the same.
                let is_of_steps = lease.slot().has_states();
                runs.retain(|run| is_of_steps || run.is_wanted());
                let alone = || {
                    let each = runs.iter_mut().map(|run| {
                        run.times.started = Instant::now();
                        run.times.waited = run.times.started - run.asked;
                        (self.infer(&mut lease, run), Instant::now())
                    });
                    each.collect::<Vec<_>>()
                };
                let outputs = catch_unwind(AssertUnwindSafe(alone)).ok()?;
                if let Err(error) = &failed
                    // Of one request, and it may be gone when that runs alone; or of another batch.
                    && !matches!(error, SlotError::Region(_) | SlotError::Doubtful)
                    && is_of_batch(gathered, &outputs)
                {
                    let error = chain(error);
                    tracing::warn!(
                        model = self.model,
                        "a batch of {rows} rows failed although each of its requests runs alone, so this model has \
                         no more batches: {error}"
                    );
                    let reason = format!(
                        "a batch of {rows} rows failed although each of its requests runs alone: {error}"
                    );
                    let _ = rules.off.set(reason.into());
                } else if spoils && !outputs.iter().any(|(outcome, _)| breaks_off(outcome)) {
                    // Nobody is left who would report it.
                    self.health.doubt();
                }
                outputs
            }
        };
        let ended = Instant::now();
        if is_batch && !runs.is_empty() {
            rules.choice.ran(Some(size), ended - started, ended);
        }
        let reporter = runs.first().map(|run| Arc::clone(&run.reporter));
        let traced = runs.iter().filter_map(|run| run.trace.as_ref());
        let traced = traced.filter(|_| is_batch);
        let mut span = TraceContext::batch(traced);
        if let Some(span) = &mut span {
            span.begun(started);
            span.ended(ended);
            span.set("ovms.batch.requests", number(runs.len()));
            span.set("ovms.batch.rows", number(rows));
        }
        let mut replies = Vec::with_capacity(runs.len());
        let (mut is_any_answered, mut prepared) = (false, Duration::ZERO);
        let mut answered = 0;
        for (mut run, (outputs, ended)) in runs.into_iter().zip(outputs) {
            run.times.batch = if is_batch { rows } else { 0 };
            answered += run.rows().unwrap_or(0);
            let (reply, answer) = self.answer(run, outputs, ended, span.as_ref());
            if answer.0.is_ok() {
                is_any_answered = true;
                prepared += answer.1.prepared;
            }
            replies.extend(reply.map(|reply| (reply, answer)));
        }
        if let Some(reporter) = reporter.filter(|_| is_batch && is_any_answered) {
            reporter.ran_batch(&BatchRun {
                rows,
                prepared,
                took: ended - started,
            });
        }
        drop((active, span));
        self.go_on(lease, answered, || {
            for (reply, answer) in replies {
                // A client that left is not an error.
                let _ = reply.send(answer);
            }
        })
    }
}

/// Returns whether the failure of a batch of so many requests is one of the batch, by what came of them alone. One
/// whose client has left meanwhile did not run, and it may be the one that made the batch fail.
fn is_of_batch<T, E>(gathered: usize, alone: &[(Result<T, E>, Instant)]) -> bool {
    gathered > 0 && alone.len() == gathered && alone.iter().all(|(outcome, _)| outcome.is_ok())
}

/// Returns whether a run has failed within the runtime.
fn breaks_off<T>(outcome: &Result<T, SlotError>) -> bool {
    let error = outcome.as_ref().err();
    error.is_some_and(SlotError::is_of_inference)
}

/// Returns a count as the number of an attribute.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns runs as the requests of a batch.
fn items(runs: &mut [Run]) -> Vec<BatchItem<'_>> {
    let items = runs.iter_mut().map(|run| {
        let rows = run.rows().unwrap_or(1);
        let Run { hold, work, .. } = run;
        BatchItem {
            state: hold.state(),
            inputs: &work.inputs,
            wanted: &work.wanted,
            rows,
        }
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::is_of_batch;

    #[test]
    fn an_error_is_of_the_batch_if_each_of_its_requests_has_run_alone() {
        let alone = |outcomes: &[Result<(), ()>]| {
            let ended = outcomes.iter().map(|&outcome| (outcome, Instant::now()));
            is_of_batch(2, &ended.collect::<Vec<_>>())
        };
        assert!(alone(&[Ok(()), Ok(())]));
        assert!(!alone(&[Ok(()), Err(())]));
        assert!(!alone(&[Ok(())]), "the client of the other one has left");
        assert!(!alone(&[]));
        assert!(!is_of_batch::<(), ()>(0, &[]));
    }
}
