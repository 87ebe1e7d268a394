//! A million random operations against a simple model of the rules, and as many from several
//! threads at once with a cleaner among them.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use futures::FutureExt;

use super::{Bounds, SequenceRefusal, Sequences};
use crate::{
    metrics::Reporter,
    sequence::{
        control::{SequenceCommand, SequenceControl},
        turn::{Begun, SequenceGuard, Waiting},
    },
};

/// A sequence of numbers that look random (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn control(&mut self) -> SequenceControl {
        match self.below(8) {
            0..=2 => SequenceControl::Start,
            3..=5 => SequenceControl::Next,
            6 => SequenceControl::End,
            _ => SequenceControl::Only,
        }
    }
}

const BOUNDS: Bounds = Bounds {
    sequences: 4,
    waiting: 3,
};

/// Model of a sequence: the numbers of the requests that are in it, the one with the turn first.
#[derive(Default)]
struct Sequence {
    requests: VecDeque<usize>,
    ending: bool,
    idle: bool,
    steps: u64,
}

/// A request that is in flight.
struct Request {
    id: u64,
    control: SequenceControl,
    begun: Option<Begun<u32, u64>>,
}

#[derive(Default)]
struct Model {
    sequences: BTreeMap<u64, Sequence>,
    next_id: u64,
    waiting: usize,
}

impl Model {
    fn begin(
        &mut self,
        id: u64,
        control: SequenceControl,
        number: usize,
    ) -> Result<u64, SequenceRefusal> {
        if control.starts() {
            if self.sequences.len() >= 4 {
                return Err(SequenceRefusal::Full);
            }
            let id = if id == 0 {
                while self.next_id == 0 || self.sequences.contains_key(&self.next_id) {
                    self.next_id += 1;
                }
                self.next_id
            } else {
                id
            };
            match self.sequences.get(&id) {
                Some(sequence) if sequence.ending => return Err(SequenceRefusal::Ending),
                Some(_) => return Err(SequenceRefusal::Exists),
                None => {}
            }
            let sequence = Sequence {
                requests: [number].into(),
                ending: control.ends(),
                ..Sequence::default()
            };
            self.sequences.insert(id, sequence);
            return Ok(id);
        }
        let Some(sequence) = self.sequences.get_mut(&id).filter(|s| !s.ending) else {
            return Err(SequenceRefusal::Unknown);
        };
        if !sequence.requests.is_empty() {
            if self.waiting >= 3 {
                return Err(SequenceRefusal::Crowded(self.waiting));
            }
            self.waiting += 1;
        }
        sequence.requests.push_back(number);
        sequence.ending = control.ends();
        Ok(id)
    }

    fn remove(&mut self, id: u64) {
        self.sequences.remove(&id);
    }
}

/// Takes a turn apart from a request, if it has it.
fn turn_of(begun: Begun<u32, u64>) -> Result<SequenceGuard<u32, u64>, Option<Waiting<u32, u64>>> {
    match begun {
        Begun::Turn(turn) => Ok(turn),
        Begun::Waiting(mut waiting) => match (&mut waiting.turn).now_or_never() {
            Some(Ok(turn)) => Ok(turn),
            Some(Err(_)) => Err(None),
            None => Err(Some(waiting)),
        },
    }
}

