//! The slots of one model version, lent to one request each, with a bounded queue for them.
//!
//! Requests that sleep for a slot are served by their ranks: in the order in which they came, as if those of a
//! higher priority had come earlier. So none waits for ever, however many are ahead of it. Where runs take
//! microseconds, a request may also take a slot that is free at this moment past those that are
//! being woken: handing a slot to a sleeper leaves it unused until the sleeper is awake, which
//! takes longer than the run, and once one request sleeps all that follow would.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::slot::Slot;

/// Error of a pool that lends no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Full queue: the maximum number of requests waits already.
    #[error("infer requests: {slots}, all busy; requests waiting: {waiting}, the most allowed")]
    Full {
        /// Slots of the model version.
        slots: usize,
        /// Maximum length of the queue.
        waiting: usize,
    },
    /// The maximum number of requests waits until the shapes of their inputs have been tried.
    #[error("requests whose shapes are to be tried: {0}, the most allowed")]
    Shapes(usize),
    /// The maximum number of requests waits for the compiled model to be replaced.
    #[error("requests waiting for the model to be compiled again: {0}, the most allowed")]
    Replacement(usize),
    /// The slots are not to be waited for any more: others take their place, or all are stuck.
    #[error("all infer requests of the model are stuck in inferences that do not end")]
    Shut,
}

/// Waiting strategy of a request for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotWait {
    /// Waits in turn.
    InTurn,
    /// Spins on the thread for this time, taking what comes free, and then waits in turn.
    Spin(Duration),
}

/// Owner of the bound on requests that wait for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotQueue {
    /// The pool.
    Bounded,
    /// The caller.
    Admitted,
}

/// Place of a request in the queue: when it has come, or would have for the place that it has.
pub(super) type Rank = Instant;

/// The requests that wait, by their ranks and numbers.
#[derive(Default)]
struct Sleepers {
    asleep: BTreeMap<(Rank, u64), Arc<Notify>>,
    /// Number of the last one.
    last: u64,
    /// Number of requests that were called and have not looked yet.
    called: usize,
}

/// A fixed number of slots and the queue for them.
pub(super) struct Pool<S = Slot> {
    slots: Mutex<Vec<S>>,
    /// The length of `slots`, to be read without the lock.
    free: AtomicUsize,
    size: usize,
    /// Requests in the queue, those that are being woken included.
    waiting: WaitingCount,
    /// Number of them that run without a slot of their own, and leave the queue with their answer.
    taken: Arc<AtomicUsize>,
    max_waiting: usize,
    sleepers: Mutex<Sleepers>,
    /// Slots in inferences that do not end.
    stuck: AtomicUsize,
    /// Indicates that waiting has ended for good.
    shut: AtomicBool,
}

