//! The elements of one tensor, collected from one JSON value or from several.

use std::borrow::Cow;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;

use super::{Cursor, JsonError, MAX_DEPTH, number};
use crate::tensor::{DataType, values::ValueError};

/// Base64 with or without padding, and with bits left over, as decoders of other model servers take it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Differences between the protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::frontends) enum Rules {
    /// A list, nested in any way: the shape is given elsewhere, only the number of elements counts.
    /// Every element is one of the type.
    KServe,
    /// The shape is that of the lists, which are rectangular. For a type of numbers
    /// there may be strings as well, and `{"b64": "…"}`; integers are cut out of fractions.
    TensorFlowServing,
    /// Rules of TensorFlow Serving, but a string alone is one, and a fraction is no integer.
    Generate,
}

/// Collects the elements of a tensor.
#[derive(Debug)]
pub(in crate::frontends) struct Elements {
    dtype: DataType,
    rules: Rules,
    bytes: Vec<u8>,
    count: usize,
    /// The lengths of the lists of each level, as far as one of that level has ended.
    lengths: Vec<Option<usize>>,
    /// Depth of the elements.
    rank: Option<usize>,
}

impl Elements {
    /// Begins a tensor of a type; `expected` elements are made room for, though never more than
    /// so many bytes of text can hold.
    pub(in crate::frontends) fn new(
        dtype: DataType,
        rules: Rules,
        expected: usize,
        text: usize,
    ) -> Self {
        // An element takes a digit and a comma at least.
        let most = expected.min(text / 2 + 1);
        Self {
            dtype,
            rules,
            bytes: Vec::with_capacity(most * dtype.size().unwrap_or(0)),
            count: 0,
            lengths: Vec::new(),
            rank: None,
        }
    }

    /// Returns the type of the elements: as given to [`Elements::new`], or strings if such came.
    pub(in crate::frontends) fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the number of elements so far.
    pub(in crate::frontends) fn count(&self) -> usize {
        self.count
    }

    /// Ends the collection; returns the lengths of the lists, the outermost first, and the bytes.
    /// The lengths of `outer` levels that were not lists of one value are 0.
    pub(in crate::frontends) fn finish(self) -> (Vec<usize>, Bytes) {
        let rank = self.rank.unwrap_or(0);
        let shape = (0..rank)
            .map(|level| self.lengths.get(level).copied().flatten().unwrap_or(0))
            .collect();
        (shape, self.bytes.into())
    }

