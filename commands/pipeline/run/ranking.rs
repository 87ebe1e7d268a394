//! Highest scores of the response of a pipeline: those of an output, or of boxes.

use ovms::{
    client::{
        ClientResponse, ModelMetadata, ModelProperties,
        output::{Detections, detection_members, may_be_detections, ranking_members},
    },
    tensor::named,
};
use serde_json::{Value, json};

use super::LocalPipeline;
use crate::{
    error::Failure,
    infer::{self, RankedOutput, Ranking, detections_table},
    ui::Table,
};

/// Ranking of the response that is asked for.
pub(super) struct ResponseRanking {
    /// Output to rank; `None` where several may be boxes with their scores.
    output: Option<String>,
    ranking: Ranking,
    metadata: ModelMetadata,
}

/// Highest scores of a response.
pub(super) enum RankedResponse<'a> {
    /// Highest scores of an output.
    Scores(RankedOutput<'a>),
    /// Highest scores of boxes, with the files of the images.
    Boxes(Detections<'a>, &'a [String]),
}

impl ResponseRanking {
    /// Finds the output to rank.
    pub(super) fn new(
        ranking: Ranking,
        asked: Option<&String>,
        loaded: &LocalPipeline,
    ) -> Result<Self, Failure> {
        let mut metadata = loaded.metadata();
        let asked: Vec<String> = asked.cloned().into_iter().collect();
        let output = match asked.is_empty() && may_be_detections(&metadata.outputs) {
            true => None,
            false => Some(infer::the_scores(&asked, &metadata)?),
        };
        let labels = metadata.output_names().into_iter().filter_map(|name| {
            let labels = loaded.labels(&name);
            (!labels.is_empty()).then(|| (format!("labels.{name}"), labels.join("\n")))
        });
        let labels: Vec<(String, String)> = labels.collect();
        let labels = labels.iter().map(|(name, text)| (name, text));
        metadata.properties = ModelProperties::new(labels);
        Ok(Self {
            output,
            ranking,
            metadata,
        })
    }

    /// Ranks a response; `None` if it has no outputs.
    pub(super) fn of<'a>(
        &'a self,
        answer: &'a ClientResponse,
        files: &'a [String],
    ) -> Result<Option<RankedResponse<'a>>, Failure> {
        if answer.outputs.is_empty() {
            return Ok(None);
        }
        if self.output.is_none() || answer.outputs.len() == 1 {
            let found = self.ranking.detections(answer, &self.metadata.properties);
            if let Some(found) = found {
                return Ok(Some(RankedResponse::Boxes(found, files)));
            }
        }
        let Some(output) = &self.output else {
            // They are no boxes with scores after all.
            return infer::the_output(&[], &self.metadata).map(|_| None);
        };
        let ranked = named(&answer.outputs, output).map(|tensor| {
            let labels = self.metadata.properties.labels_of(output);
            let mut ranked = self.ranking.of(output, tensor, labels)?;
            ranked.files = infer::files_of_rows(tensor, ranked.rows.len(), files);
            Ok(RankedResponse::Scores(ranked))
        });
        ranked.transpose()
    }
}

impl RankedResponse<'_> {
    /// Returns a note on scores without a rank, if there are any.
    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Scores(ranked) => ranked.note(),
            Self::Boxes(..) => None,
        }
    }

    /// Returns the table.
    pub(super) fn table(&self) -> Table {
        match self {
            Self::Scores(ranked) => ranked.table(),
            Self::Boxes(found, files) => detections_table(found, files),
        }
    }

    /// Describes the ranking as an object.
    pub(super) fn as_json(&self) -> Value {
        let (members, files) = match self {
            Self::Scores(RankedOutput {
                name,
                rows,
                labels,
                files,
                ..
            }) => (ranking_members(name, rows, labels), json!(files)),
            Self::Boxes(found, files) => (detection_members(found), json!(files)),
        };
        let mut ranking: Value = serde_json::from_slice(&members).unwrap_or_default();
        if files.as_array().is_some_and(|files| !files.is_empty()) {
            ranking["files"] = files;
        }
        ranking
    }
}
