//! The page of `/docs`: the document as people read it, without a script and without anything from elsewhere.

use std::fmt;

use askama::Template;
use axum::http::HeaderValue;
use serde_json::Value;

use crate::{
    draw::escape::xml_lines,
    frontends::{SERVER_NAME, dashboard},
};

const STYLE: &str = concat!(
    include_str!("../dashboard/page.css"),
    include_str!("docs.css")
);

/// Returns what browsers may do with the page: look at it.
pub(super) fn policy() -> HeaderValue {
    dashboard::still_policy(STYLE)
}

/// The page.
#[derive(Template)]
#[template(path = "docs.html", whitespace = "minimize")]
pub(super) struct DocsPage {
    sections: Vec<Section>,
}

/// The paths of the server, or of one servable.
struct Section {
    name: String,
    about: String,
    calls: Vec<Call>,
}

/// A method of a path.
struct Call {
    method: String,
    path: String,
    summary: String,
    /// Body and good answer, each as an outline of its schema.
    body: Option<String>,
    answer: Option<String>,
}

impl DocsPage {
    /// Makes the page of a document.
    pub(super) fn new(document: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tags = document["tags"].as_array().into_iter().flatten();
        let mut sections: Vec<Section> = tags
            .map(|tag| Section {
                name: text(&tag["name"]),
                about: text(&tag["description"]),
                calls: Vec::new(),
            })
            .collect();
        let outline = |content: &Value| {
            let (_, content) = content["content"].as_object()?.iter().next()?;
            let schema = content.get("schema")?;
            Some(Outline { document, schema }.to_string())
        };
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let call = Call {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    summary: text(&operation["summary"]),
                    body: outline(&operation["requestBody"]),
                    answer: outline(&operation["responses"]["200"]),
                };
                let tag = text(&operation["tags"][0]);
                if let Some(section) = sections.iter_mut().find(|section| section.name == tag) {
                    section.calls.push(call);
                }
            }
        }
        Self { sections }
    }
}

/// A schema as an indented outline: names, types, and what is fixed.
struct Outline<'a> {
    document: &'a Value,
    schema: &'a Value,
}

impl Outline<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>, schema: &Value, indent: usize) -> fmt::Result {
        let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
        if let Some(named) = target.and_then(|pointer| self.document.pointer(pointer)) {
            return self.write(f, named, indent);
        }
        if let Some(fixed) = schema.get("const") {
            return write!(f, "{fixed}");
        }
        if let Some(either) = schema["anyOf"].as_array() {
            for (place, one) in either.iter().enumerate() {
                if place > 0 {
                    f.write_str(" or ")?;
                }
                self.write(f, one, indent)?;
            }
            return Ok(());
        }
        match schema["type"].as_str() {
            Some("array") => {
                f.write_str("[")?;
                self.write(f, &schema["items"], indent)?;
                f.write_str(", …]")?;
            }
            Some("object") => {
                let Some(properties) = schema["properties"].as_object() else {
                    return f.write_str("{…}");
                };
                let required = schema["required"].as_array().into_iter().flatten();
                let required: Vec<&str> = required.filter_map(Value::as_str).collect();
                f.write_str("{\n")?;
                for (name, property) in properties {
                    let mark = if required.contains(&name.as_str()) {
                        ""
                    } else {
                        "?"
                    };
                    write!(f, "{:indent$}\"{name}\"{mark}: ", "", indent = indent + 2)?;
                    self.write(f, property, indent + 2)?;
                    if let Some(words) = property["description"].as_str() {
                        write!(f, "   # {words}")?;
                    }
                    f.write_str("\n")?;
                }
                write!(f, "{:indent$}}}", "")?;
            }
            Some(kind) => f.write_str(kind)?,
            None => f.write_str("any")?,
        }
        Ok(())
    }
}

impl fmt::Display for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.schema, 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Outline;

    #[test]
    fn an_outline_says_what_is_fixed_and_what_may_be_left_out() {
        let document =
            json!({"components": {"schemas": {"Name": {"type": "string", "const": "b"}}}});
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"$ref": "#/components/schemas/Name"},
            "data": {"type": "array", "description": "the elements",
                     "items": {"anyOf": [{"type": "number"}, {"type": "array", "items": {}}]}},
        }});
        let text = Outline {
            document: &document,
            schema: &schema,
        }
        .to_string();
        insta::assert_snapshot!(text, @r#"
        {
          "data"?: [number or [any, …], …]   # the elements
          "name": "b"
        }
        "#);
    }
}
