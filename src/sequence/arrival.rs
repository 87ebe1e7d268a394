//! The order in which the requests of one connection came.
//!
//! Each call of a gRPC connection runs in a task of its own, on whichever thread is free, so that
//! a later request may be read and judged before an earlier one. That harms nobody, except where
//! both are for the same sequence. A [`Line`] is one connection; an [`Arrival`] is the place of a
//! call in it. Before a request enters its sequence, [`Arrival::turn`] waits for those before it
//! that are for the same model and have been received whole; one that is still being received
//! holds up nobody, since the order is that in which messages were complete.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// A connection.
#[derive(Debug, Clone, Default)]
pub struct Line(Arc<Mutex<State>>);

/// The calls under way on a connection, by number.
#[derive(Debug, Default)]
struct State {
    next: u64,
    calls: BTreeMap<u64, Call>,
    /// Counts the questions whether a message has come.
    questions: u64,
}

#[derive(Debug)]
struct Call {
    phase: Phase,
    /// Those that wait for a change here.
    watchers: Vec<Waker>,
}

#[derive(Debug)]
enum Phase {
    /// The message is not known to be there.
    Receiving {
        /// The task that receives it, once it has begun to.
        task: Option<Waker>,
        /// The latest question that it has answered with no.
        answered: u64,
    },
    /// The message is there; what it is for is not known yet if empty.
    Received(Option<Arc<str>>),
}

/// The place of a call on its connection, left when dropped.
pub struct Arrival {
    line: Line,
    number: u64,
}

/// Returns the place that a request carries; a new one, on a connection of its own, if it has none.
#[must_use]
pub fn of(extensions: &axum::http::Extensions) -> Arc<Arrival> {
    let known = extensions.get::<Arc<Arrival>>();
    known.map_or_else(|| Line::default().arrive(), Arc::clone)
}

impl Line {
    /// Adds a call. They are in the order of these calls.
    #[must_use]
    pub fn arrive(&self) -> Arc<Arrival> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let call = Call {
            phase: Phase::Receiving {
                task: None,
                answered: 0,
            },
            watchers: Vec::new(),
        };
        state.calls.insert(number, call);
        drop(state);
        Arc::new(Arrival {
            line: self.clone(),
            number,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole; wakers only put tasks into a queue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    fn changed(&mut self) {
        for watcher in self.watchers.drain(..) {
            watcher.wake();
        }
    }

    /// Tells whether a later call for `model` that asked `question` has to wait for this one.
    fn blocks(&self, model: &str, question: u64) -> bool {
        match &self.phase {
            Phase::Receiving { answered, .. } => *answered < question,
            Phase::Received(None) => true,
            Phase::Received(Some(other)) => **other == *model,
        }
    }
}

impl Arrival {
    /// Runs the call; sees whether it waits for its message.
    pub async fn run<F: Future>(self: Arc<Self>, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let question = self.line.lock().questions;
            let polled = call.as_mut().poll(context);
            if polled.is_pending() {
                self.waits(context, question);
            }
            polled
        })
        .await
    }

    /// Notes that all that has come before `question` was looked at.
    fn waits(&self, context: &Context<'_>, question: u64) {
        let mut state = self.line.lock();
        let Some(call) = state.calls.get_mut(&self.number) else {
            return;
        };
        if let Phase::Receiving { task, answered } = &mut call.phase {
            if !task
                .as_ref()
                .is_some_and(|task| task.will_wake(context.waker()))
            {
                *task = Some(context.waker().clone());
            }
            if *answered < question {
                *answered = question;
                call.changed();
            }
            if question < state.questions {
                // Asked while it looked.
                context.waker().wake_by_ref();
            }
        }
    }

    /// Says that the message is there.
    pub fn received(&self) {
        self.set(Phase::Received(None));
    }

    /// Says which model the message is for.
    pub fn concerns(&self, model: &str) {
        self.set(Phase::Received(Some(model.into())));
    }

    fn set(&self, phase: Phase) {
        let mut state = self.line.lock();
        if let Some(call) = state.calls.get_mut(&self.number) {
            call.phase = phase;
            call.changed();
        }
    }

