//! The REST paths as an OpenAPI 3.1 document, `/openapi.json`, and as a page for people, `/docs`.
//!
//! Both are made for each request from what is served at that moment: each servable has its own paths, with the names,
//! datatypes, and shapes of its tensors, so that a client that is generated from the document knows them.
//! The rules are those of the OpenAPI Specification 3.1.0 and JSON Schema 2020-12.

mod page;
mod schema;

use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use self::page::DocsPage;
use super::{
    SERVER_NAME, SERVER_VERSION, dashboard,
    guard::{Access, Paths, RestContext, Rule},
    reply, routes,
};
use crate::{
    auth::Right,
    engine::{Servable, ServableFacts},
    error::Result,
    task,
};

/// Estimated bytes of a servable's paths and schemas, for the decision where to make them. Not measured.
const BYTES_EACH: usize = 16 << 10;

/// The tag of the paths that belong to no servable, unless one has that name.
const SERVER: &str = "server";

/// Adds the paths.
pub(super) fn routes(paths: Paths) -> Paths {
    let of_pages = Rule::With(Right::Dashboard);
    paths
        .route("/openapi.json", Rule::Known, routes::get_only(openapi))
        .route("/docs", of_pages, routes::get_only(docs))
}

async fn openapi(context: RestContext) -> Result<Response> {
    let bytes = context.engine.count() * BYTES_EACH;
    let write = move || reply::serialized(&document(&context.engine));
    task::sized("openapi", bytes, write).await
}

async fn docs(context: RestContext) -> Response {
    let bytes = context.engine.count() * BYTES_EACH;
    let write = move || DocsPage::new(&document(&context.engine)).to_string();
    let text = task::sized("openapi", bytes, write).await;
    dashboard::of_browser("text/html; charset=utf-8", &page::policy(), text)
}

/// Makes the document of all that is served.
fn document(engine: &Access) -> Value {
    let servables = engine.servables();
    let is_taken = |tag: &str| servables.iter().any(|servable| servable.name() == tag);
    let mut document = Document::default();
    document.of_server(&unused(SERVER, is_taken));
    for servable in &servables {
        document.of_servable(servable);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": SERVER_NAME,
            "version": SERVER_VERSION,
            "description": "What this server serves at the moment, over KServe v2 and TensorFlow Serving's REST API.",
        },
        "servers": [{"url": "/"}],
        "tags": document.tags,
        "paths": document.paths,
        "components": {"schemas": document.schemas},
    })
}

/// A document in the making.
#[derive(Default)]
struct Document {
    tags: Vec<Value>,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// Errors that only inferences may have.
const OF_INFERENCES: [(&str, &str); 4] = [
    (
        "409",
        "The request was fine and came to nothing, or its sequence exists already.",
    ),
    (
        "412",
        "The body is no JSON, or the state of what is asked does not allow the request.",
    ),
    ("500", "The server has failed."),
    ("504", "A limit on the time has passed."),
];

/// Method, path, id, summary, schema of the body, and schema of a good answer.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Option<Value>,
    Option<Value>,
);

/// An operation in the making: a method of a path.
struct Operation<'a> {
    id: String,
    tag: &'a str,
    summary: &'a str,
    /// Schema of the body, if it takes one.
    body: Option<Value>,
    /// Schema of a good answer; `None` where it has no body.
    answer: Option<Value>,
    media: Media,
    is_inference: bool,
}

/// Media type of a good answer.
#[derive(Clone, Copy)]
enum Media {
    Json,
    /// Server-sent events.
    Events,
    Text,
}

impl Operation<'_> {
    fn into_json(self) -> Value {
        let answer = match self.answer {
            Some(schema) => json!({"description": "OK", "content": match self.media {
                Media::Json => content(schema),
                Media::Events => json!({"text/event-stream": {"schema": schema}}),
                Media::Text => json!({"text/plain": {"schema": schema}}),
            }}),
            None => json!({"description": "OK"}),
        };
        let error =
            |text: &str| json!({"description": text, "content": content(reference("Error"))});
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.tag],
            "summary": self.summary,
            "responses": {
                "200": answer,
                "400": error("The request is wrong; the text says in what."),
                "404": error("There is no such name or version."),
                "503": error("It is not ready, or the server has no room for the request at the moment."),
            },
        });
        if let Some(schema) = self.body {
            if self.is_inference {
                for (status, text) in OF_INFERENCES {
                    operation["responses"][status] = error(text);
                }
            }
            operation["requestBody"] = json!({"required": true, "content": content(schema)});
        }
        operation
    }
}