impl<S> Pool<S> {
    /// Takes the slots in; at most `max_waiting` requests wait for one at a time.
    pub(super) fn new(slots: Vec<S>, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self {
            size: slots.len(),
            free: AtomicUsize::new(slots.len()),
            slots: Mutex::new(slots),
            waiting: WaitingCount::default(),
            taken: Arc::default(),
            max_waiting,
            sleepers: Mutex::default(),
            stuck: AtomicUsize::new(0),
            shut: AtomicBool::new(false),
        })
    }

    /// Returns the number of slots.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of requests that wait for a slot.
    pub(super) fn in_queue(&self) -> usize {
        self.still_waiting(self.waiting.get())
    }

    /// Returns the count of requests in the queue that run with the slot of another one, for those who see to them.
    pub(super) fn taken(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.taken)
    }

    /// Returns how many of so many requests in the queue wait for a slot.
    fn still_waiting(&self, queued: usize) -> usize {
        queued.saturating_sub(self.taken.load(Ordering::SeqCst))
    }

    /// Lends a slot, after waiting for one if need be. Dropping the future leaves the queue.
    pub(super) async fn lease(
        self: &Arc<Self>,
        strategy: SlotWait,
        queue: SlotQueue,
        rank: Rank,
    ) -> Result<Lease<S>, PoolError> {
        match self.lease_now(strategy) {
            Some(lease) => Ok(lease),
            None => self.lease_in_turn(queue, rank).await,
        }
    }

    /// Lends a slot after a wait in the queue.
    pub(super) async fn lease_in_turn(
        self: &Arc<Self>,
        queue: SlotQueue,
        rank: Rank,
    ) -> Result<Lease<S>, PoolError> {
        let _place = self.queue(queue)?;
        let mut sleeper = Sleeper::new(self, rank);
        loop {
            // In the queue before the look, so that no return is missed in between.
            if !sleeper.lies_down() && self.is_shut() {
                return Err(PoolError::Shut);
            }
            sleeper.wake.notified().await;
            if let Some(slot) = self.take() {
                return Ok(self.lend(slot));
            }
        }
    }

    /// Rejects waiting requests, and later ones that find no slot free.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        self.call_all();
    }

    /// Calls as many of those that sleep as there are slots free, the first by rank before the others.
    fn call(&self, sleepers: &mut Sleepers) {
        while sleepers.called < self.free.load(Ordering::SeqCst)
            && let Some((_, wake)) = sleepers.asleep.pop_first()
        {
            sleepers.called += 1;
            wake.notify_one();
        }
    }

    /// Calls all, to find that there is nothing to wait for.
    fn call_all(&self) {
        let mut sleepers = self.sleepers.lock();
        for wake in std::mem::take(&mut sleepers.asleep).into_values() {
            sleepers.called += 1;
            wake.notify_one();
        }
    }

    fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst) || self.stuck.load(Ordering::SeqCst) >= self.size
    }

    /// Lends a slot without putting the task to sleep: one that is free, or comes free while the
    /// thread spins; none past others that wait if it is for waiting in turn.
    pub(super) fn lease_now(self: &Arc<Self>, strategy: SlotWait) -> Option<Lease<S>> {
        let limit = match strategy {
            // Those who sleep were here first.
            SlotWait::InTurn if self.in_queue() > 0 => return None,
            SlotWait::InTurn => return self.take().map(|slot| self.lend(slot)),
            SlotWait::Spin(limit) => limit,
        };
        let mut started = None;
        loop {
            if let Some(slot) = self.take() {
                return Some(self.lend(slot));
            }
            if started.get_or_insert_with(Instant::now).elapsed() >= limit {
                return None;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    /// Counts a slot whose inference does not end, until the return value is dropped. If that is so
    /// of all slots, those that wait are sent away.
    pub(super) fn stuck(self: &Arc<Self>) -> Stuck<S> {
        let stuck = self.stuck.fetch_add(1, Ordering::SeqCst) + 1;
        if stuck >= self.size {
            self.call_all();
        }
        Stuck(Arc::clone(self))
    }

    fn take(&self) -> Option<S> {
        if self.free.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut slots = self.slots.lock();
        let slot = slots.pop();
        self.free.store(slots.len(), Ordering::SeqCst);
        slot
    }

    fn give_back(&self, slot: S) {
        let mut slots = self.slots.lock();
        slots.push(slot);
        self.free.store(slots.len(), Ordering::SeqCst);
        drop(slots);
        if self.waiting.get() > 0 {
            self.call(&mut self.sleepers.lock());
        }
    }

    fn lend(self: &Arc<Self>, slot: S) -> Lease<S> {
        Lease {
            slot: Some(slot),
            pool: Arc::clone(self),
        }
    }

    /// Takes a place in the queue, given back on drop.
    fn queue(&self, queue: SlotQueue) -> Result<WaitingPlace<'_>, PoolError> {
        let place = self.waiting.enter();
        if queue == SlotQueue::Bounded && self.still_waiting(place.ahead) >= self.max_waiting {
            return Err(PoolError::Full {
                slots: self.size,
                waiting: self.max_waiting,
            });
        }
        Ok(place)
    }
}

/// A request in the queue; dropping it leaves the queue.
struct Sleeper<'a, S> {
    pool: &'a Pool<S>,
    key: (Rank, u64),
    wake: Arc<Notify>,
}

impl<'a, S> Sleeper<'a, S> {
    /// Makes one that is called already, so that it is about to look for a slot.
    fn new(pool: &'a Pool<S>, rank: Rank) -> Self {
        let mut sleepers = pool.sleepers.lock();
        sleepers.last += 1;
        sleepers.called += 1;
        Self {
            pool,
            key: (rank, sleepers.last),
            wake: Arc::default(),
        }
    }