    /// Says that nobody has to wait for this call any more.
    pub fn leave(&self) {
        let call = self.line.lock().calls.remove(&self.number);
        if let Some(mut call) = call {
            call.changed();
        }
    }

    /// Waits until no call before this one can still enter a sequence of the model before it.
    pub async fn turn(&self, model: &str) {
        let mut question = None;
        poll_fn(|context| self.poll_turn(context, model, &mut question)).await;
    }

    fn poll_turn(
        &self,
        context: &Context<'_>,
        model: &str,
        question: &mut Option<u64>,
    ) -> Poll<()> {
        let mut state = self.line.lock();
        let state = &mut *state;
        let asked = *question.get_or_insert_with(|| {
            // Whoever still receives looks once more: all that came before this message is there
            // to be read by now.
            state.questions += 1;
            for call in state.calls.range_mut(..self.number).map(|(_, call)| call) {
                if let Phase::Receiving { task, .. } = &call.phase
                    && let Some(task) = task
                {
                    task.wake_by_ref();
                }
            }
            state.questions
        });
        // The nearest one: those before it are what it waits for itself.
        let before = state.calls.range_mut(..self.number).rev();
        match before
            .map(|(_, call)| call)
            .find(|call| call.blocks(model, asked))
        {
            None => Poll::Ready(()),
            Some(call) => {
                call.watchers.push(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt, poll};

    use super::Line;

    #[tokio::test]
    async fn those_before_come_first_if_they_are_whole_and_for_the_same_model() {
        let line = Line::default();
        let (first, second, other) = (line.arrive(), line.arrive(), line.arrive());
        first.received();
        second.concerns("m");
        other.concerns("n");
        assert!(
            other.turn("n").now_or_never().is_none(),
            "what the first is for is not known"
        );
        let mut turn = pin!(second.turn("m"));
        assert!(poll!(turn.as_mut()).is_pending());
        first.concerns("m");
        assert!(poll!(turn.as_mut()).is_pending());
        other.turn("n").await;
        drop(first);
        turn.await;
    }

    #[tokio::test]
    async fn one_that_is_still_being_received_holds_up_nobody_once_it_has_looked() {
        let line = Line::default();
        let (first, second) = (line.arrive(), line.arrive());
        let mut receiving = pin!(first.clone().run(std::future::pending::<()>()));
        assert!(poll!(receiving.as_mut()).is_pending());
        second.concerns("m");
        let mut turn = pin!(second.turn("m"));
        assert!(
            poll!(turn.as_mut()).is_pending(),
            "it may have come meanwhile"
        );
        assert!(poll!(receiving.as_mut()).is_pending());
        turn.await;
    }

    #[tokio::test]
    async fn one_that_looks_and_finds_its_message_goes_first() {
        let line = Line::default();
        let (first, second) = (line.arrive(), line.arrive());
        let place = first.clone();
        let mut receiving = pin!(first.run(async move {
            tokio::task::yield_now().await;
            place.concerns("m");
            std::future::pending::<()>().await;
        }));
        assert!(poll!(receiving.as_mut()).is_pending());
        second.concerns("m");
        let mut turn = pin!(second.turn("m"));
        assert!(poll!(turn.as_mut()).is_pending());
        assert!(poll!(receiving.as_mut()).is_pending());
        assert!(poll!(turn.as_mut()).is_pending(), "it is there and before");
    }

    #[tokio::test]
    async fn many_go_in_the_order_in_which_they_came() {
        let line = Line::default();
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let calls: Vec<_> = (0..500).map(|number| (number, line.arrive())).collect();
        // The last first, as a scheduler may have it.
        let tasks = calls.into_iter().rev().map(|(number, arrival)| {
            let order = order.clone();
            arrival.clone().run(async move {
                arrival.concerns("m");
                arrival.turn("m").await;
                order.lock().unwrap().push(number);
                arrival.leave();
            })
        });
        futures::future::join_all(tasks).await;
        assert!(order.lock().unwrap().is_sorted());
    }
}
