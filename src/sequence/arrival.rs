//! Order of arrival of the calls of one connection.
//!
//! The calls of a gRPC connection are polled for the first time one after the other, in the order
//! in which they came. One that gets as far as its sequence in that poll, which most do, needs
//! nothing from here. One that has to wait before goes on in a task of its own, where a later one
//! may overtake it. That harms nobody, except where both are for the same sequence. So whoever waits
//! is listed: a [`Line`] is the list of one connection, an [`Arrival`] the place of a call in it.
//! Before a request enters its sequence, [`Arrival::turn`] waits for those listed before it that may
//! be of the same sequence and have been received whole; one that is still being received holds up
//! nobody, since the order is that in which messages were complete. Calls to models without
//! sequences are never listed, unless their message or their model keeps them waiting.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};

/// A connection.
#[derive(Debug, Clone, Default)]
pub struct Line(Arc<Connection>);

#[derive(Debug, Default)]
struct Connection {
    next: AtomicU64,
    listed: Mutex<State>,
}

/// The calls that wait, by number.
#[derive(Debug, Default)]
struct State {
    calls: BTreeMap<u64, Call>,
    /// Counts the questions whether a message has come.
    questions: u64,
}

#[derive(Debug)]
struct Call {
    phase: Phase,
    /// Tasks that wait for a change here.
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
    Received(Option<Subject>),
}

/// The sequence that a message is for.
#[derive(Debug, Clone)]
struct Subject {
    model: Arc<str>,
    /// 0 if not known, or left to the server.
    id: u64,
}

/// The place of a call on its connection, left when dropped.
pub struct Arrival {
    line: Line,
    number: u64,
    standing: AtomicU8,
    subject: Mutex<Option<Subject>>,
}

/// Unlisted, and its message is not known to be there.
const NEW: u8 = 0;
/// Unlisted, and its message is there.
const RECEIVED: u8 = 1;
/// Listed.
const LISTED: u8 = 2;
/// Removed from the list for good.
const LEFT: u8 = 3;

