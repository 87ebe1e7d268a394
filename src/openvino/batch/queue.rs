//! The queue of runs that wait for an infer request, and the batches that are made of it. Free of the
//! runtime and of threads: who has an infer request asks for companions of its own run.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use super::{super::pool::Rank, choice::SizeChoice};

/// A run, as far as batches are concerned.
pub(crate) trait Batchable {
    /// Shapes of a row, by which runs are mixed.
    type Shapes;

    /// Returns its place in the queue.
    fn rank(&self) -> Rank;

    /// Returns the number of its rows; `None` if it runs alone.
    fn rows(&self) -> Option<usize>;

    /// Returns the shapes of its rows.
    fn shapes(&self) -> Self::Shapes;

    /// Returns whether its rows have these shapes.
    fn has_shapes(&self, shapes: &Self::Shapes) -> bool;

    /// Returns whether its client still waits.
    fn is_wanted(&self) -> bool;
}

/// A size of batch by its place, and the runs beside the first one.
pub(crate) type Companions<R> = (usize, Vec<R>);

/// Runs that wait for an infer request, by rank, each with its number.
pub(crate) struct RunQueue<R: Batchable> {
    offers: VecDeque<(u64, R)>,
    last: u64,
    /// Number of offers that were taken while their owners are in the queue for an infer request. It is changed here
    /// alone, and read where that queue is bounded.
    taken: Arc<AtomicUsize>,
    gatherings: Vec<Gathering<R>>,
}

/// A batch that waits for more rows.
struct Gathering<R: Batchable> {
    number: u64,
    shapes: R::Shapes,
    room: usize,
    runs: Vec<R>,
    /// Runs whose clients have left. They are dropped when the batch is closed, where nobody waits for the queue.
    gone: Vec<R>,
}

impl<R: Batchable> Default for RunQueue<R> {
    fn default() -> Self {
        Self {
            offers: VecDeque::new(),
            last: 0,
            taken: Arc::default(),
            gatherings: Vec::new(),
        }
    }
}

impl<R: Batchable> RunQueue<R> {
    /// Makes a queue that counts the offers that were taken.
    pub(crate) fn counting(taken: Arc<AtomicUsize>) -> Self {
        Self {
            taken,
            ..Self::default()
        }
    }

    /// Puts a run behind those that have no later rank; returns its number.
    pub(crate) fn push(&mut self, run: R) -> u64 {
        self.last += 1;
        let rank = run.rank();
        let place = self.offers.partition_point(|(_, it)| it.rank() <= rank);
        self.offers.insert(place, (self.last, run));
        self.last
    }

    /// Gives a run back to its owner, who does not wait for an infer request any more; `None` if it was taken.
    pub(crate) fn take_back(&mut self, number: u64) -> Option<R> {
        let place = self.offers.iter().position(|(known, _)| *known == number);
        let Some(place) = place else {
            self.taken.fetch_sub(1, SeqCst);
            return None;
        };
        self.offers.remove(place).map(|(_, run)| run)
    }

    /// Takes the first run.
    pub(crate) fn pop(&mut self) -> Option<R> {
        let (_, run) = self.offers.pop_front()?;
        self.taken.fetch_add(1, SeqCst);
        Some(run)
    }

    /// Returns the number of owners that wait for an infer request.
    pub(crate) fn owners(&self) -> usize {
        self.offers.len() + self.taken.load(SeqCst)
    }

    /// Returns the number of rows that wait, of all shapes; a run that runs alone is one.
    pub(crate) fn rows(&self) -> usize {
        let rows = self.offers.iter().map(|(_, run)| run.rows().unwrap_or(1));
        rows.sum()
    }

