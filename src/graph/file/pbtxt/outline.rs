//! Fields of a text whose message is not known, such as a file of another server.

use super::{
    MAX_SIZE, TextError, scalar,
    token::{Kind, Lexer},
    tree::{self, Field, Name, Shape, Value},
};
use crate::diagnostic::LineIndex;

/// Field of a text, with its values if these are scalars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutlineField {
    /// Names from the outermost message on, with dots between them.
    pub(crate) path: String,
    /// The scalars of a list, or the one: strings without their quotes, and other values as written.
    pub(crate) values: Vec<String>,
    /// The number of the outermost message that it is in, counted from 1; 0 if it is in none.
    pub(crate) within: usize,
    /// The numbers of all messages that it is in, the outermost first, each counted from 1.
    pub(crate) chain: Vec<usize>,
    /// Line and column of its name.
    pub(crate) place: (usize, usize),
}

impl OutlineField {
    /// Returns the scalar, or the first of a list.
    pub(crate) fn value(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
    }
}

/// Returns the fields of a text in its order, each before those within it.
///
/// # Errors
///
/// Fails with the position and the reason if it is not protobuf text.
pub(crate) fn outline(text: &str) -> Result<Vec<OutlineField>, String> {
    if text.len() > MAX_SIZE {
        return Err(format!("expected at most {MAX_SIZE} bytes"));
    }
    let fields = tree::read(text).map_err(|error| located(text, &error))?;
    let mut found = Vec::new();
    let lines = LineIndex::new(text);
    let mut messages = (0, 0);
    collect(
        (text, &lines),
        ("", 0, &[]),
        &fields,
        &mut found,
        &mut messages,
    );
    Ok(found)
}

fn located(text: &str, error: &TextError) -> String {
    let (line, column) = LineIndex::new(text).place(error.at);
    format!("{line}:{column}: {}", error.message)
}

/// Collects the fields of a message, of which path and numbers are given; `messages` is how many there are so far, those
/// that are in no other and all.
fn collect(
    (text, lines): (&str, &LineIndex),
    (prefix, within, chain): (&str, usize, &[usize]),
    fields: &[Field<'_>],
    found: &mut Vec<OutlineField>,
    messages: &mut (usize, usize),
) {
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
        let scalars = values.iter().filter_map(|value| scalar(text, value));
        found.push(OutlineField {
            path: path.clone(),
            values: scalars.collect(),
            within,
            chain: chain.to_vec(),
            place: lines.place(field.at),
        });
        for value in values {
            let within = match within {
                0 => {
                    messages.0 += 1;
                    messages.0
                }
                within => within,
            };
            messages.1 += 1;
            let chain = [chain, &[messages.1]].concat();
            collect(
                (text, lines),
                (&path, within, &chain),
                value.fields(),
                found,
                messages,
            );
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
                let fields = fields.into_iter().map(|it| match &it.values[..] {
                    [] => it.path,
                    values => format!("{}={}", it.path, values.join(",")),
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
    fn lists_have_all_their_values_and_messages_a_number() {
        let text = r#"
            dims: [ 1, -1 ]
            input [ { dims: 1 name: "a" dims: [ 2, 3 ] reshape { shape: [ 6 ] } }, { name: "b" } ]
            input { name: "c" }
        "#;
        let fields = outline(text).unwrap().into_iter();
        let lines = fields.map(|it| format!("{} {}={}", it.within, it.path, it.values.join(",")));
        assert_eq!(
            lines.collect::<Vec<_>>().join("\n"),
            "0 dims=1,-1\n0 input=\n3 input.dims=1\n3 input.name=a\n3 input.dims=2,3\n3 input.reshape=\n\
             3 input.reshape.shape=6\n4 input.name=b\n0 input=\n5 input.name=c"
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