impl Line {
    /// Adds a call. They are in the order of these calls.
    #[must_use]
    pub fn arrive(&self) -> Arc<Arrival> {
        Arc::new(Arrival {
            line: self.clone(),
            number: self.0.next.fetch_add(1, Ordering::Relaxed),
            standing: AtomicU8::new(NEW),
            subject: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole; wakers only put tasks into a queue.
        self.0.listed.lock()
    }
}

impl Call {
    fn changed(&mut self) {
        for watcher in self.watchers.drain(..) {
            watcher.wake();
        }
    }

    /// Returns whether a later call for sequence `id` of `model` that asked `question` has to wait for
    /// this one.
    fn blocks(&self, (model, id): (&str, u64), question: u64) -> bool {
        match &self.phase {
            Phase::Receiving { answered, .. } => *answered < question,
            Phase::Received(None) => true,
            Phase::Received(Some(other)) => {
                let may_be_same = id == 0 || other.id == 0 || id == other.id;
                may_be_same && *other.model == *model
            }
        }
    }
}

impl Arrival {
    /// Records that the message is there.
    pub fn received(&self) {
        let new =
            self.standing
                .compare_exchange(NEW, RECEIVED, Ordering::Relaxed, Ordering::Relaxed);
        if new == Err(LISTED) {
            self.list(Phase::Received(self.subject().clone()));
        }
    }

    /// Sets the model that the message is for: if it has to wait, later calls for others have not.
    pub fn concerns(&self, model: Arc<str>) {
        *self.subject() = Some(Subject { model, id: 0 });
        self.received();
    }

    /// Sets the sequence of the model that it is for: later calls for others need not wait.
    pub fn is_of(&self, id: u64) {
        if let Some(subject) = &mut *self.subject() {
            subject.id = id;
        }
        self.received();
    }

    fn subject(&self) -> MutexGuard<'_, Option<Subject>> {
        self.subject.lock()
    }

    /// Looks for the model that the message is for; only a wait for it is one for later calls, too.
    pub async fn finds<F: Future>(&self, model: &str, find: F) -> F::Output {
        let mut find = pin!(find);
        if let Poll::Ready(found) =
            poll_fn(|context| Poll::Ready(find.as_mut().poll(context))).await
        {
            return found;
        }
        self.concerns(model.into());
        find.await
    }

    fn list(&self, phase: Phase) {
        self.standing.store(LISTED, Ordering::Relaxed);
        let mut state = self.line.lock();
        match state.calls.get_mut(&self.number) {
            Some(call) => {
                call.phase = phase;
                call.changed();
            }
            None => {
                let watchers = Vec::new();
                state.calls.insert(self.number, Call { phase, watchers });
            }
        }
    }

    /// Lets later calls go on without this one.
    pub fn leave(&self) {
        if self.standing.swap(LEFT, Ordering::Relaxed) == LISTED {
            let call = self.line.lock().calls.remove(&self.number);
            if let Some(mut call) = call {
                call.changed();
            }
        }
    }

    /// Begins a poll of the call; returns the latest question that this poll answers.
    pub fn begin_poll(&self) -> u64 {
        // Before the first wait nobody asks: those that come later are polled later.
        match self.standing.load(Ordering::Relaxed) {
            LISTED => self.line.lock().questions,
            _ => 0,
        }
    }

    /// Lists the call if it has to wait, after a poll that has ended in a wait. All that had come before `question`
    /// was asked has been looked at.
    pub fn waits(&self, context: &Context<'_>, question: u64) {
        match self.standing.load(Ordering::Relaxed) {
            NEW => {
                return self.list(Phase::Receiving {
                    task: Some(context.waker().clone()),
                    answered: question,
                });
            }
            RECEIVED => return self.list(Phase::Received(self.subject().clone())),
            LISTED => {}
            _ => return,
        }
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

    /// Waits until no call before this one can still enter the sequence before it.
    pub async fn turn(&self, model: &str, id: u64) {
        let mut question = None;
        poll_fn(|context| self.poll_turn(context, (model, id), &mut question)).await;
    }

    fn poll_turn(
        &self,
        context: &Context<'_>,
        sequence: (&str, u64),
        question: &mut Option<u64>,
    ) -> Poll<()> {
        let mut state = self.line.lock();
        let state = &mut *state;
        if state.calls.is_empty() {
            return Poll::Ready(());
        }
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
            .find(|call| call.blocks(sequence, asked))
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
    use std::{
        future::{Future, poll_fn},
        pin::pin,
        sync::Arc,
    };

    use futures::{FutureExt, poll};

    use super::{Arrival, Line};

    /// Runs a call as the frontend does.
    async fn run<F: Future>(arrival: Arc<Arrival>, call: F) -> F::Output {
        let mut call = pin!(call);
        poll_fn(|context| {
            let question = arrival.begin_poll();
            let polled = call.as_mut().poll(context);
            if polled.is_pending() {
                arrival.waits(context, question);
            }
            polled
        })
        .await
    }

    #[tokio::test]
    async fn those_before_come_first_if_they_are_whole_and_for_the_same_model() {
        let line = Line::default();
        let (first, second, other) = (line.arrive(), line.arrive(), line.arrive());
        let place = first.clone();
        let mut unknown = pin!(run(first.clone(), async move {
            place.received();
            std::future::pending::<()>().await;
        }));
        assert!(poll!(unknown.as_mut()).is_pending());
        second.concerns("m".into());
        other.concerns("n".into());
        assert!(
            other.turn("n", 0).now_or_never().is_none(),
            "what the first is for is not known"
        );
        let mut turn = pin!(second.turn("m", 0));
        assert!(poll!(turn.as_mut()).is_pending());
        first.concerns("m".into());
        assert!(poll!(turn.as_mut()).is_pending());
        other.turn("n", 0).await;
        first.leave();
        turn.await;
    }

    #[tokio::test]
    async fn those_of_other_sequences_are_not_waited_for() {
        let line = Line::default();
        let first = line.arrive();
        let place = first.clone();
        let mut waiting = pin!(run(first.clone(), async move {
            place.concerns("m".into());
            std::future::pending::<()>().await;
        }));
        assert!(poll!(waiting.as_mut()).is_pending());
        let second = line.arrive();
        let waits = |id| second.turn("m", id).now_or_never().is_none();
        assert!(waits(1) && waits(2), "it may be of either");
        first.is_of(1);
        assert!(waits(1) && !waits(2));
        assert!(waits(0), "the server may choose that id");
        first.is_of(0);
        assert!(waits(2), "the server may choose that id");
        first.leave();
        assert!(!waits(1));
    }

    #[tokio::test]
    async fn a_call_that_waits_for_nothing_is_never_listed() {
        let line = Line::default();
        let (first, second) = (line.arrive(), line.arrive());
        let place = first.clone();
        run(first, async move {
            place.received();
            assert_eq!(place.finds("m", std::future::ready(1)).await, 1);
            assert!(line.lock().calls.is_empty());
            place.leave();
        })
        .await;
        second.turn("m", 0).await;
    }

    #[tokio::test]
    async fn one_whose_model_is_waited_for_goes_first() {
        let line = Line::default();
        let (first, second) = (line.arrive(), line.arrive());
        let (found, finding) = tokio::sync::oneshot::channel();
        let place = first.clone();
        let mut first = pin!(run(first, async move {
            place.received();
            place.finds("m", finding).await.unwrap();
            place.leave();
            std::future::pending::<()>().await;
        }));
        assert!(poll!(first.as_mut()).is_pending());
        line.arrive().turn("n", 0).await;
        let mut turn = pin!(second.turn("m", 0));
        assert!(poll!(turn.as_mut()).is_pending());
        found.send(()).unwrap();
        assert!(poll!(first.as_mut()).is_pending());
        turn.await;
    }

    #[tokio::test]
    async fn one_that_is_still_being_received_holds_up_nobody_once_it_has_looked() {
        let line = Line::default();
        let (first, second) = (line.arrive(), line.arrive());
        let mut receiving = pin!(run(first.clone(), std::future::pending::<()>()));
        assert!(poll!(receiving.as_mut()).is_pending());
        second.concerns("m".into());
        let mut turn = pin!(second.turn("m", 0));
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
        let mut receiving = pin!(run(first, async move {
            tokio::task::yield_now().await;
            place.concerns("m".into());
            std::future::pending::<()>().await;
        }));
        assert!(poll!(receiving.as_mut()).is_pending());
        second.concerns("m".into());
        let mut turn = pin!(second.turn("m", 0));
        assert!(poll!(turn.as_mut()).is_pending());
        assert!(poll!(receiving.as_mut()).is_pending());
        assert!(poll!(turn.as_mut()).is_pending(), "it is there and before");
    }

    #[tokio::test]
    async fn many_go_in_the_order_in_which_they_came() {
        let line = Line::default();
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let calls: Vec<_> = (0..500).map(|number| (number, line.arrive())).collect();
        let tasks = calls.into_iter().map(|(number, arrival)| {
            let order = order.clone();
            Box::pin(run(arrival.clone(), async move {
                // Its message comes later.
                tokio::task::yield_now().await;
                arrival.concerns("m".into());
                arrival.turn("m", 0).await;
                order.lock().unwrap().push(number);
                arrival.leave();
            }))
        });
        let mut tasks: Vec<_> = tasks.collect();
        for task in &mut tasks {
            assert!(poll!(task.as_mut()).is_pending());
        }
        // Then the last first, as a scheduler may have it.
        futures::future::join_all(tasks.into_iter().rev()).await;
        assert!(order.lock().unwrap().is_sorted());
    }
}