    /// Waits to be called from now on; returns whether it is called at once.
    fn lies_down(&mut self) -> bool {
        let mut sleepers = self.pool.sleepers.lock();
        sleepers.called -= 1;
        sleepers.asleep.insert(self.key, Arc::clone(&self.wake));
        self.pool.call(&mut sleepers);
        !sleepers.asleep.contains_key(&self.key)
    }
}

impl<S> Drop for Sleeper<'_, S> {
    fn drop(&mut self) {
        let mut sleepers = self.pool.sleepers.lock();
        if sleepers.asleep.remove(&self.key).is_none() {
            // It was called: the next may be, if there still is something to be had.
            sleepers.called -= 1;
            self.pool.call(&mut sleepers);
        }
    }
}

/// Number of requests that wait for something.
#[derive(Debug, Default)]
pub struct WaitingCount(AtomicUsize);

/// A request that waits, counted until dropped.
pub struct WaitingPlace<'a> {
    count: &'a WaitingCount,
    /// Number of requests ahead of it when it came.
    pub ahead: usize,
}

impl WaitingCount {
    /// Counts a request.
    pub fn enter(&self) -> WaitingPlace<'_> {
        WaitingPlace {
            count: self,
            ahead: self.0.fetch_add(1, Ordering::SeqCst),
        }
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A slot on loan; goes back on drop.
pub(super) struct Lease<S = Slot> {
    slot: Option<S>,
    pool: Arc<Pool<S>>,
}

impl<S> Lease<S> {
    /// Returns the slot.
    pub(super) fn slot(&mut self) -> &mut S {
        self.slot.as_mut().expect("it is there until the drop")
    }

    /// Returns the number of requests waiting for a slot.
    pub(super) fn waiting(&self) -> usize {
        self.pool.waiting.get()
    }

    /// Returns the pool of the slot.
    pub(super) fn pool(&self) -> Arc<Pool<S>> {
        Arc::clone(&self.pool)
    }
}

/// A slot whose inference does not end.
pub(super) struct Stuck<S = Slot>(Arc<Pool<S>>);

impl<S> Drop for Stuck<S> {
    fn drop(&mut self) {
        self.0.stuck.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S> Drop for Lease<S> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.pool.give_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{Arc, atomic::Ordering},
        time::{Duration, Instant},
    };

    use futures::poll;

    use super::{Lease, Pool, PoolError, SlotQueue, SlotWait};

    fn now() -> Instant {
        Instant::now()
    }