#[test]
fn a_million_random_operations_do_what_the_rules_say() {
    let known = Sequences::<u32, u64>::new(Arc::<Reporter>::default());
    known.renew(Some(1));
    let mut model = Model {
        next_id: 1,
        ..Model::default()
    };
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let mut requests: BTreeMap<usize, Request> = BTreeMap::new();
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..1_000_000 {
        let action = random.below(20);
        if action == 0 {
            let mut removed = Vec::new();
            for (&id, sequence) in &mut model.sequences {
                if sequence.requests.is_empty() && !sequence.ending {
                    if sequence.idle {
                        removed.push(id);
                    }
                    sequence.idle = true;
                }
            }
            assert_eq!(known.scan(|_| true).len(), removed.len());
            for id in removed {
                model.remove(id);
                *outcomes.entry("evicted".to_owned()).or_default() += 1;
            }
        } else if action < 10 || requests.is_empty() {
            let control = random.control();
            let id = random.below(7);
            if id == 0 && !control.starts() {
                // Refused before it comes here.
                continue;
            }
            let command = SequenceCommand { id, control };
            let begun = known.begin(command, &1, BOUNDS, &|_| None);
            let expected = model.begin(id, control, number);
            assert_eq!(
                begun.as_ref().err(),
                expected.as_ref().err(),
                "operation {number}: {command:?}"
            );
            let outcome = match &expected {
                Ok(_) => format!("{control:?}"),
                Err(refusal) => format!("{refusal:?}"),
            };
            *outcomes.entry(outcome).or_default() += 1;
            if let (Ok(begun), Ok(id)) = (begun, expected) {
                if let Begun::Turn(turn) = &begun {
                    assert_eq!(turn.id(), id, "operation {number}");
                }
                let begun = Some(begun);
                requests.insert(number, Request { id, control, begun });
            }
        } else {
            // One of those in flight goes on: whichever.
            let place = random.below(requests.len() as u64) as usize;
            let (&which, request) = requests.iter_mut().nth(place).unwrap();
            let (id, control) = (request.id, request.control);
            let waits = matches!(request.begun, Some(Begun::Waiting(_)));
            let sequence = model.sequences.get_mut(&id);
            let position = sequence
                .as_ref()
                .and_then(|s| s.requests.iter().position(|&r| r == which));
            let begun = request.begun.take().unwrap();
            if random.below(8) == 0 {
                // The client leaves.
                drop(begun);
                requests.remove(&which);
                model.waiting -= usize::from(waits);
                if let (Some(sequence), Some(position)) = (sequence, position) {
                    sequence.requests.remove(position);
                    if control.starts() {
                        model.remove(id);
                    } else {
                        sequence.ending &= !control.ends();
                    }
                }
                *outcomes.entry("left".to_owned()).or_default() += 1;
                continue;
            }
            match turn_of(begun) {
                Ok(mut turn) => {
                    assert_eq!(position, Some(0), "operation {number}: not its turn");
                    let sequence = sequence.expect("it has the turn");
                    let success = random.below(10) > 0;
                    let state = turn.run();
                    assert_eq!(state.unwrap_or(0), sequence.steps, "operation {number}");
                    *state = Some(sequence.steps + 1);
                    turn.ended(success);
                    requests.remove(&which);
                    model.waiting -= usize::from(waits);
                    sequence.steps += 1;
                    sequence.requests.pop_front();
                    if !success || control.ends() {
                        model.remove(id);
                    } else {
                        sequence.idle = false;
                    }
                }
                Err(Some(waiting)) => {
                    assert_ne!(position, Some(0), "operation {number}: it has the turn");
                    assert!(position.is_some(), "operation {number}: nobody woke it");
                    request.begun = Some(Begun::Waiting(waiting));
                }
                Err(None) => {
                    assert_eq!(position, None, "operation {number}: it is not over");
                    requests.remove(&which);
                    model.waiting -= 1;
                    *outcomes.entry("gone".to_owned()).or_default() += 1;
                }
            }
        }
        assert_eq!(known.len(), model.sequences.len(), "operation {number}");
        if number % 1000 == 0 {
            let ids: HashSet<u64> = model.sequences.keys().copied().collect();
            let all: HashSet<u64> = known.lock().entries.keys().copied().collect();
            assert_eq!(all, ids, "operation {number}");
            assert_eq!(known.lock().waiting, model.waiting);
        }
    }
    // All of it has been put to the test.
    assert_eq!(outcomes.len(), 12, "{outcomes:?}");
    assert!(outcomes.values().all(|&count| count > 100), "{outcomes:?}");
}

/// The state of a sequence in the test with threads.
#[derive(Default)]
struct Shared {
    busy: AtomicBool,
    steps: AtomicU64,
}

