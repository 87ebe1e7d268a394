//! Remarks on the inputs of a request.

use super::{Content, Given, InputRemark, Inputs, Sound, Target};
use crate::tensor::DataType;

/// How the last step of an input was filled up.
pub(super) struct Padding {
    /// The number of steps, if it is known.
    pub(super) steps: Option<usize>,
    /// The number of zeros.
    pub(super) zeros: usize,
    /// The number of elements of a step.
    pub(super) step: usize,
    /// The sampling rate, if it is known.
    pub(super) rate: Option<u32>,
}

impl Inputs {
    /// Reports sounds that are shorter than their headers say.
    pub(super) fn hear_of_cuts(&self) {
        for Given { argument, content } in &self.given {
            if let Content::Samples(Sound { cut: Some(cut), .. }) = content {
                let path = argument.source.path().cloned();
                self.remarks.hear(InputRemark::Cut { path, cut: *cut });
            }
        }
    }

    /// Reports zeros in the last step of an input.
    pub(super) fn hear_of_zeros(&self, input: Option<&str>, padding: Padding) {
        let input = input.unwrap_or_default().to_owned();
        let Padding {
            steps,
            zeros,
            step,
            rate,
        } = padding;
        match (zeros, self.is_part) {
            (0, _) => {}
            (missing, true) => self.remarks.hear(InputRemark::Unfinished {
                input,
                missing,
                step,
                rate,
            }),
            (zeros, false) => self.remarks.hear(InputRemark::Padded {
                input,
                steps,
                zeros,
            }),
        }
    }

    /// Reports what is to be done to the pixels of images where there are none. Of many requests another one may have
    /// an image: [`hear_of_end`](Self::hear_of_end) reports that none has.
    pub(super) fn hear_of_no_image(&self, named: &[(String, Given)]) {
        let is_image =
            |given: &Given| matches!(given.content, Content::Image(_) | Content::Images(_));
        let has_image = named.iter().any(|(_, given)| is_image(given));
        if self.is_one_of_many {
            self.remarks.see(has_image);
        } else if self.image.is_any_given() && !has_image {
            self.remarks.hear(InputRemark::NoImage);
        }
    }

    /// Reports, behind the last of many requests, what is to be done to the pixels of images where none had an image.
    pub fn hear_of_end(&self) {
        if self.image.is_any_given() && self.remarks.has_seen_no_image() {
            self.remarks.hear(InputRemark::NoImage);
        }
    }

    /// Reports an image that is sent as something else than it may seem.
    pub(super) fn hear_of_image(&self, input: &str, target: &Target<'_>) {
        let (input, dtype) = (input.to_owned(), target.dtype());
        let is_decoded = matches!(&dtype, Ok(dtype) if *dtype != DataType::String);
        if is_decoded && self.image.is_factor() {
            self.remarks.hear(InputRemark::Factor);
        } else if is_decoded && self.image.is_of_unit() {
            let input = input.clone();
            self.remarks.hear(InputRemark::OfUnit { input });
        }
        match dtype {
            Err(_) => self.remarks.hear(InputRemark::Encoded { input }),
            Ok(DataType::String) if self.image.is_any_given() => {
                self.remarks.hear(InputRemark::Unprepared { input });
            }
            Ok(dtype) if !dtype.is_float() && self.image.scales() => {
                self.remarks.hear(InputRemark::Rounded { input, dtype });
            }
            Ok(_) => {}
        }
    }
}
