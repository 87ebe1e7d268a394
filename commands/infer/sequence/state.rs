//! Files with the state of a sequence: one to begin with, and one for what it has become.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use ovms::{
    client::{Api, Client, ClientError, ModelId},
    whole_file,
};

use super::{SequenceArgs, explain_step};
use crate::{error::Failure, infer::job::misfit, ui, written_files};

/// Files of a sequence.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::infer) struct StateFiles {
    /// File to begin with, and what it has.
    load: Option<(PathBuf, Vec<u8>)>,
    save: Option<PathBuf>,
}

impl StateFiles {
    /// Checks the flags and reads the file to begin with.
    pub(super) fn new(args: &SequenceArgs, api: Api) -> Result<Self, Failure> {
        let flags = [
            (args.load_state.is_some(), "--load-state"),
            (args.save_state.is_some(), "--save-state"),
        ];
        if let Some((_, flag)) = flags
            .iter()
            .find(|(is_given, _)| *is_given && api.is_grpc())
        {
            return Err(misfit(flag, api).hint(
                "states are saved and loaded over REST: `--url http://HOST:PORT`, with the server's \
                 `--rest-port`; for TensorFlow Serving's REST `--api tfs-rest` as well",
            ));
        }
        if args.start && args.load_state.is_some() {
            let text =
                "`--start` does not fit `--load-state`: it starts with the model's own state";
            let id = args
                .sequence_id
                .map_or_else(|| "N".to_owned(), |id| id.to_string());
            return Err(Failure::usage(text).hint(format!(
                "a restored sequence has already started: continue it with `--continue --sequence-id {id} \
                 --load-state FILE`"
            )));
        }
        let read = |path: PathBuf| match fs::read(&path) {
            Ok(state) => Ok((path, state)),
            Err(error) => Err(Failure::cannot("read", &path, &error)),
        };
        if let Some(path) = &args.save_state {
            check_place(path)?;
        }
        Ok(Self {
            load: args.load_state.clone().map(read).transpose()?,
            save: args.save_state.clone(),
        })
    }

    /// Returns whether the sequence begins with a state.
    pub(super) fn loads(&self) -> bool {
        self.load.is_some()
    }

    /// Returns whether the state is saved.
    pub(super) fn saves(&self) -> bool {
        self.save.is_some()
    }

    /// Asks the server, before any step is sent, whether the state can be saved; a sequence that is not there yet can be.
    pub(super) async fn check(
        &self,
        client: &Client,
        model: &ModelId,
        id: u64,
    ) -> Result<(), Failure> {
        let Some(path) = &self.save else {
            return Ok(());
        };
        match client.save_sequence(model, id).await {
            Err(ClientError::Refused(refusal)) if refusal.is_not_found() => Ok(()),
            Err(error) => Err(cannot_save(path, error).hint("no step was sent")),
            Ok(_) => Ok(()),
        }
    }

    /// Begins the sequence with the state, if there is one.
    pub(super) async fn load(
        &self,
        client: &Client,
        model: &ModelId,
        id: u64,
    ) -> Result<(), Failure> {
        let Some((path, state)) = &self.load else {
            return Ok(());
        };
        let loaded = client.restore_sequence(model, id, state.clone().into());
        let fail = |error: ClientError| {
            explain_step(error.into()).at(&format!("cannot load {}", path.display()))
        };
        loaded.await.map_err(fail)
    }

    /// Saves the state, if there is a file for it.
    pub(super) async fn save(
        &self,
        client: &Client,
        model: &ModelId,
        id: u64,
    ) -> Result<(), Failure> {
        let Some(path) = &self.save else {
            return Ok(());
        };
        let saved = client.save_sequence(model, id).await;
        let state = saved.map_err(|error| cannot_save(path, error))?;
        written_files::write(path, &state, true)?;
        ui::note(&format!(
            "Saved the state of sequence {id} to {}",
            path.display()
        ));
        Ok(())
    }
}

fn cannot_save(path: &Path, error: ClientError) -> Failure {
    explain_step(error.into()).at(&format!("cannot save {}", path.display()))
}

/// Refuses a place where the state cannot be saved, before any step is sent.
fn check_place(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Err(Failure::usage(
            "cannot save to -: `--save-state` writes a file, and stdout has the answer",
        )
        .hint("name a file, as `--save-state state.safetensors`"));
    }
    let Err(error) = whole_file::check(path) else {
        return Ok(());
    };
    let failure = Failure::cannot("write", path, &error);
    Err(match error.kind() {
        ErrorKind::NotFound => {
            failure.hint("the folder must exist: create it, or name another one")
        }
        ErrorKind::IsADirectory => failure.hint("name a file in it"),
        _ => failure,
    })
}
