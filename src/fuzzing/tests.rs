//! Bounded runs of the targets: their corpora, and some thousand inputs that are made of these.
//!
//! The inputs are the same each time; `FUZZ_SEED` chooses others, and `FUZZ_CASES` how many. One that fails is made
//! small and printed.

use std::{collections::BTreeSet, fs, sync::Arc};

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, RngSeed, TestRunner},
};

use super::{FuzzTarget, seeds::folder};

/// Inputs of a target in a test.
const CASES: u32 = 1500;

/// The seed of a test.
const SEED: u64 = 0x6f76_6d73;

/// Maximum size of an input in bytes.
const MAX_INPUT: usize = 16 << 10;

/// Pieces that matter to some parser.
const WORDS: &[&[u8]] = &[
    b"0",
    b"-1",
    b"1e999",
    b"18446744073709551615",
    b"9223372036854775808",
    b"NaN",
    b"null",
    b"true",
    b"\"",
    b"\\u0000",
    b"[",
    b"]",
    b"{",
    b"}",
    b":",
    b",",
    b"<",
    b">",
    b"(",
    b"../",
    b"%2e%2e",
    b"%00",
    b"\0",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"*-1\r\n",
    b"*1\r\n",
    b"$-1\r\n",
    b"b64",
    b"\"b64\":",
    b"inputs",
    b"instances",
    b"parameters",
    b"binary_data_size",
    b"shape",
    b"datatype",
    b"BYTES",
    b"data",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"://",
    b"@",
    b"node {",
    b"type.googleapis.com/",
    b"'|O'",
    b"True",
    b"\xef\xbb\xbf",
    b"\xc3\x28",
];

/// Change of an input. Places are relative to its length.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(Index, u8),
    Set(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Insert(Index, Vec<u8>),
    Word(Index, &'static [u8]),
    Splice(Index, Index, Index),
    Cut(Index),
}

impl Mutation {
    fn any() -> impl Strategy<Value = Self> {
        let place = any::<Index>;
        prop_oneof![
            1 => (place(), 0..8_u8).prop_map(|(at, bit)| Self::Flip(at, 1 << bit)),
            1 => (place(), any::<u8>()).prop_map(|(at, byte)| Self::Set(at, byte)),
            1 => (place(), 1..32_usize).prop_map(|(at, count)| Self::Remove(at, count)),
            1 => (place(), 1..64_usize, 1..64_usize)
                .prop_map(|(at, count, times)| Self::Repeat(at, count, times)),
            1 => (place(), prop::collection::vec(any::<u8>(), 1..8))
                .prop_map(|(at, bytes)| Self::Insert(at, bytes)),
            4 => (place(), prop::sample::select(WORDS)).prop_map(|(at, word)| Self::Word(at, word)),
            1 => (place(), place(), place()).prop_map(|(seed, from, at)| Self::Splice(seed, from, at)),
            1 => place().prop_map(Self::Cut),
        ]
    }

    fn apply(&self, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let place = |at: &Index| at.index(data.len() + 1);
        match self {
            Self::Flip(at, bit) => {
                let at = at.index(data.len().max(1));
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= bit;
                }
            }
            Self::Set(at, value) => {
                let at = at.index(data.len().max(1));
                if let Some(byte) = data.get_mut(at) {
                    *byte = *value;
                }
            }
            Self::Remove(at, count) => {
                let start = place(at);
                let end = (start + count).min(data.len());
                data.drain(start..end);
            }
            Self::Repeat(at, count, times) => {
                let start = place(at);
                let end = (start + count).min(data.len());
                let more = data[start..end].repeat(*times);
                data.splice(end..end, more);
            }
            Self::Insert(at, bytes) => {
                let at = place(at);
                data.splice(at..at, bytes.iter().copied());
            }
            Self::Word(at, word) => {
                let at = place(at);
                data.splice(at..at, word.iter().copied());
            }
            Self::Splice(seed, from, at) => {
                let other = seed.get(seeds);
                let from = from.index(other.len() + 1);
                let at = place(at);
                data.splice(at.., other[from..].iter().copied());
            }
            Self::Cut(at) => {
                let at = place(at);
                data.truncate(at);
            }
        }
        data.truncate(MAX_INPUT);
    }
}

