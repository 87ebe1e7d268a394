//! Marks of the last answers of a stream, for clients that ask for them.
//!
//! Outputs of a graph belong to no request, but what has run out of steps gives nothing more for any that came before.

use std::collections::VecDeque;

use super::convert::VERSION;
use crate::{
    error::{Error, ErrorKind, Result},
    graph::calculators::timestamp::{TIMESTAMP, Timestamp},
    request::{FINAL, InferRequest, InferResponse, Parameter},
};

/// Maximum size in bytes of the requests whose marks are due. A graph that always has steps to run never gives one
/// before its end.
const MAX_DUE: usize = 64 << 10;

/// Size of a request without its id.
const PLAIN: usize = 64;

/// Requests of a stream whose last answers are to be marked.
#[derive(Debug, Default)]
pub(in crate::graph) struct FinalMarks {
    due: VecDeque<(String, Timestamp)>,
    /// Size of those due.
    size: usize,
    /// Indicates that a request has asked for marks, so that other answers say that they are not the last.
    is_asked: bool,
}

impl FinalMarks {
    /// Checks that there is room for the mark of a request, if it asks for one.
    ///
    /// # Errors
    ///
    /// Fails if too many are due.
    pub(in crate::graph) fn admit(&self, request: &InferRequest) -> Result<()> {
        if !request.marks_final || self.size + PLAIN + request.id.len() <= MAX_DUE {
            return Ok(());
        }
        let text = format!(
            "Too many requests wait for their last answer - {} with `triton_enable_empty_final_response` have none \
             yet, and their ids may take {MAX_DUE} bytes; wait for answers, or send requests without it",
            self.due.len()
        );
        Err(Error::new(ErrorKind::Exhausted, text))
    }

    /// Adds a request with the timestamp of its packets, if it asks for a mark.
    pub(in crate::graph) fn add(&mut self, request: &InferRequest, at: Timestamp) {
        if request.marks_final {
            self.is_asked = true;
            self.size += PLAIN + request.id.len();
            self.due.push_back((request.id.clone(), at));
        }
    }

    /// Marks an answer as not the last one, if any request has asked for marks.
    pub(in crate::graph) fn not_last(&self, response: &mut InferResponse) {
        if self.is_asked {
            let last = (FINAL.to_owned(), Parameter::Bool(false));
            response.parameters.push(last);
        }
    }

    /// Takes the mark of the first request that is due: an answer without outputs.
    pub(in crate::graph) fn take(&mut self, graph: &str) -> Option<InferResponse> {
        let (id, at) = self.due.pop_front()?;
        self.size -= PLAIN + id.len();
        Some(InferResponse {
            model_name: graph.to_owned(),
            model_version: VERSION,
            id,
            parameters: vec![
                (TIMESTAMP.to_owned(), Parameter::Int(at.value())),
                (FINAL.to_owned(), Parameter::Bool(true)),
            ],
            ..InferResponse::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FinalMarks, MAX_DUE};
    use crate::{
        graph::calculators::timestamp::Timestamp,
        request::{FINAL, InferRequest, InferResponse, Parameter},
    };

    fn request(id: &str) -> InferRequest {
        InferRequest {
            id: id.to_owned(),
            marks_final: true,
            ..InferRequest::default()
        }
    }

    #[test]
    fn answers_are_marked_once_a_request_asks() {
        let mut marks = FinalMarks::default();
        let mut response = InferResponse::default();
        marks.add(&InferRequest::default(), Timestamp::new(0));
        marks.not_last(&mut response);
        assert_eq!(response.parameters, []);
        marks.add(&request("a"), Timestamp::new(1));
        marks.not_last(&mut response);
        let no = (FINAL.to_owned(), Parameter::Bool(false));
        assert_eq!(response.parameters, [no]);
        let last = marks.take("g").expect("one is due");
        assert_eq!((&*last.id, &*last.model_name), ("a", "g"));
        assert_eq!(marks.take("g"), None);
    }

    #[test]
    fn requests_that_are_due_are_bounded() {
        let mut marks = FinalMarks::default();
        let long = request(&"x".repeat(MAX_DUE / 2));
        assert!(marks.admit(&long).is_ok());
        marks.add(&long, Timestamp::new(0));
        let refused = marks
            .admit(&long)
            .expect_err("there is no room")
            .to_string();
        assert!(refused.contains("1 with `triton_enable"), "{refused}");
        assert!(marks.admit(&InferRequest::default()).is_ok());
        assert!(marks.take("g").is_some());
        assert!(marks.admit(&long).is_ok());
    }
}