impl Document {
    fn add(&mut self, method: &str, path: &str, operation: Operation) {
        let path = self.paths.entry(path).or_insert_with(|| json!({}));
        path[method] = operation.into_json();
    }

    /// Adds the paths that are there whatever is served.
    fn of_server(&mut self, tag: &str) {
        self.tags
            .push(json!({"name": tag, "description": "The server as a whole"}));
        for (name, schema) in schema::common() {
            self.schemas.insert(name.to_owned(), schema);
        }
        let state = reference("VersionState");
        let rows: [Row; 7] = [
            (
                "get",
                "/v2",
                "server_metadata",
                "Name, version, and extensions",
                None,
                Some(reference("ServerMetadata")),
            ),
            (
                "get",
                "/v2/health/live",
                "server_live",
                "Whether the server runs",
                None,
                None,
            ),
            (
                "get",
                "/v2/health/ready",
                "server_ready",
                "Whether everything that is to be served is",
                None,
                None,
            ),
            (
                "post",
                "/v2/repository/index",
                "repository_index",
                "Every version and its state",
                Some(reference("IndexFilter")),
                Some(json!({"type": "array", "items": state})),
            ),
            (
                "get",
                "/v2/models/stats",
                "statistics",
                "Counts and times of everything",
                None,
                Some(schema::any_object()),
            ),
            (
                "get",
                "/v1/config",
                "config_status",
                "The states of everything",
                None,
                Some(schema::any_object()),
            ),
            (
                "post",
                "/v1/config/reload",
                "config_reload",
                "Reads configuration and model folders again",
                None,
                Some(schema::any_object()),
            ),
        ];
        for (method, path, id, summary, body, answer) in rows {
            let operation = Operation {
                id: id.to_owned(),
                tag,
                summary,
                body,
                answer,
                media: Media::Json,
                is_inference: false,
            };
            self.add(method, path, operation);
        }
        let metrics = Operation {
            id: "metrics".to_owned(),
            tag,
            summary: "Figures for Prometheus, if they are switched on",
            body: None,
            answer: Some(json!({"type": "string"})),
            media: Media::Text,
            is_inference: false,
        };
        self.add("get", "/metrics", metrics);
    }

    /// Adds the paths of a servable, if it serves.
    fn of_servable(&mut self, servable: &Servable) {
        let loaded = |number| servable.part(number).and_then(|part| part.loaded());
        let Ok(facts) = loaded(None) else { return };
        let name = servable.name();
        self.tags
            .push(json!({"name": name, "description": kind(servable, &facts)}));
        let key = self.key(name);
        let path = format!("/v2/models/{}", encoded(name));
        let operation = |verb: &str, summary, answer| Operation {
            id: format!("{verb}_{key}"),
            tag: name,
            summary,
            body: None,
            answer,
            media: Media::Json,
            is_inference: false,
        };
        let metadata = operation(
            "metadata",
            "Inputs and outputs",
            Some(reference("ModelMetadata")),
        );
        self.add("get", &path, metadata);
        let ready = operation("ready", "Whether it serves", None);
        self.add("get", &format!("{path}/ready"), ready);
        self.infer(&path, &key, name, &facts);
        // Each of several versions may have other tensors.
        if let several @ [_, _, ..] = servable.available().as_slice() {
            for &number in several {
                if let Ok(facts) = loaded(Some(number)) {
                    let path = format!("{path}/versions/{number}");
                    let key = self.key(&format!("{name}_v{number}"));
                    self.infer(&path, &key, name, &facts);
                }
            }
        }
        if facts.is_graph() {
            return;
        }
        let path = format!("/v1/models/{}", encoded(name));
        let status = operation(
            "status",
            "The states of its versions",
            Some(schema::any_object()),
        );
        self.add("get", &path, status);
        let predict = Operation {
            body: Some(reference("PredictRequest")),
            is_inference: true,
            ..operation(
                "predict",
                "An inference over TensorFlow Serving's API",
                Some(reference("PredictResponse")),
            )
        };
        self.add("post", &format!("{path}:predict"), predict);
        if facts.is_stateful() {
            let listed = Some(schema::live_sequences());
            let sequences = operation("sequences", "Its live sequences", listed);
            self.add("get", &format!("{path}/sequences"), sequences);
        }
    }

