//! Servers that tests share, on one Redis and on folders, which nobody stops. Each test has models of its own there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde_json::{Value, json};

use super::{LONG, MODEL, NONE, STEP};
use crate::{
    sequences::{
        shared::{serve_kept, with},
        state_modes::FIXTURES,
    },
    support::{
        Server, model,
        redis::Redis,
        repository,
        sequence::{Client, entry},
    },
};

/// Two servers of the same models, which share what begins with a prefix.
pub(super) struct Pair {
    pub(super) servers: [Server; 2],
    pub(super) redis: &'static Redis,
    pub(super) prefix: &'static str,
}

impl Pair {
    pub(super) fn clients(&self) -> [Client<'_>; 2] {
        self.servers.each_ref().map(Client::connect)
    }
}

/// Names of what `sequence_durability` and an interval that is over after the tests make.
const DURABILITIES: [&str; 3] = ["step", "long", "none"];

fn place(durability: &str) -> usize {
    let mut all = DURABILITIES.iter();
    all.position(|it| *it == durability).expect("it is known")
}

/// Returns the pair of a durability, if there is a Redis.
pub(super) fn pair(durability: &str) -> Option<&'static Pair> {
    static PAIRS: [LazyLock<Option<Pair>>; 3] = [
        LazyLock::new(|| begin(DURABILITIES[0])),
        LazyLock::new(|| begin(DURABILITIES[1])),
        LazyLock::new(|| begin(DURABILITIES[2])),
    ];
    PAIRS[place(durability)].as_ref()
}

fn begin(prefix: &'static str) -> Option<Pair> {
    static REDIS: LazyLock<Option<Redis>> = LazyLock::new(|| Redis::start(&[]).map(Redis::kept));
    let redis = REDIS.as_ref()?;
    let store = format!("{}?prefix={prefix}", redis.url());
    let servers = ["1", "changed"].map(|version| {
        let folder = repository::folder();
        let root = folder.path();
        let mut models = vec![
            entry("figures", MODEL),
            versions(root, "versions", ["1", "2"]),
        ];
        if prefix != "none" {
            let most = json!({"max_sequence_number": 3});
            models.push(with(entry("ids", MODEL), most));
            models.extend(["again", "list"].map(|name| entry(name, MODEL)));
        }
        if prefix == "step" {
            let fixtures = FIXTURES.iter().filter(|it| it.0 != "running_large");
            models.extend(fixtures.map(|it| entry(it.0, it.0)));
            models.extend(["anew", "damaged", "late"].map(|name| entry(name, MODEL)));
            let most = json!({"max_sequence_number": 3});
            models.push(with(entry("room", MODEL), most));
            // The second server has other files of it.
            models.push(versions(root, "digest", [version]));
        }
        serve_kept(folder, &models, &flags(prefix, &store))
    });
    Some(Pair {
        servers,
        redis,
        prefix,
    })
}

fn flags<'a>(durability: &str, store: &'a str) -> [&'a str; 5] {
    let [flag, value] = [STEP, LONG, NONE][place(durability)];
    ["--metrics_enable", "--sequence_store", store, flag, value]
}

/// Returns the entry of a model with all of these versions, of which `changed` is one with other files.
fn versions<const N: usize>(root: &Path, name: &str, versions: [&str; N]) -> Value {
    let root = root.join(name);
    for (version, number) in versions.iter().zip(1..) {
        let folder = root.join(number.to_string());
        repository::copy(&model(MODEL).join("1"), &folder);
        if *version == "changed" {
            let file = folder.join("model.xml");
            let text = fs::read_to_string(&file).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
    }
    let all = json!({"base_path": root, "model_version_policy": {"all": {}}});
    with(entry(name, MODEL), all)
}

/// A server, and the folder of its store.
type InFolder = (Server, PathBuf);

/// Returns the server of a durability whose store is a folder, and that folder.
fn in_folder(durability: &str) -> &'static InFolder {
    static SERVERS: [LazyLock<InFolder>; 3] = [
        LazyLock::new(|| begin_in_folder(DURABILITIES[0])),
        LazyLock::new(|| begin_in_folder(DURABILITIES[1])),
        LazyLock::new(|| begin_in_folder(DURABILITIES[2])),
    ];
    &SERVERS[place(durability)]
}

fn begin_in_folder(durability: &str) -> InFolder {
    let folder = repository::folder();
    let root = folder.path();
    let place = root.join("store");
    let mut models = vec![versions(root, "versions", ["1", "2"])];
    if durability != "none" {
        models.push(versions(root, "others", ["1", "changed"]));
        models.push(versions(root, "turns", ["1", "2"]));
        let most = json!({"max_sequence_number": 2});
        models.push(with(entry("full", MODEL), most));
    }
    if durability == "step" {
        models.push(entry(MODEL, MODEL));
        models.push(entry("vad_stateful", "vad_stateful"));
        models.push(versions(root, "goes", ["1", "2"]));
        let requests = json!({"state_mode": "requests"});
        models.push(with(entry("requests", MODEL), requests));
    }
    let store = format!("file://{}", place.display());
    let server = serve_kept(folder, &models, &flags(durability, &store));
    (server, place)
}

/// Returns the server of a durability whose store is a folder.
pub(in crate::sequences) fn file(durability: &str) -> &'static Server {
    &in_folder(durability).0
}

/// Returns that folder.
pub(super) fn folder(durability: &str) -> &'static Path {
    &in_folder(durability).1
}