/// Makes inputs of those of a corpus.
fn inputs(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let seeds: Arc<[Vec<u8>]> = seeds.into();
    let changes = prop::collection::vec(Mutation::any(), 1..6);
    (any::<Index>(), changes).prop_map(move |(seed, changes)| {
        let mut data = seed.get(&seeds[..]).clone();
        for change in changes {
            change.apply(&mut data, &seeds);
        }
        data
    })
}

/// Reads the corpus of a target.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(folder(name))
        .unwrap_or_else(|error| panic!("the corpus of {name}: {error}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .collect()
}

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.map_or(default, |text| text.parse().expect("it is a number"))
}

/// Runs a target over its corpus, and over inputs made of it.
pub(super) fn run_bounded(name: &str) {
    let target = FuzzTarget::find(name).unwrap();
    let seeds = corpus(name);
    for seed in &seeds {
        target.run(seed);
    }
    let seed = number("FUZZ_SEED", SEED);
    let cases = u32::try_from(number("FUZZ_CASES", CASES.into())).unwrap();
    let mut runner = TestRunner::new(Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    });
    let run = runner.run(&inputs(seeds), |data| {
        target.run(&data);
        Ok(())
    });
    if let Err(error) = run {
        panic!("{name}, with FUZZ_SEED={seed} and FUZZ_CASES={cases}: {error}");
    }
}

#[test]
fn corpora_are_those_of_targets() {
    let folders: BTreeSet<String> = fs::read_dir(folder(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let names: BTreeSet<String> = FuzzTarget::names().map(str::to_owned).collect();
    assert_eq!(folders, names);
    let sorted = FuzzTarget::names().is_sorted();
    assert!(sorted, "the list of targets is in alphabetical order");
}

/// Writes a message of Protocol Buffers that is a field of another one, and that of another one.
fn nested(field: u8, depth: usize) -> Vec<u8> {
    let mut message = Vec::new();
    for _ in 0..depth {
        let mut length = Vec::new();
        prost::encoding::encode_varint(message.len() as u64, &mut length);
        message = [&[field << 3 | 2][..], &length, &message].concat();
    }
    message
}

/// The stack of a thread of tests is no larger than that of a worker of the server.
#[test]
fn no_target_recurses_without_bound() {
    let patterns: [&[u8]; 22] = [
        b"[",
        b"{",
        b"(",
        b"<",
        b"<a>",
        b"{\"a\":",
        b"{\"inputs\":",
        b"[{\"b64\":",
        b"node{",
        b"a<",
        b"a:[",
        b"a{a{",
        b"*1\r\n",
        b"%1\r\n",
        b"~1\r\n",
        b">1\r\n",
        b"1,",
        b"\x0b",
        b"\x1b\x23",
        b"../",
        b"%25",
        b"[[{}],",
    ];
    let befores: [&[u8]; 13] = [
        b"",
        b"\n",
        b"\0",
        b"{\"x\":",
        b"{\"inputs\":[{\"name\":\"a\",\"data\":",
        b"{\"parameters\":{\"a\":",
        b"{\"inputs\":{\"numbers\":",
        b"{\"instances\":[{\"numbers\":",
        b"\0\n{\"outputs\":[{\"data\":",
        b"{\"model_config_list\":",
        b"<net><rt_info><model_info>",
        b"node{options{",
        b"\x93NUMPY\x02\0\x30\x75\0\0{'descr': '|u1', 'fortran_order': True, 'shape': (2,",
    ];
    let mut deep = Vec::new();
    for pattern in patterns {
        for before in befores {
            deep.push([before, &pattern.repeat(30_000 / pattern.len())].concat());
        }
    }
    for field in [1, 2, 3, 4, 5, 6, 9, 14, 15] {
        let message = nested(field, 400);
        deep.push([&[0][..], &message].concat());
        deep.push(message);
    }
    for name in FuzzTarget::names() {
        let target = FuzzTarget::find(name).unwrap();
        for data in &deep {
            (target.check)(data);
        }
    }
}
