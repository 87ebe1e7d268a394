//! Live sequences of a model as a table and as JSON.

use ovms::client::{Api, LiveSequence, LiveSequences, ModelId};
use serde::Serialize;

use crate::{
    error::Failure,
    ui::{self, Look, Table},
};

/// Response of a server about the sequences of a model.
#[derive(Debug, Serialize)]
pub(super) struct SequenceListing {
    api: Api,
    model: String,
    #[serde(flatten)]
    found: LiveSequences,
}

impl SequenceListing {
    pub(super) fn new(api: Api, model: &ModelId, found: LiveSequences) -> Self {
        Self {
            api,
            model: model.name.clone(),
            found,
        }
    }

    /// Prints to stdout, and how many there are to stderr.
    pub(super) fn print(&self, is_json: bool) -> Result<(), Failure> {
        if is_json {
            let json = serde_json::to_string(self).expect("texts and numbers have a JSON form");
            return ui::print(json + "\n");
        }
        ui::note(&self.headline());
        match self.found.sequences.is_empty() {
            true => Ok(()),
            false => ui::print(self.table().draw(Look::of_stdout())),
        }
    }

    fn headline(&self) -> String {
        let total = self.found.total;
        let count = match total {
            0 => "no live sequences".to_owned(),
            1 => "1 live sequence".to_owned(),
            _ => format!("{total} live sequences"),
        };
        let shown = self.found.sequences.len();
        let part = match (shown as u64) < total {
            true => format!(", {shown} of which are shown"),
            false => String::new(),
        };
        format!("Model `{}` has {count}{part}.", self.model)
    }

    fn table(&self) -> Table {
        let mut table = Table::new()
            .right(["sequence", "version", "steps", "idle"])
            .left(["place"]);
        for sequence in &self.found.sequences {
            table.row(cells(sequence));
        }
        table
    }
}

fn cells(sequence: &LiveSequence) -> [String; 5] {
    let nothing = || ui::NOTHING.to_owned();
    let idle = |seconds| format!("{seconds} s");
    [
        sequence.sequence_id.to_string(),
        sequence.version.map_or_else(nothing, |it| it.to_string()),
        sequence.steps.to_string(),
        sequence.idle_seconds.map_or_else(nothing, idle),
        sequence.place.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use ovms::client::{Api, LiveSequence, LiveSequences, ModelId};

    use super::SequenceListing;
    use crate::ui::Look;

    fn listing(total: u64, sequences: Vec<LiveSequence>) -> SequenceListing {
        let found = LiveSequences { total, sequences };
        SequenceListing::new(Api::KserveRest, &ModelId::of("vad"), found)
    }

    #[test]
    fn each_has_a_row() {
        let here = LiveSequence {
            sequence_id: 7,
            version: Some(1),
            steps: 153,
            idle_seconds: Some(12),
            place: "here".to_owned(),
        };
        let stored = LiveSequence {
            sequence_id: u64::MAX,
            version: None,
            steps: 2,
            idle_seconds: None,
            place: "store".to_owned(),
        };
        let some = listing(5, vec![here, stored]);
        let text = some.table().draw(Look::Plain);
        insta::assert_snapshot!(some.headline() + "\n" + &text, @"
        Model `vad` has 5 live sequences, 2 of which are shown.
                    sequence  version  steps  idle  place
                           7        1    153  12 s  here
        18446744073709551615        -      2     -  store
        ");
        insta::assert_snapshot!(listing(0, Vec::new()).headline(), @"Model `vad` has no live sequences.");
    }
}