    /// Takes one value off a text, and all that is in it; `outer` is how many lists it is in
    /// already, which the caller goes through.
    pub(in crate::frontends) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        outer: usize,
    ) -> Result<(), JsonError> {
        // How many values each open list has so far.
        let mut counts: Vec<usize> = Vec::new();
        loop {
            match cursor.token() {
                Some(b'[') => {
                    cursor.at += 1;
                    self.opened(outer + counts.len() + 1)?;
                    counts.push(0);
                    if !cursor.take(b']') {
                        continue;
                    }
                    self.closed(outer + counts.len(), counts.pop())?;
                }
                Some(b'-' | b'0'..=b'9' | b'N' | b'I') => {
                    let alone = counts.is_empty();
                    self.element(outer, counts.len())?;
                    self.expect_type(|dtype| dtype != DataType::String)?;
                    let truncate = self.rules == Rules::TensorFlowServing;
                    let found =
                        number::numbers(cursor, self.dtype, truncate, alone, &mut self.bytes)?;
                    self.count += found;
                    if let Some(count) = counts.last_mut() {
                        // The last one is counted below.
                        *count += found - 1;
                    }
                }
                Some(first @ (b't' | b'f')) => {
                    self.element(outer, counts.len())?;
                    cursor.word(if first == b't' { b"true" } else { b"false" })?;
                    self.truth(first == b't')?;
                }
                Some(b'"') => {
                    self.list_of_strings(outer + counts.len())?;
                    self.element(outer, counts.len())?;
                    let text = cursor.string()?;
                    self.string(&text)?;
                }
                Some(b'{') => {
                    if self.rules == Rules::KServe {
                        return Err(JsonError::kind("an object", self.dtype));
                    }
                    self.list_of_strings(outer + counts.len())?;
                    self.element(outer, counts.len())?;
                    let text = base64_object(cursor)?;
                    self.base64(text)?;
                }
                Some(b'n') => return Err(JsonError::kind("null", self.dtype)),
                _ => return Err(JsonError::Syntax),
            }
            // A value has ended, and maybe the lists that it is the last of.
            loop {
                let Some(count) = counts.last_mut() else {
                    return Ok(());
                };
                *count += 1;
                if cursor.more(b']')? {
                    break;
                }
                self.closed(outer + counts.len(), counts.pop())?;
            }
        }
    }

    fn opened(&self, depth: usize) -> Result<(), JsonError> {
        if depth > MAX_DEPTH {
            return Err(JsonError::Deep);
        }
        match self.rank {
            Some(rank) if depth > rank && self.is_rectangular() => Err(JsonError::Ragged),
            _ => Ok(()),
        }
    }

    fn closed(&mut self, depth: usize, length: Option<usize>) -> Result<(), JsonError> {
        if !self.is_rectangular() {
            return Ok(());
        }
        let length = length.unwrap_or(0);
        if length == 0 {
            // Its elements would be here, as deep as those of all other lists.
            self.at_depth(depth)?;
        }
        if self.lengths.len() < depth {
            self.lengths.resize(depth, None);
        }
        match self.lengths[depth - 1] {
            Some(known) if known != length => Err(JsonError::Ragged),
            _ => {
                self.lengths[depth - 1] = Some(length);
                Ok(())
            }
        }
    }

    /// Checks that an element is at the right depth.
    fn element(&mut self, outer: usize, lists: usize) -> Result<(), JsonError> {
        if !self.is_rectangular() {
            // A single value outside any list is no array.
            return if lists == 0 {
                Err(JsonError::NoList)
            } else {
                Ok(())
            };
        }
        self.at_depth(outer + lists)
    }

    /// Checks that a string is in a list, unless the type is that of strings: bytes that stand for
    /// numbers or images are always several.
    fn list_of_strings(&self, depth: usize) -> Result<(), JsonError> {
        match depth {
            0 if self.dtype != DataType::String && self.rules != Rules::Generate => {
                Err(JsonError::NoList)
            }
            _ => Ok(()),
        }
    }

    /// Checks that all elements are at the same depth.
    fn at_depth(&mut self, depth: usize) -> Result<(), JsonError> {
        match self.rank {
            Some(rank) if rank != depth => Err(JsonError::Ragged),
            _ => {
                self.rank = Some(depth);
                Ok(())
            }
        }
    }

    fn is_rectangular(&self) -> bool {
        self.rules != Rules::KServe
    }

    /// Checks that strings and other elements are not mixed.
    fn expect_type(&self, fits: impl Fn(DataType) -> bool) -> Result<(), JsonError> {
        if self.is_rectangular() && self.count > 0 && !fits(self.dtype) {
            return Err(JsonError::Mixed);
        }
        Ok(())
    }

    fn truth(&mut self, value: bool) -> Result<(), JsonError> {
        self.expect_type(|dtype| dtype != DataType::String)?;
        if self.dtype != DataType::Bool {
            return Err(JsonError::Value(ValueError::Kind {
                found: value.to_string(),
                dtype: self.dtype,
            }));
        }
        self.bytes.push(u8::from(value));
        self.count += 1;
        Ok(())
    }

    fn string(&mut self, value: &str) -> Result<(), JsonError> {
        self.begin_string(|| format!("\"{value}\""))?;
        self.end_string(|bytes| {
            bytes.extend_from_slice(value.as_bytes());
            Ok(())
        })
    }

    fn base64(&mut self, value: Cow<'_, str>) -> Result<(), JsonError> {
        self.begin_string(|| "`b64`".to_owned())?;
        self.end_string(|bytes| {
            let start = bytes.len();
            let Err(error) = BASE64.decode_vec(&*value, bytes) else {
                return Ok(());
            };
            if !value.contains(is_space) {
                return Err(JsonError::Base64(error));
            }
            // Lines of MIME and PEM. Few have any, and the others are not looked through for them.
            bytes.truncate(start);
            let mut value = value.into_owned();
            value.retain(|letter| !is_space(letter));
            BASE64.decode_vec(value, bytes).map_err(JsonError::Base64)
        })
    }

    fn begin_string(&mut self, found: impl Fn() -> String) -> Result<(), JsonError> {
        self.expect_type(|dtype| dtype == DataType::String)?;
        match self.rules {
            Rules::TensorFlowServing | Rules::Generate => self.dtype = DataType::String,
            Rules::KServe if self.dtype == DataType::String => {}
            Rules::KServe => {
                return Err(JsonError::Value(ValueError::Kind {
                    found: found(),
                    dtype: self.dtype,
                }));
            }
        }
        Ok(())
    }

    /// Appends the length and the bytes of a string.
    fn end_string(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        append(&mut self.bytes)?;
        let length = u32::try_from(self.bytes.len() - start - 4)
            .map_err(|_| JsonError::Value(ValueError::StringLength))?;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.count += 1;
        Ok(())
    }
}

/// Returns whether a letter is white space of C, which base64 may have anywhere.
fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t'..='\r')
}

/// Passes over `{"b64": "…"}`.
fn base64_object<'a>(cursor: &mut Cursor<'a>) -> Result<Cow<'a, str>, JsonError> {
    let other = || JsonError::Kind {
        found: "an object",
        expected: Cow::Borrowed("a value or {\"b64\": \"…\"}"),
    };
    cursor.expect(b'{')?;
    if cursor.token() != Some(b'"') {
        return Err(other());
    }
    if cursor.key()? != "b64" || cursor.token() != Some(b'"') {
        return Err(other());
    }
    let text = cursor.string()?;
    if cursor.more(b'}')? {
        return Err(other());
    }
    Ok(text)
}

/// Returns whether an object comes next that stands for bytes.
pub(in crate::frontends) fn is_base64(cursor: &Cursor<'_>) -> bool {
    base64_object(&mut cursor.clone()).is_ok()
}