    #[tokio::test]
    async fn sleepers_are_served_in_turn_and_nobody_passes_them() {
        let pool = Pool::new(vec!["slot"], 10);
        let held = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .unwrap();
        let mut first = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        let mut second = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(first.as_mut()).is_pending());
        assert!(poll!(second.as_mut()).is_pending());
        drop(held);
        let mut third = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(third.as_mut()).is_pending(), "two are before it");
        assert!(poll!(second.as_mut()).is_pending(), "one is before it");
        let held = first.await.unwrap();
        drop(held);
        assert!(poll!(third.as_mut()).is_pending(), "one is before it");
        drop(second.await.unwrap());
        third.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_of_microseconds_takes_what_is_free() {
        let pool = Pool::new(vec!["slot"], 10);
        let held = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .unwrap();
        let mut sleeper = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(sleeper.as_mut()).is_pending());
        drop(held);
        let spin = SlotWait::Spin(Duration::ZERO);
        let quick: Lease<_> = pool.lease(spin, SlotQueue::Bounded, now()).await.unwrap();
        assert!(poll!(sleeper.as_mut()).is_pending(), "it came too late");
        drop(quick);
        sleeper.await.unwrap();
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_leaving_it_makes_room() {
        let pool = Pool::new(vec!["slot"], 1);
        let held = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .unwrap();
        {
            let mut waiting = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
            assert!(poll!(waiting.as_mut()).is_pending());
            let refused = pool
                .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
                .await
                .err();
            assert_eq!(
                refused,
                Some(PoolError::Full {
                    slots: 1,
                    waiting: 1
                })
            );
        }
        let mut waiting = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(waiting.as_mut()).is_pending(), "there is room again");
        let mut admitted = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Admitted, now()));
        assert!(
            poll!(admitted.as_mut()).is_pending(),
            "its caller bounds it"
        );
        drop(held);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn who_runs_without_a_slot_of_its_own_does_not_wait() {
        let pool = Pool::new(vec!["slot"], 1);
        let held = pool.lease_now(SlotWait::InTurn).unwrap();
        let mut first = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(first.as_mut()).is_pending());
        assert_eq!(pool.in_queue(), 1);
        pool.taken().fetch_add(1, Ordering::SeqCst);
        assert_eq!(pool.in_queue(), 0);
        let mut second = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(second.as_mut()).is_pending(), "there is room");
        let third = pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now());
        assert!(matches!(third.await, Err(PoolError::Full { .. })));
        drop(held);
        drop(first.await.unwrap());
        second.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_slot_is_left_idle_while_requests_wait() {
        let pool = Pool::new(vec![1, 2], 1000);
        for _ in 0..200 {
            // Both slots are lent at once, again and again; one that got stuck would never come.
            let pairs = (0..8).map(|_| {
                let pool = Arc::clone(&pool);
                crate::task::Task::spawn(async move {
                    for _ in 0..20 {
                        let lease = pool
                            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
                            .await
                            .unwrap();
                        tokio::task::yield_now().await;
                        drop(lease);
                    }
                })
            });
            let all = futures::future::join_all(pairs.collect::<Vec<_>>());
            tokio::time::timeout(Duration::from_secs(30), all)
                .await
                .unwrap();
            let both = futures::future::join(
                pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()),
                pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()),
            );
            let (one, two) = tokio::time::timeout(Duration::from_secs(30), both)
                .await
                .unwrap();
            drop((one.unwrap(), two.unwrap()));
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_slots_that_are_all_stuck_or_were_replaced() {
        let pool = Pool::new(vec!["slot"], 10);
        let _held = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .unwrap();
        let mut waiting = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(waiting.as_mut()).is_pending());
        let stuck = pool.stuck();
        assert_eq!(waiting.await.err(), Some(PoolError::Shut));
        let refused = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .err();
        assert_eq!(refused, Some(PoolError::Shut));
        drop(stuck);
        let mut waiting = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        assert!(poll!(waiting.as_mut()).is_pending(), "it may come back");
        pool.shut();
        assert_eq!(waiting.await.err(), Some(PoolError::Shut));
    }

    #[tokio::test]
    async fn one_that_leaves_after_it_was_called_calls_the_next() {
        let pool = Pool::new(vec!["slot"], 10);
        let held = pool
            .lease(SlotWait::InTurn, SlotQueue::Bounded, now())
            .await
            .unwrap();
        let mut second = Box::pin(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
        {
            let mut first = pin!(pool.lease(SlotWait::InTurn, SlotQueue::Bounded, now()));
            assert!(poll!(first.as_mut()).is_pending());
            assert!(poll!(second.as_mut()).is_pending());
            drop(held);
        }
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_higher_priority_comes_first_and_a_lower_one_in_the_end() {
        let pool = Pool::new(vec!["slot"], 10);
        let spin = SlotWait::InTurn;
        let held = pool.lease(spin, SlotQueue::Bounded, now()).await.unwrap();
        let second = Duration::from_secs(1);
        // As if they had come so much later.
        let begin = now();
        let ranks = [begin + 4 * second, begin + second, begin + 2 * second];
        let [last, first, middle] = ranks.map(|rank| {
            let pool = Arc::clone(&pool);
            Box::pin(async move { pool.lease(spin, SlotQueue::Bounded, rank).await })
        });
        let mut waiting = [last, first, middle];
        for sleeper in &mut waiting {
            assert!(poll!(sleeper).is_pending());
        }
        // One that has come by the time that the last stands for is behind it.
        let later = pool.lease(spin, SlotQueue::Bounded, begin + 5 * second);
        let mut later = pin!(later);
        assert!(poll!(later.as_mut()).is_pending());
        drop(held);
        let [last, first, middle] = waiting;
        drop(first.await.unwrap());
        drop(middle.await.unwrap());
        assert!(poll!(later.as_mut()).is_pending());
        drop(last.await.unwrap());
        drop(later.await.unwrap());
    }
}