    /// Adds the inference of a version, with schemas of its own.
    fn infer(&mut self, path: &str, key: &str, name: &str, facts: &ServableFacts) {
        let (request, response) = (
            format!("{key}.InferRequest"),
            format!("{key}.InferResponse"),
        );
        schema::of_inference(key, facts, &mut self.schemas);
        let infer = Operation {
            id: format!("infer_{key}"),
            tag: name,
            summary: "An inference over KServe v2",
            body: Some(reference(&request)),
            answer: Some(reference(&response)),
            media: Media::Json,
            is_inference: true,
        };
        self.add("post", &format!("{path}/infer"), infer);
        if schema::of_generation(key, facts, &mut self.schemas) {
            self.generate(path, key, name);
        }
    }

    /// Adds the generate extension of a version.
    fn generate(&mut self, path: &str, key: &str, name: &str) {
        let operation = |verb: &str, summary, answer, media| Operation {
            id: format!("{verb}_{key}"),
            tag: name,
            summary,
            body: Some(reference(&format!("{key}.GenerateRequest"))),
            answer: Some(answer),
            media,
            is_inference: true,
        };
        let generate = operation(
            "generate",
            "An inference with inputs and outputs as members of one object",
            reference(&format!("{key}.GenerateResponse")),
            Media::Json,
        );
        self.add("post", &format!("{path}/generate"), generate);
        let events = json!({
            "type": "string",
            "description": "server-sent events: a line `data: {…}` for each answer, with the object that generate has",
        });
        let stream = operation(
            "generate_stream",
            "The same as a stream: an event for each answer, as it comes",
            events,
            Media::Events,
        );
        self.add("post", &format!("{path}/generate_stream"), stream);
    }

    /// Returns a name for ids and schemas, which may have fewer characters than names of servables.
    fn key(&self, name: &str) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let plain: String = name.chars().map(fits).collect();
        let has = |key: &str| self.schemas.contains_key(&format!("{key}.InferRequest"));
        unused(&plain, |key| {
            // The stream of `x` has the id that an answer of `stream_x` would have.
            let streamed = format!("stream_{key}");
            has(key) || has(&streamed) || key.strip_prefix("stream_").is_some_and(has)
        })
    }
}

/// Returns a name, or one with a number behind it if it is taken.
fn unused(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number: u64| format!("{name}_{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names
        .find(|name| !is_taken(name))
        .unwrap_or_else(|| name.to_owned())
}

/// Returns the kind of a servable, in words.
fn kind(servable: &Servable, facts: &ServableFacts) -> &'static str {
    match servable {
        Servable::Model(_) if facts.is_stateful() => {
            "A stateful model: requests belong to sequences"
        }
        Servable::Model(_) => "A model",
        Servable::Pipeline(_) => "A pipeline",
        Servable::Graph(_) => "A graph",
    }
}

/// Returns the media types of a JSON body.
fn content(schema: Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

/// Refers to one of the schemas.
fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Encodes a name for a path.
fn encoded(name: &str) -> String {
    /// Characters that a part of a path has as they are (RFC 3986, 2.3).
    const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(name, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Document, SERVER, encoded, unused};

    #[test]
    fn names_that_look_alike_have_keys_of_their_own() {
        let mut document = Document::default();
        assert_eq!(document.key("a b"), "a_b");
        document
            .schemas
            .insert("a_b.InferRequest".to_owned(), json!({}));
        assert_eq!(document.key("a-b"), "a_b_2");
        document
            .schemas
            .insert("a_b_2.InferRequest".to_owned(), json!({}));
        assert_eq!(document.key("a_b"), "a_b_3");
    }

    #[test]
    fn a_stream_has_an_id_that_no_other_operation_has() {
        for (first, second, expected) in [
            ("stream_x", "x", "x_2"),
            ("x", "stream-x", "stream_x_2"),
            ("stream_x", "y", "y"),
            ("streamx", "x", "x"),
        ] {
            let mut document = Document::default();
            let name = format!("{first}.InferRequest");
            document.schemas.insert(name, json!({}));
            assert_eq!(document.key(second), expected);
        }
    }

    #[test]
    fn the_tag_of_the_server_is_that_of_no_servable() {
        assert_eq!(unused(SERVER, |_| false), "server");
        let names = ["server", "server_2"];
        assert_eq!(unused(SERVER, |tag| names.contains(&tag)), "server_3");
    }

    #[test]
    fn a_name_is_one_part_of_a_path() {
        assert_eq!(encoded("a-b.c_1~"), "a-b.c_1~");
        assert_eq!(encoded("a/b c{ü}"), "a%2Fb%20c%7B%C3%BC%7D");
    }
}