    /// Returns the number of rows, up to so many, that wait and go together with the first run, it included; 0 if
    /// that runs alone, or none waits.
    pub(crate) fn rows_of_first(&self, most: usize) -> usize {
        let Some((_, first)) = self.offers.front() else {
            return 0;
        };
        let shapes = first.shapes();
        let mut rows = 0;
        for (_, run) in &self.offers {
            rows += run.rows().filter(|_| run.has_shapes(&shapes)).unwrap_or(0);
            if first.rows().is_none() || rows >= most {
                break;
            }
        }
        rows
    }

    /// Returns whether no run waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// Takes the runs that run together with this one, if it is better for them: the first of its shapes that
    /// there is room for. Those whose clients have left go.
    pub(crate) fn companions(&mut self, run: &R, choice: &SizeChoice) -> Option<Companions<R>> {
        if self.offers.is_empty() {
            return None;
        }
        let own = run.rows()?;
        let shapes = run.shapes();
        let rows = |other: &R| {
            let fits = other.is_wanted() && other.has_shapes(&shapes);
            other.rows().filter(|_| fits)
        };
        let (sizes, mut waiting) = (choice.sizes(), own);
        for (_, other) in &self.offers {
            waiting += rows(other).unwrap_or(0);
            if waiting >= sizes.most() {
                break;
            }
        }
        let size = choice.choose(own, waiting, Instant::now())?;
        let mut room = sizes.list[size].rows - own;
        let mut runs = Vec::new();
        let before = self.offers.len();
        for (number, other) in std::mem::take(&mut self.offers) {
            match rows(&other) {
                Some(rows) if rows <= room => {
                    room -= rows;
                    runs.push(other);
                }
                _ if !other.is_wanted() => {}
                _ => self.offers.push_back((number, other)),
            }
        }
        let taken = before - self.offers.len();
        self.taken.fetch_add(taken, SeqCst);
        (!runs.is_empty()).then_some((size, runs))
    }

    /// Opens a batch to runs that come later, for so many rows of these shapes.
    pub(crate) fn open(&mut self, shapes: R::Shapes, room: usize) -> u64 {
        self.last += 1;
        self.gatherings.push(Gathering {
            number: self.last,
            shapes,
            room,
            runs: Vec::new(),
            gone: Vec::new(),
        });
        self.last
    }

    /// Puts a run into a batch that waits for it, or gives it back.
    pub(crate) fn join(&mut self, run: R) -> Result<(), R> {
        let Some(rows) = run.rows() else {
            return Err(run);
        };
        let mut open = self.gatherings.iter_mut();
        match open.find(|it| rows <= it.room && run.has_shapes(&it.shapes)) {
            Some(gathering) => {
                gathering.room -= rows;
                gathering.runs.push(run);
                Ok(())
            }
            None => Err(run),
        }
    }

    /// Returns whether an open batch is to wait no longer: no more rows fit, or a run waits for an infer request that no
    /// open batch takes. Those that one takes join it, and those whose clients have left go, and make room.
    pub(crate) fn is_over(&mut self, number: u64) -> bool {
        for Gathering {
            room, runs, gone, ..
        } in &mut self.gatherings
        {
            gone.extend(runs.extract_if(.., |run| {
                let has_left = !run.is_wanted();
                *room += run.rows().filter(|_| has_left).unwrap_or(0);
                has_left
            }));
        }
        let before = self.offers.len();
        // They came between a look for an open batch and the opening of one.
        for (number, other) in std::mem::take(&mut self.offers) {
            if !other.is_wanted() {
                continue;
            }
            if let Err(other) = self.join(other) {
                self.offers.push_back((number, other));
            }
        }
        let taken = before - self.offers.len();
        self.taken.fetch_add(taken, SeqCst);
        let mut open = self.gatherings.iter();
        !self.offers.is_empty() || open.all(|it| it.number != number || it.room == 0)
    }

