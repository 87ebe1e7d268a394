//! Server-sent events: a `data:` line with an object for each response, and for an error.
//!
//! The head of an answer waits for the first response, so that what fails before has a status of its own.
//! From then on the body takes responses only while the connection has room for them, and dropping it
//! ends the stream, as with `ModelStreamInfer`.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, sleep, sleep_until};

use super::size;
use crate::{
    budget::{Budget, Charge},
    engine::stream::{StreamResponse, StreamResponses},
    error::{Error, Result},
    frontends::{access::Seen, kserve::json_reply, reply},
    request::InferResponse,
    task,
};

/// Bytes of small events that go into one piece of data, if they are there.
const TOGETHER: usize = 16 << 10;

/// Silence after which a comment is sent: it keeps proxies from closing the connection, and shows
/// whether the client is still there.
const SILENCE: Duration = Duration::from_secs(2);

/// The comment, which clients pass over.
const COMMENT: &[u8] = b":\n\n";

/// The events of a stream that is open.
pub(super) struct Events {
    /// `None` after the last.
    answers: Option<StreamResponses>,
    budget: Budget,
    seen: Seen,
    /// The time limit that the request has set, and when it is over.
    limit: Option<(Duration, Instant)>,
    id: Option<String>,
    /// Charge of the request, whose id and parameters stay.
    _texts: Option<Arc<Charge>>,
}

/// Next part of a stream.
enum Part {
    Response(InferResponse),
    /// An error; the stream goes on.
    Error(Error),
    /// The end, and its error.
    End(Option<Error>),
    Silence,
}

impl Events {
    pub(super) fn new(
        answers: StreamResponses,
        budget: Budget,
        seen: Seen,
        limit: Option<Duration>,
        (id, texts): (Option<String>, Option<Arc<Charge>>),
    ) -> Self {
        Self {
            answers: Some(answers),
            budget,
            seen,
            limit: limit.map(|limit| (limit, Instant::now() + limit)),
            id,
            _texts: texts,
        }
    }

    /// Waits for the first event, and makes the answer.
    ///
    /// # Errors
    ///
    /// Fails if there is an error before any response.
    pub(super) async fn response(mut self) -> Result<Response> {
        let first = loop {
            match self.part().await {
                Part::Response(response) => break self.event(response).await?,
                Part::Error(error) | Part::End(Some(error)) => return Err(error),
                Part::End(None) => {
                    self.answers = None;
                    break Vec::new();
                }
                Part::Silence => {}
            }
        };
        let first = self.budget.keep(first.into())?;
        let rest = stream::unfold(self, |mut events| async {
            let piece = events.piece().await?;
            Some((Ok::<_, Infallible>(piece), events))
        });
        let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
        Ok(self::response(Body::from_stream(first.chain(rest))))
    }

    /// Returns the next events, as many as there are and go together; `None` at the end.
    async fn piece(&mut self) -> Option<Bytes> {
        self.answers.as_ref()?;
        let mut piece = Vec::new();
        let mut next = Some(self.part().await);
        while let Some(part) = next {
            match part {
                Part::Response(response) => match self.event(response).await {
                    Ok(event) => piece.extend_from_slice(&event),
                    Err(error) => self.end(&mut piece, Some(&error)),
                },
                Part::Error(error) => piece.extend_from_slice(&of_error(&error)),
                Part::End(error) => self.end(&mut piece, error.as_ref()),
                Part::Silence => piece.extend_from_slice(COMMENT),
            }
            next = match self.answers.is_some() && piece.len() < TOGETHER {
                true => self.part().now_or_never(),
                false => None,
            };
        }
        match self.budget.keep(piece.into()) {
            Ok(piece) => Some(piece),
            Err(error) => {
                self.answers = None;
                Some(of_error(&error).into())
            }
        }
    }

