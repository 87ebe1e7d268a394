//! `ovms infer`: send requests to a server by hand.
//!
//! [`InferArgs`] are the flags as typed; `job` checks them and reads the files before anything is sent. `run`
//! talks to the server, `outputs` shows one response, `load` measures many. `listing` asks for states and
//! metadata instead, and shows them. `curl` prints commands of other programs. `sequence` sends step after
//! step to stateful models, and `stream` request after request over one call, both from `feed`, whose `lines` are those
//! of a file or of standard input. `wait` is for what is not ready yet. The client itself is in [`ovms::client`].

mod args;
mod call_failure;
mod curl;
mod explain;
mod failure;
mod feed;
mod handshake;
mod job;
mod lines;
mod listing;
mod load;
mod meant;
mod next_step;
mod outputs;
mod ranking;
mod refusal;
mod run;
mod saved;
mod sequence;
mod socket;
mod stream;
mod wait;

pub(crate) use args::{
    CredentialArgs, ImageArgs, InferArgs, InputArgs, RequestArgs, ServerArgs, TlsArgs, duration,
    model_name, parameter, preset_meant, secret_pair,
};
pub(crate) use call_failure::{client as client_failure, of_load as load_refusal};
pub(crate) use explain::explanation;
pub(crate) use failure::{
    address as address_failure, input as input_failure, read_address, tls as tls_failure,
};
pub(crate) use feed::{RequestFeed, RequestPlan, add as add_line};
pub(crate) use handshake::handshake;
pub(crate) use job::{Job, inputs, inputs_within};
pub(crate) use lines::strip_mark;
pub(crate) use load::failed as load_failure;
pub(crate) use meant::file_meant;
pub(crate) use outputs::{described, files_of_rows, rows_of_batch, table as outputs_table};
pub(crate) use ranking::{RankedOutput, Ranking, RankingArgs, detections_table, the_scores};
pub(crate) use refusal::{OF_CREDENTIALS, declared, image_named};
pub(crate) use run::{run, runtime, the_output, unless_interrupted};
pub(crate) use saved::check_folder;
pub(crate) use sequence::{again_alone, explain_steps};
pub(crate) use stream::beside_stream;
