//! The rules, one by one.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt, poll};

use super::{Bounds, SequenceRefusal, Sequences};
use crate::{
    metrics::Reporter,
    sequence::{
        control::{SequenceCommand, SequenceControl},
        turn::{Begun, SequenceGuard},
    },
};

type Known = Arc<Sequences<u32, u64>>;

const BOUNDS: Bounds = Bounds {
    sequences: 3,
    waiting: 2,
};

fn registry() -> Known {
    let sequences = Sequences::new(Arc::<Reporter>::default());
    sequences.renew(Some(1));
    sequences
}

fn begin(
    known: &Known,
    control: SequenceControl,
    id: u64,
) -> Result<Begun<u32, u64>, SequenceRefusal> {
    known.begin(SequenceCommand { id, control }, &1, BOUNDS, &|_| None)
}

/// Takes a turn that is to be had at once.
fn turn(
    known: &Known,
    control: SequenceControl,
    id: u64,
) -> Result<SequenceGuard<u32, u64>, SequenceRefusal> {
    let begun = begin(known, control, id)?;
    Ok(begun.turn().now_or_never().expect("nobody has it").unwrap())
}

/// Runs a request that adds one to the state; returns id and state.
fn run(known: &Known, control: SequenceControl, id: u64) -> Result<(u64, u64), SequenceRefusal> {
    let mut turn = turn(known, control, id)?;
    let state = turn.run();
    let value = state.unwrap_or(0) + 1;
    *state = Some(value);
    turn.ended(true);
    Ok((turn.id(), value))
}

use SequenceControl::{End, Next, Only, Start};

#[test]
fn a_sequence_keeps_its_state_from_its_start_to_its_end() {
    let known = registry();
    assert_eq!(run(&known, Start, 7), Ok((7, 1)));
    assert_eq!(run(&known, Next, 7), Ok((7, 2)));
    assert_eq!(run(&known, End, 7), Ok((7, 3)));
    assert_eq!(run(&known, Next, 7), Err(SequenceRefusal::Unknown));
    assert_eq!(run(&known, End, 7), Err(SequenceRefusal::Unknown));
    assert_eq!(run(&known, Start, 7), Ok((7, 1)), "a new state");
    assert_eq!(run(&known, Start, 7), Err(SequenceRefusal::Exists));
    assert_eq!(run(&known, Only, u64::MAX), Ok((u64::MAX, 1)));
    assert_eq!(run(&known, Next, u64::MAX), Err(SequenceRefusal::Unknown));
}

#[test]
fn those_that_requests_have_are_picked_as_such() {
    let known = registry();
    for id in [7, 8] {
        run(&known, Start, id).unwrap();
    }
    let busy = turn(&known, Next, 8).unwrap();
    assert_eq!(known.pick(|state| state.is_none()), [(8, 1)]);
    assert_eq!(known.pick(|state| state == Some(&1)), [(7, 1)]);
    drop(busy);
    assert_eq!(known.pick(|state| state.is_none()), []);
}

#[test]
fn a_look_at_the_state_is_no_use_of_it() {
    let known = registry();
    begin(&known, Start, 7).unwrap().begin_with(4);
    assert!(known.scan(|_| true).is_empty());
    let look = turn(&known, Next, 7).unwrap();
    assert_eq!(look.state(), Some(&4));
    drop(look);
    assert_eq!(run(&known, Next, 7), Ok((7, 5)));
    assert!(known.scan(|_| true).is_empty(), "it was used");
    drop(turn(&known, Next, 7).unwrap());
    assert_eq!(known.scan(|_| true), [5], "it was not");
}

#[test]
fn the_limit_comes_before_the_id() {
    let known = registry();
    for id in [1, 2, 3] {
        run(&known, Start, id).unwrap();
    }
    assert_eq!(run(&known, Start, 1), Err(SequenceRefusal::Full));
    assert_eq!(run(&known, Only, 0), Err(SequenceRefusal::Full));
    assert_eq!(run(&known, Next, 1), Ok((1, 2)), "those there are go on");
    run(&known, End, 1).unwrap();
    assert_eq!(run(&known, Start, 2), Err(SequenceRefusal::Exists));
}