    /// Closes a batch; returns the runs that came, those whose clients have left last.
    pub(crate) fn close(&mut self, number: u64) -> Vec<R> {
        let place = self.gatherings.iter().position(|it| it.number == number);
        place.map_or_else(Vec::new, |place| {
            let Gathering { mut runs, gone, .. } = self.gatherings.swap_remove(place);
            runs.extend(gone);
            runs
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::LazyLock, time::Duration};

    use super::{super::sizes::BatchSizes, *};

    /// Rank of a run without a priority.
    static RANK: LazyLock<Rank> = LazyLock::new(Rank::now);

    /// A run of rows of a width.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Fake {
        name: char,
        rows: usize,
        width: usize,
        left: bool,
    }

    impl Batchable for Fake {
        type Shapes = usize;

        fn rank(&self) -> Rank {
            // Those of capital names are urgent.
            let hurry = u64::from(self.name.is_uppercase());
            *RANK - Duration::from_secs(hurry)
        }

        fn rows(&self) -> Option<usize> {
            (self.rows > 0).then_some(self.rows)
        }

        fn shapes(&self) -> usize {
            self.width
        }

        fn has_shapes(&self, shapes: &usize) -> bool {
            self.width == *shapes
        }

        fn is_wanted(&self) -> bool {
            !self.left
        }
    }

    fn fake(name: char, rows: usize, width: usize) -> Fake {
        Fake {
            name,
            rows,
            width,
            left: false,
        }
    }

    fn names(runs: &[Fake]) -> String {
        runs.iter().map(|run| run.name).collect()
    }

    fn queue(runs: impl IntoIterator<Item = Fake>) -> RunQueue<Fake> {
        let mut queue = RunQueue::default();
        for run in runs {
            queue.push(run);
        }
        queue
    }

    #[test]
    fn companions_are_the_first_of_the_same_shapes_as_far_as_there_is_room() {
        let mut queue = queue([
            fake('b', 1, 4),
            fake('c', 1, 8),
            fake('d', 3, 4),
            fake('e', 1, 4),
            fake('f', 1, 4),
        ]);
        let sizes: SizeChoice = BatchSizes::up_to(4).into();
        let (size, runs) = queue.companions(&fake('a', 1, 4), &sizes).unwrap();
        assert_eq!((sizes.sizes().list[size].rows, &*names(&runs)), (4, "bef"));
        assert_eq!(queue.owners(), 5, "all of them still wait");
        let left: String = std::iter::from_fn(|| queue.pop())
            .map(|run| run.name)
            .collect();
        assert_eq!(left, "cd", "in their order");
    }

    #[test]
    fn runs_of_an_earlier_rank_go_first() {
        let mut queue = queue(['a', 'B', 'c', 'D'].map(|name| fake(name, 1, 4)));
        let (_, runs) = queue
            .companions(&fake('x', 1, 4), &BatchSizes::up_to(4).into())
            .unwrap();
        assert_eq!(names(&runs), "BDa");
        assert_eq!(queue.pop().unwrap().name, 'c');
    }

    #[test]
    fn rows_that_wait_count_by_the_shapes_of_the_first_run() {
        let count = |runs: &[Fake]| {
            let queue = queue(runs.iter().copied());
            (queue.rows(), queue.rows_of_first(4))
        };
        assert_eq!(count(&[]), (0, 0));
        assert_eq!(count(&[fake('a', 2, 4), fake('b', 1, 8)]), (3, 2));
        let wide = [fake('a', 1, 4), fake('b', 1, 8), fake('c', 2, 4)];
        assert_eq!(count(&wide), (4, 3));
        assert_eq!(count(&[fake('a', 0, 4), fake('b', 1, 4)]), (2, 0), "alone");
        assert_eq!(
            count(&[fake('a', 1, 4); 9]),
            (9, 4),
            "no more than asked for"
        );
    }

    #[test]
    fn runs_of_other_shapes_or_without_rows_are_alone() {
        let sizes: SizeChoice = BatchSizes::up_to(4).into();
        let mut others = queue([fake('b', 1, 8), fake('c', 0, 4)]);
        assert_eq!(others.companions(&fake('a', 1, 4), &sizes), None);
        assert_eq!(others.companions(&fake('a', 0, 8), &sizes), None);
        assert_eq!(others.owners(), 2);
        let mut same = queue([fake('b', 1, 4)]);
        let large = fake('a', 4, 4);
        assert_eq!(same.companions(&large, &sizes), None, "it fills a batch");
    }

    #[test]
    fn those_whose_clients_have_left_are_in_no_batch() {
        let gone = Fake {
            left: true,
            ..fake('b', 1, 4)
        };
        let sizes: SizeChoice = BatchSizes::up_to(4).into();
        let mut queue = queue([gone]);
        assert_eq!(queue.companions(&fake('a', 1, 4), &sizes), None);
        queue.push(fake('c', 1, 4));
        let (_, runs) = queue.companions(&fake('a', 1, 4), &sizes).unwrap();
        assert_eq!(names(&runs), "c");
        assert!(queue.is_empty());
        for number in [1, 2] {
            assert_eq!(queue.take_back(number), None, "it was taken");
        }
        assert_eq!(queue.owners(), 0);
    }

    #[test]
    fn an_owner_that_stops_waiting_has_its_run_back() {
        let mut queue = queue([fake('a', 1, 4), fake('b', 1, 4)]);
        assert_eq!(queue.take_back(1).unwrap().name, 'a');
        assert_eq!(queue.pop().unwrap().name, 'b');
        assert_eq!((queue.owners(), queue.take_back(2)), (1, None));
        assert_eq!(queue.owners(), 0);
    }

    #[test]
    fn an_open_batch_takes_what_fits_until_it_is_closed() {
        let mut queue = RunQueue::default();
        assert_eq!(queue.join(fake('a', 1, 4)), Err(fake('a', 1, 4)));
        let number = queue.open(4, 3);
        assert!(queue.join(fake('b', 1, 4)).is_ok());
        assert!(queue.join(fake('c', 1, 8)).is_err(), "of another shape");
        assert!(queue.join(fake('d', 3, 4)).is_err(), "it is too large");
        assert!(!queue.is_over(number));
        assert!(queue.join(fake('e', 2, 4)).is_ok());
        assert!(queue.is_over(number));
        assert_eq!(names(&queue.close(number)), "be");
        assert!(queue.join(fake('f', 1, 4)).is_err(), "it is closed");
        assert!(queue.is_empty());
    }

    #[test]
    fn one_that_leaves_an_open_batch_makes_room() {
        let mut queue = RunQueue::default();
        let number = queue.open(4, 3);
        assert!(queue.join(fake('a', 2, 4)).is_ok());
        assert!(queue.join(fake('b', 1, 4)).is_ok());
        assert!(queue.is_over(number));
        queue.gatherings[0].runs[0].left = true;
        let late = fake('c', 2, 4);
        let late = queue.join(late).unwrap_err();
        queue.push(late);
        assert!(queue.is_over(number), "it is full again");
        assert!(queue.is_empty());
        assert_eq!(names(&queue.close(number)), "bca");
    }

    #[test]
    fn an_open_batch_waits_for_no_more_while_a_run_waits_that_cannot_join() {
        for other in [fake('d', 1, 8), fake('d', 3, 4), fake('d', 0, 4)] {
            let mut queue = RunQueue::default();
            let number = queue.open(4, 3);
            queue.push(fake('b', 1, 4));
            queue.push(Fake {
                left: true,
                ..fake('c', 1, 8)
            });
            assert!(!queue.is_over(number), "one joins, and one has left");
            assert!(queue.is_empty());
            assert_eq!(queue.owners(), 2, "who wait until they are answered");
            queue.push(other);
            assert!(queue.is_over(number));
            assert_eq!(names(&queue.close(number)), "b");
            assert_eq!(queue.pop(), Some(other));
        }
    }
}
