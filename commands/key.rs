//! `ovms key`: API keys for the file of `--auth`.

use ovms::auth::{self, ApiKey, IdentityNameError};

use super::{error::Failure, ui};

/// Text at the end of the help.
pub(crate) const AFTER_HELP: &str = "\
The client sends the key as x-api-key or as authorization: Bearer. The server only has its SHA-256, \
in the file of `ovms serve --auth`.

Examples:
  ovms key new --name camera

Exit codes: 0 done; 1 failed; 64 usage.";

const AFTER_NEW: &str = "\
The first line is the key, which is shown only once and stored nowhere. The other lines are for the file of `ovms \
serve --auth`: they allow the key to run every servable, and nothing else; change them to what the client needs.

Examples:
  ovms key new --name camera
  ovms key new --name camera > new; tail -n +2 new >> auth.toml

Exit codes: 0 done; 1 the system has no random numbers; 64 usage.";

/// Subcommands of `ovms key`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeyCommand {
    /// Print a new API key, and its lines for the server's file
    #[command(after_long_help = AFTER_NEW)]
    New(NewKeyArgs),
}

/// Arguments of `ovms key new`.
#[derive(Debug, clap::Args)]
pub(crate) struct NewKeyArgs {
    /// Name of the identity with the key
    #[arg(long, value_name = "NAME", default_value = "client", value_parser = identity_name)]
    name: String,
}

/// Reads the name of an identity: what is printed has to be a good file.
fn identity_name(name: &str) -> Result<String, IdentityNameError> {
    auth::check_name(name).map(|()| name.to_owned())
}

/// Runs a subcommand.
pub(crate) fn run(command: KeyCommand) -> Result<(), Failure> {
    let KeyCommand::New(NewKeyArgs { name }) = command;
    let key = ApiKey::generate().map_err(|error| Failure::failed(error.to_string()))?;
    ui::print(lines(&key, &name))
}

fn lines(key: &ApiKey, name: &str) -> String {
    // A text of TOML has the escapes of JSON.
    let name = serde_json::json!(name);
    format!(
        "{}\n\n# For the file of `ovms serve --auth`; the client needs the key itself, which is printed \
         above.\n[[identity]]\nname = {name}\nkeys = [\"{}\"]\ninfer = [\"*\"]\n",
        key.text(),
        key.digest()
    )
}