#[test]
fn a_start_that_may_come_to_nothing_takes_no_other_away() {
    let known = registry();
    let join = |control, id| {
        let command = SequenceCommand { id, control };
        known.join(command, &1, BOUNDS, &|state| *state > 0)
    };
    let turn = |begun: Begun<u32, u64>| begun.turn().now_or_never().unwrap().unwrap();
    for id in [1, 2, 3] {
        let mut turn = turn(join(Start, id).unwrap());
        *turn.run() = Some(1);
        turn.ended(true);
    }
    drop(turn(join(Start, 4).unwrap()));
    drop(turn(join(Next, 5).unwrap()));
    assert_eq!(known.len(), 3, "nobody had to go for them");
    let first = turn(join(Start, 4).unwrap());
    let second = turn(join(Start, 5).unwrap());
    assert_eq!(known.len(), 4, "one beyond the bound and no more");
    known.make_room(BOUNDS, &|_| true);
    assert_eq!(known.len(), 3, "one of them stays");
    drop((first, second));
    assert_eq!(known.len(), 1);
}

#[test]
fn where_all_are_in_use_as_many_as_may_wait_ask_the_store() {
    let known = registry();
    let join = |control, id| {
        let command = SequenceCommand { id, control };
        known.join(command, &1, BOUNDS, &|state| *state > 0)
    };
    let mut held: Vec<_> = [1, 2, 3].map(|id| join(Start, id).unwrap()).into();
    // Sequences that another request has pushed out of here, and starts that the store refuses.
    for (control, id) in [(Start, 4), (Next, 5), (Next, 6)] {
        held.push(join(control, id).unwrap());
    }
    let refused = join(Next, 7).err();
    assert_eq!(refused, Some(SequenceRefusal::Full), "it is bounded");
    drop(held);
    assert!(join(Next, 7).is_ok());
}

#[test]
fn a_list_has_the_steps_that_succeeded() {
    let known = registry();
    run(&known, Start, 7).unwrap();
    run(&known, Next, 7).unwrap();
    run(&known, Start, 7).unwrap_err();
    let mut moved = turn(&known, Next, 7).unwrap();
    moved.goes_on_after(40);
    drop(moved);
    let _held = turn(&known, Start, 9).unwrap();
    let mut list: Vec<_> = known.list(10).iter().map(|it| (it.id, it.steps)).collect();
    list.sort_unstable();
    assert_eq!(list, [(7, 40), (9, 0)]);
    run(&known, Next, 7).unwrap();
    let steps = known.list(10).iter().map(|it| it.steps).max();
    assert_eq!(steps, Some(41));
    assert_eq!(known.list(1).len(), 1);
}

#[test]
fn ids_are_the_lowest_free_ones_from_where_the_search_stands() {
    let known = registry();
    let start = || run(&known, Start, 0).unwrap().0;
    assert_eq!(start(), 1);
    run(&known, End, 1).unwrap();
    assert_eq!(start(), 1);
    assert_eq!(start(), 2);
    run(&known, End, 1).unwrap();
    assert_eq!(start(), 3);
    run(&known, End, 3).unwrap();
    run(&known, End, 2).unwrap();
    // 3 was the last one; the search never goes back.
    assert_eq!(start(), 3);
}

#[test]
fn the_search_for_an_id_leaves_out_zero_and_what_others_have() {
    let known = registry();
    known.lock().next_id = u64::MAX;
    let command = SequenceCommand {
        id: 0,
        control: Start,
    };
    let taken = |id| {
        [u64::MAX, 1]
            .contains(&id)
            .then_some(SequenceRefusal::Ending)
    };
    let Ok(Begun::Turn(turn)) = known.begin(command, &1, BOUNDS, &taken) else {
        panic!("it can start");
    };
    assert_eq!(turn.id(), 2);
    let command = SequenceCommand { id: 1, ..command };
    let refused = known.begin(command, &1, BOUNDS, &taken).err();
    assert_eq!(refused, Some(SequenceRefusal::Ending));
}

#[tokio::test]
async fn requests_of_a_sequence_have_their_turns_in_the_order_in_which_they_came() {
    let known = registry();
    let mut first = turn(&known, Start, 5).unwrap();
    let second = pin!(begin(&known, Next, 5).unwrap().turn());
    let mut last = pin!(begin(&known, End, 5).unwrap().turn());
    assert_eq!(begin(&known, Next, 5).err(), Some(SequenceRefusal::Unknown));
    assert_eq!(begin(&known, Start, 5).err(), Some(SequenceRefusal::Ending));
    assert!(poll!(last.as_mut()).is_pending());
    *first.run() = Some(10);
    first.ended(true);
    assert!(poll!(last.as_mut()).is_pending(), "the second is before it");
    let mut second = second.await.unwrap();
    assert_eq!(*second.run(), Some(10));
    second.ended(true);
    let mut last = last.await.unwrap();
    assert_eq!(begin(&known, Start, 5).err(), Some(SequenceRefusal::Ending));
    last.run();
    assert_eq!(last.ended(true), Some(10), "the state is no longer needed");
    assert!(known.is_empty());
}