#[test]
fn threads_and_a_cleaner_neither_lose_nor_double_a_sequence() {
    const THREADS: u64 = 4;
    // Each thread goes on until it has begun so many, however the system divides its time.
    const EACH: u64 = 20_000;
    let known = Sequences::<u32, Arc<Shared>>::new(Arc::<Reporter>::default());
    known.renew(Some(1));
    let counts = Counts::default();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (known, counts, over) = (&known, &counts, &over);
        let work = |thread| move || begin_and_run(known, counts, EACH, thread);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        scope.spawn(move || {
            while !over.load(SeqCst) {
                clean(known, counts);
                std::thread::yield_now();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // First of all, so that a thread that has failed does not leave the cleaner at work.
        over.store(true, SeqCst);
        for thread in ended {
            thread.expect("each thread sees what the rules say");
        }
    });
    let left = known.len() as u64;
    let (started, gone) = (counts.started.load(SeqCst), counts.gone.load(SeqCst));
    assert_eq!(started, THREADS * EACH);
    assert_eq!(started, gone + left);
    assert_eq!(known.lock().waiting, 0);
    assert!(known.lock().entries.values().all(|e| !e.busy && !e.ending));
    // The cleaner may have marked some of them already.
    let states = known.scan(|_| true).len() + known.scan(|_| true).len();
    assert_eq!(states as u64, left, "each has its state");
    assert!(known.is_empty());
}

/// Begins so many sequences, and runs random requests in whichever there are.
fn begin_and_run(
    known: &Arc<Sequences<u32, Arc<Shared>>>,
    counts: &Counts,
    wanted: u64,
    thread: u64,
) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (thread + 1));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let mut started = 0;
    while started < wanted {
        match request(known, counts, &mut random) {
            Ok((control, begun)) => {
                started += u64::from(control.starts());
                if let Some(begun) = begun
                    && let Ok(turn) = runtime.block_on(begun.turn())
                {
                    run(turn, control, counts, &mut random);
                }
            }
            // The cleaner has not come for a while: requests would be refused until it does.
            Err(SequenceRefusal::Full) => clean(known, counts),
            Err(_) => {}
        }
    }
}

/// Removes the sequences that nobody has used since the last time.
fn clean(known: &Sequences<u32, Arc<Shared>>, counts: &Counts) {
    let evicted = known.scan(|_| true).len() as u64;
    counts.gone.fetch_add(evicted, SeqCst);
}

#[derive(Default)]
struct Counts {
    started: AtomicU64,
    gone: AtomicU64,
}

type InThreads = Begun<u32, Arc<Shared>>;

/// Begins a random request; its client may leave at once.
fn request(
    known: &Arc<Sequences<u32, Arc<Shared>>>,
    counts: &Counts,
    random: &mut Random,
) -> Result<(SequenceControl, Option<InThreads>), SequenceRefusal> {
    let bounds = Bounds {
        sequences: 5,
        waiting: 100,
    };
    let control = random.control();
    // An id of the server's choice is one that nobody asks for, so that the cleaner has work.
    let chosen = control.starts() && random.below(100) == 0;
    let id = if chosen { 0 } else { random.below(6) + 1 };
    let command = SequenceCommand { id, control };
    let begun = known.begin(command, &1, bounds, &|_| None)?;
    if control.starts() {
        counts.started.fetch_add(1, SeqCst);
    }
    let leaves = random.below(10) == 0;
    if leaves && control.starts() {
        counts.gone.fetch_add(1, SeqCst);
    }
    Ok((control, (!leaves).then_some(begun)))
}

fn run(
    mut turn: SequenceGuard<u32, Arc<Shared>>,
    control: SequenceControl,
    counts: &Counts,
    random: &mut Random,
) {
    let state = Arc::clone(turn.run().get_or_insert_default());
    assert!(
        !state.busy.swap(true, SeqCst),
        "two at once in {}",
        turn.id()
    );
    let steps = state.steps.fetch_add(1, SeqCst);
    assert_eq!(steps == 0, control.starts(), "a state that is not its own");
    let success = random.below(20) > 0;
    state.busy.store(false, SeqCst);
    turn.ended(success);
    if !success || control.ends() {
        counts.gone.fetch_add(1, SeqCst);
    }
}
