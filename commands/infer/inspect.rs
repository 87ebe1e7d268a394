//! Queries about models instead of a request: their states, or their inputs and outputs.

use ovms::client::{Client, ClientError, ClientOptions, ModelId, ModelStatus, ServerMetadata};

use super::{
    args::InferArgs,
    curl,
    job::server,
    listing::{Listing, MetadataRow, Models},
    run::{ask, unless_interrupted},
};
use crate::{error::Failure, ui::OutputFormat};

/// Query with checked arguments.
#[derive(Debug)]
pub(super) struct Inspection {
    server: ClientOptions,
    /// Model to query; `None` for all.
    model: Option<ModelId>,
    question: Question,
    is_json: bool,
    is_printed: bool,
    shows_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Status,
    Metadata,
}

impl Inspection {
    /// Checks the flags; `None` if they ask for no query.
    pub(super) fn new(args: &InferArgs) -> Result<Option<Self>, Failure> {
        let (question, what) = match (args.question.status, args.question.metadata) {
            (true, _) => (Question::Status, "the status"),
            (false, true) => (Question::Metadata, "the metadata"),
            (false, false) => return Ok(None),
        };
        let is_json = args.output.output.of_many(what)? == OutputFormat::Json;
        let version = args.request.model_version;
        let model = args.model.clone().map(|name| ModelId {
            name,
            version: version.map(|version| version.to_string()),
        });
        Ok(Some(Self {
            server: server(args.server.clone(), 1)?,
            model,
            question,
            is_json,
            is_printed: args.question.print_curl,
            shows_secrets: args.question.show_secrets,
        }))
    }

    /// Sends the query and prints the response.
    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.is_printed {
            let (server, model) = (&self.server, self.model.as_ref());
            return match self.question {
                Question::Status => curl::status(server, model, self.shows_secrets),
                Question::Metadata => {
                    unless_interrupted(curl::metadata(server, model, self.shows_secrets)).await
                }
            };
        }
        let listing = unless_interrupted(self.ask()).await?;
        listing.print(self.is_json)
    }

    async fn ask(&self) -> Result<Listing, Failure> {
        let name = self.model.as_ref().map(|model| model.name.as_str());
        let question = async |client: &Client| {
            let (server, models) = match &self.model {
                Some(model) => (None, self.one(client, model).await?),
                None => self.all(client).await?,
            };
            Ok(Listing {
                api: self.server.api,
                is_of_all: self.model.is_none(),
                server,
                models,
            })
        };
        Ok(ask(&self.server, name, question).await?.1)
    }

    async fn one(&self, client: &Client, model: &ModelId) -> Result<Models, ClientError> {
        Ok(match self.question {
            Question::Status => Models::States(vec![client.model_status(model).await?]),
            Question::Metadata => Models::Tensors(vec![MetadataRow {
                name: model.name.clone(),
                reported: Ok(client.model_metadata(model).await?),
            }]),
        })
    }

    async fn all(&self, client: &Client) -> Result<(Option<ServerMetadata>, Models), ClientError> {
        let models = client.models().await?;
        let server = match client.server_metadata().await {
            // What the models are is worth telling all the same.
            Err(ClientError::Refused(_)) => None,
            server => server?,
        };
        if self.question == Question::Status {
            return Ok((server, Models::States(models)));
        }
        let mut rows = Vec::with_capacity(models.len());
        for ModelStatus { name, .. } in models {
            let id = ModelId {
                name: name.clone(),
                version: None,
            };
            let reported = match client.model_metadata(&id).await {
                // Such as one that is not loaded.
                Err(ClientError::Refused(refusal)) => Err(refusal),
                metadata => Ok(metadata?),
            };
            rows.push(MetadataRow { name, reported });
        }
        Ok((server, Models::Tensors(rows)))
    }
}