#[tokio::test]
async fn a_request_that_leaves_before_its_run_has_changed_nothing() {
    let known = registry();
    drop(turn(&known, Start, 5).unwrap());
    assert!(known.is_empty(), "nothing has begun");
    run(&known, Start, 5).unwrap();
    drop(turn(&known, Next, 5).unwrap());
    drop(turn(&known, End, 5).unwrap());
    assert_eq!(run(&known, Next, 5), Ok((5, 2)));

    let held = turn(&known, Next, 5).unwrap();
    drop(begin(&known, End, 5).unwrap());
    let mut waiting = pin!(begin(&known, Next, 5).unwrap().turn());
    assert!(poll!(waiting.as_mut()).is_pending());
    drop(held);
    let mut waiting = waiting.await.unwrap();
    assert_eq!(*waiting.run(), Some(2));
    waiting.ended(true);

    // One that has been given its turn and does not take it passes it on.
    let held = turn(&known, Next, 5).unwrap();
    let given = begin(&known, End, 5).unwrap();
    drop(held);
    drop(given);
    assert_eq!(run(&known, End, 5), Ok((5, 3)));
    assert_eq!(known.lock().waiting, 0);
}

#[tokio::test]
async fn a_run_that_fails_closes_the_sequence_for_those_who_wait_as_well() {
    let known = registry();
    for control in [Start, Next, End] {
        if control != Start {
            run(&known, Start, 5).unwrap();
        }
        let mut failing = turn(&known, control, 5).unwrap();
        let waiting = begin(&known, Next, 5);
        *failing.run() = Some(1);
        failing.ended(false);
        match waiting {
            Ok(waiting) => assert_eq!(waiting.turn().await.err(), Some(SequenceRefusal::Unknown)),
            Err(refusal) => assert_eq!((refusal, control), (SequenceRefusal::Unknown, End)),
        }
        assert!(known.is_empty());
    }
    // A run that does not come to its end at all, such as in a panic.
    let mut lost = turn(&known, Start, 5).unwrap();
    lost.run();
    drop(lost);
    assert!(known.is_empty());
    run(&known, Start, 5).unwrap();
}

#[test]
fn so_many_wait_and_no_more() {
    let known = registry();
    let _held = turn(&known, Start, 5).unwrap();
    let first = begin(&known, Next, 5).unwrap();
    let _second = begin(&known, Next, 5).unwrap();
    assert_eq!(
        begin(&known, End, 5).err(),
        Some(SequenceRefusal::Crowded(2))
    );
    drop(first);
    assert!(begin(&known, End, 5).is_ok(), "there is room again");
}

#[test]
fn the_second_scan_without_a_request_between_removes() {
    let known = registry();
    run(&known, Start, 1).unwrap();
    run(&known, Start, 2).unwrap();
    let busy = turn(&known, Start, 3).unwrap();
    assert!(known.scan(|_| true).is_empty());
    run(&known, Next, 2).unwrap();
    // Neither a request that is refused nor one that does not run is a sign of life.
    assert_eq!(run(&known, Start, 1), Err(SequenceRefusal::Full));
    drop(turn(&known, Next, 1).unwrap());
    assert!(known.scan(|_| false).is_empty(), "nobody wants it cleaned");
    assert_eq!(known.scan(|_| true).len(), 1);
    assert_eq!(run(&known, Next, 1), Err(SequenceRefusal::Unknown));
    assert_eq!(run(&known, Start, 1), Ok((1, 1)), "the id is free");
    drop(busy);
    assert_eq!(
        run(&known, Next, 3),
        Err(SequenceRefusal::Unknown),
        "never ran"
    );
    assert_eq!(known.scan(|_| true).len(), 1, "2, for the second time");
    assert_eq!(run(&known, Next, 1), Ok((1, 2)));
}

