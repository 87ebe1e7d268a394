//! Fields of a text whose message is not known, such as a file of another server.

use super::{
    LONGEST, TextError, scalar,
    token::{Kind, Lexer},
    tree::{self, Field, Name, Shape, Value},
};
use crate::diagnostic::LineIndex;

/// Field of a text, with its value if that is a scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutlineField {
    /// Names from the outermost message on, with dots between them.
    pub(crate) path: String,
    /// The scalar: a string without its quotes, and other values as written. The first one of a list.
    pub(crate) value: Option<String>,
}

/// Returns the fields of a text in its order, each before those within it.
///
/// # Errors
///
/// Fails with the position and the reason if it is not protobuf text.
pub(crate) fn outline(text: &str) -> Result<Vec<OutlineField>, String> {
    if text.len() > LONGEST {
        return Err(format!("expected at most {LONGEST} bytes"));
    }
    let fields = tree::read(text).map_err(|error| located(text, &error))?;
    let mut found = Vec::new();
    collect(text, "", &fields, &mut found);
    Ok(found)
}

fn located(text: &str, error: &TextError) -> String {
    let (line, column) = LineIndex::new(text).place(error.at);
    format!("{line}:{column}: {}", error.message)
}

fn collect(text: &str, prefix: &str, fields: &[Field<'_>], found: &mut Vec<OutlineField>) {
    for field in fields {
        // Extensions and types have no names that a file without its schema could have.
        let Name::Plain(name) = field.name else {
            continue;
        };
        let path = match prefix {
            "" => name.to_owned(),
            prefix => format!("{prefix}.{name}"),
        };
        let values = field.value.each();
        found.push(OutlineField {
            value: values.first().and_then(|value| scalar(text, value)),
            path: path.clone(),
        });
        for value in values {
            collect(text, &path, value.fields(), found);
        }
    }
}

/// Returns a scalar as text.
fn scalar(text: &str, value: &Value<'_>) -> Option<String> {
    if !matches!(value.shape, Shape::Scalar) {
        return None;
    }
    let mut lexer = Lexer::new(text, value.at);
    let token = lexer.next().ok()?;
    match token.kind {
        Kind::Text => {
            let bytes = scalar::text_at(text, value.at).ok()?;
            String::from_utf8(bytes).ok()
        }
        Kind::Mark(b'-') => {
            let number = lexer.next().ok()?;
            Some(format!("-{}", lexer.slice(number)))
        }
        _ => Some(lexer.slice(token).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::outline;

    fn listed(text: &str) -> String {
        match outline(text) {
            Err(error) => error,
            Ok(fields) => {
                let fields = fields.into_iter().map(|it| match it.value {
                    Some(value) => format!("{}={value}", it.path),
                    None => it.path,
                });
                fields.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn fields_have_paths_and_scalars() {
        let text = r#"
            name: "vad"  # of Triton
            max_batch_size: -8
            sequence_batching { oldest { max_candidate_sequences: 4 } max_sequence_idle_microseconds: 5000000 }
            instance_group [ { kind: KIND_CPU }, { count: 2 } ]
            empty: [ ]
            [type.googleapis.com/x.Y] { z: 1 }
        "#;
        assert_eq!(
            listed(text),
            "name=vad max_batch_size=-8 sequence_batching sequence_batching.oldest \
             sequence_batching.oldest.max_candidate_sequences=4 \
             sequence_batching.max_sequence_idle_microseconds=5000000 instance_group \
             instance_group.kind=KIND_CPU instance_group.count=2 empty"
        );
    }

    #[test]
    fn what_is_no_text_has_a_position() {
        assert_eq!(
            listed("name: \"a\"\nsequence_batching {"),
            "2:20: found the end of the text, expected the name of a field or `}`"
        );
    }
}