    /// Waits for the next part of the stream.
    async fn part(&mut self) -> Part {
        let Some(answers) = &mut self.answers else {
            return Part::End(None);
        };
        let limit = self.limit;
        let over = async {
            match limit {
                Some((limit, end)) => {
                    sleep_until(end).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // Before what a generator that is faster than its client always has ready.
            limit = over => Part::End(Some(Error::deadline(limit))),
            answer = answers.next() => match answer {
                Some(Ok(StreamResponse::Response(response))) => Part::Response(response),
                Some(Ok(StreamResponse::Error(error))) => Part::Error(error),
                Some(Err(error)) => Part::End(Some(error)),
                None => Part::End(None),
            },
            () = sleep(SILENCE) => Part::Silence,
        }
    }

    async fn event(&mut self, response: InferResponse) -> Result<Vec<u8>> {
        self.seen.version(|| Some(response.model_version));
        of_response(&self.budget, response, self.id.clone()).await
    }

    /// Ends the stream, which drops what runs.
    fn end(&mut self, piece: &mut Vec<u8>, error: Option<&Error>) {
        self.answers = None;
        if let Some(error) = error {
            piece.extend_from_slice(&of_error(error));
        }
    }
}

/// Writes the event of a response.
///
/// # Errors
///
/// Fails if it has no JSON form, or the budget has no room for it.
pub(super) async fn of_response(
    budget: &Budget,
    response: InferResponse,
    id: Option<String>,
) -> Result<Vec<u8>> {
    let (bytes, memory) = size(&response);
    let charge = budget.charge(memory)?;
    let write = move || {
        let event = data(&json_reply::flat(&response, id.as_deref())?);
        drop(charge);
        Ok(event)
    };
    task::sized("encode", bytes, write).await
}

fn of_error(error: &Error) -> Vec<u8> {
    data(reply::error_object(error).as_bytes())
}

/// Makes an event of JSON, which has no line break.
fn data(json: &[u8]) -> Vec<u8> {
    [b"data: ", json, b"\n\n"].concat()
}

/// Makes an answer of events, which are for their client at once, also behind nginx.
pub(super) fn response(body: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body: Body = body.into();
    (headers, body).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::Extensions;
    use futures::{StreamExt, stream};

    use super::{Events, SILENCE};
    use crate::{
        budget::Budget,
        engine::stream::{StreamResponse, StreamResponses},
        error::{Error, ErrorKind, Result},
        frontends::access,
        request::{InferResponse, LooseTensor},
    };

    fn response(name: &str, data: &'static [u8]) -> Result<StreamResponse> {
        Ok(StreamResponse::Response(InferResponse {
            model_name: "g".to_owned(),
            model_version: 1,
            loose: vec![LooseTensor {
                name: name.to_owned(),
                datatype: "BYTES".to_owned(),
                shape: vec![1],
                data: data.into(),
            }],
            ..InferResponse::default()
        }))
    }

    fn events(answers: StreamResponses, budget: Budget, limit: Option<Duration>) -> Events {
        let seen = access::seen(&Extensions::new(), None);
        Events::new(answers, budget, seen, limit, (Some("7".to_owned()), None))
    }

    async fn text(events: Events) -> Result<String> {
        let body = events.response().await?.into_body();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn each_response_is_an_event_and_so_is_an_error() {
        let answers = [
            response("a", b"\x02\0\0\0x\n"),
            Ok(StreamResponse::Error(Error::invalid("not that"))),
            response("b", b"\x01\0\0\0y"),
            Err(Error::invalid("broken")),
            response("c", b"\x01\0\0\0z"),
        ];
        let events = events(stream::iter(answers).boxed(), Budget::new(1 << 20), None);
        insta::assert_snapshot!(text(events).await.unwrap(), @r#"
        data: {"model_name":"g","model_version":"1","id":"7","a":"x\n"}

        data: {"error":"not that"}

        data: {"model_name":"g","model_version":"1","id":"7","b":"y"}

        data: {"error":"broken"}
        "#);
    }

    #[tokio::test]
    async fn an_error_before_any_response_is_the_answer() {
        for first in [
            Ok(StreamResponse::Error(Error::invalid("not that"))),
            Err(Error::invalid("not that")),
        ] {
            let answers = stream::iter([first, response("a", b"")]).boxed();
            let events = events(answers, Budget::new(1 << 20), None);
            let error = text(events).await.unwrap_err();
            assert_eq!(error.message(), "not that");
        }
        let none = events(stream::empty().boxed(), Budget::new(1 << 20), None);
        assert_eq!(text(none).await.unwrap(), "");
    }

    #[tokio::test]
    async fn what_has_no_json_form_and_what_has_no_room_end_the_stream() {
        let good = || response("a", b"\x01\0\0\0x");
        let answers = [good(), response("b", b"\x01\0\0\0\xff"), good()];
        let no_form = events(stream::iter(answers).boxed(), Budget::new(1 << 20), None);
        let sent = text(no_form).await.unwrap();
        let last = sent.trim_end().lines().last().unwrap().to_owned();
        assert_eq!(sent.matches("data: ").count(), 2, "{sent}");
        assert!(last.contains("output b is not UTF-8"), "{last}");
        // Room for the first event, and not for the second beside it.
        let large: &'static [u8] = Box::leak([&[0, 4, 0, 0][..], &[b'x'; 1024]].concat().into());
        let answers = [good(), response("b", large)];
        let no_room = events(stream::iter(answers).boxed(), Budget::new(4096), None);
        let sent = text(no_room).await.unwrap();
        assert!(sent.contains("--max-bytes-in-flight"), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn responses_that_are_always_ready_have_an_end_by_the_time_limit() {
        let answers = (0..1000).map(|_| response("a", b"\x01\0\0\0x"));
        let budget = Budget::new(1 << 20);
        let limit = Some(Duration::from_secs(1));
        let mut events = events(stream::iter(answers).boxed(), budget, limit);
        assert!(events.piece().await.is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        let last = events.piece().await.expect("the error");
        let last = String::from_utf8_lossy(&last);
        assert!(last.starts_with("data: {\"error\":"), "{last}");
        assert!(events.piece().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_has_comments_and_an_end_by_the_time_limit() {
        let answers = stream::iter([response("a", b"\x01\0\0\0x")]).chain(stream::pending());
        let limit = SILENCE * 2 + Duration::from_secs(1);
        let sent = text(events(answers.boxed(), Budget::new(1 << 20), Some(limit)));
        let sent = sent.await.unwrap();
        let lines: Vec<&str> = sent.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines[1..3], [":", ":"]);
        assert_eq!(lines.len(), 4, "{sent}");
        assert!(lines[3].starts_with("data: {\"error\":"), "{sent}");
        // Before the first response it is the answer.
        let nothing = stream::pending().boxed();
        let error = text(events(nothing, Budget::new(1 << 20), Some(limit)));
        assert_eq!(error.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    }
}