#[test]
fn those_that_are_looked_at_go_only_if_they_are_as_they_were() {
    let known = registry();
    for id in 1..=3 {
        run(&known, Start, id).unwrap();
    }
    run(&known, Next, 3).unwrap();
    let sample = |most, unused| {
        let mut found = known.sample(most, unused, |state| (*state < 9).then_some(*state));
        found.sort_unstable();
        found
    };
    assert!(sample(9, Duration::from_secs(60)).is_empty(), "all are new");
    assert_eq!(sample(2, Duration::ZERO).len(), 2);
    let all = sample(9, Duration::ZERO);
    assert_eq!(all, [(1, 1), (2, 1), (3, 2)]);
    // One is used meanwhile, and another one is in use.
    run(&known, Next, 1).unwrap();
    let busy = turn(&known, Next, 2).unwrap();
    assert_eq!(sample(9, Duration::ZERO), [(1, 2), (3, 2)]);
    let unknown = [(4, 1)];
    let dropped = known.drop_those(all.into_iter().chain(unknown), |was, is| was == is);
    assert_eq!((dropped, known.len()), (vec![2], 2));
    drop(busy);
    assert_eq!(run(&known, Next, 2), Ok((2, 2)));
    assert_eq!(run(&known, Next, 3), Err(SequenceRefusal::Unknown));
    assert_eq!(run(&known, Start, 3), Ok((3, 1)), "there is room");
}

#[tokio::test]
async fn sequences_move_to_another_instance_with_those_who_have_them_and_wait() {
    let known = registry();
    for id in [1, 2] {
        run(&known, Start, id).unwrap();
    }
    let mut running = turn(&known, Next, 2).unwrap();
    let waiting = begin(&known, Next, 2).unwrap();
    known.renew(Some(5));
    let left = known.move_all(&1, &5, |state| Some(std::mem::take(state)));
    assert_eq!(left, [1], "the other one has its own");
    assert_eq!((known.count(&1), known.count(&5)), (0, 2));
    assert_eq!(run(&known, Next, 1), Err(SequenceRefusal::Replaced));
    assert!(!running.follow(&1) && running.follow(&5));
    assert_eq!(*running.instance(), 5);
    *running.run() = Some(7);
    running.ended(true);
    let next = waiting.turn().await.unwrap();
    assert_eq!((*next.instance(), next.state()), (5, Some(&7)));
    drop(next);
    let command = SequenceCommand {
        id: 1,
        control: End,
    };
    let begun = known.begin(command, &5, BOUNDS, &|_| None).unwrap();
    let mut last = begun.turn().await.unwrap();
    drop(known.drop_of(&5));
    assert!(!last.follow(&5), "it is gone");
    assert_eq!(last.ended(true), Some(0));
}

#[tokio::test]
async fn sequences_stay_on_their_instance_until_they_are_dropped() {
    let known = registry();
    run(&known, Start, 1).unwrap();
    known.renew(Some(2));
    assert_eq!(run(&known, Start, 2), Err(SequenceRefusal::Replaced));
    assert_eq!(known.instance(1), Some(1));
    assert_eq!(run(&known, Next, 1), Ok((1, 2)));
    for id in 2..5 {
        let command = SequenceCommand { id, control: Start };
        let begun = known.begin(command, &2, BOUNDS, &|_| None).unwrap();
        let mut turn = begun.turn().await.unwrap();
        turn.run();
        turn.ended(true);
    }
    let command = SequenceCommand {
        id: 9,
        control: Start,
    };
    let full = known.begin(command, &2, BOUNDS, &|_| None).err();
    assert_eq!(
        full,
        Some(SequenceRefusal::Full),
        "of its own instance there are 3"
    );
    let mut gone = pin!(known.wait_gone(|instance| *instance == 1));
    assert!(poll!(gone.as_mut()).is_pending());
    let mut running = turn(&known, Next, 1).unwrap();
    let waiting = begin(&known, Next, 1).unwrap();
    running.run();
    assert!(known.drop_of(&1).is_empty(), "the one that runs has it");
    gone.await;
    assert_eq!(waiting.turn().await.err(), Some(SequenceRefusal::Unknown));
    assert_eq!(running.ended(true), Some(2));
    assert_eq!(known.len(), 3);
    known.renew(None);
    let none = known.begin(command, &2, BOUNDS, &|_| None).err();
    assert_eq!(none, Some(SequenceRefusal::Replaced));
}
