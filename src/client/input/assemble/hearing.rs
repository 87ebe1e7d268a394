//! Remarks on the inputs of a request.

use std::{path::PathBuf, slice};

use super::{
    Content, ElementSource, EncodedImage, Given, InputError, InputRemark, Inputs, Target,
    samples_of_a_step,
};
use crate::{
    client::{
        ModelMetadata, TensorMetadata,
        input::{
            SoundForm,
            audio::loudest,
            image::{ImageLoss, is_turned},
            remark::USUAL_RATE,
            table::FirstLine,
        },
        output::number,
    },
    servable::ImageStep,
    tensor::{DataType, Dim, PartialShape, Tensor, values::values},
};

/// Maximum length of a list of numbers that a remark repeats.
const MAX_LIST_LEN: usize = 40;

/// Padding of the last step of an input.
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

/// Lowest magnitude of samples far outside of -1 to 1; those of a sound that is merely too loud are below.
const LOUD: f32 = 4.0;

/// Counts elements that are no numbers, and those that are infinite.
pub(super) fn not_finite(tensor: &Tensor) -> (usize, usize) {
    if !tensor.dtype().is_float() {
        return (0, 0);
    }
    let all = values(tensor).filter_map(|value| value.as_f64());
    all.fold((0, 0), |(nans, infinite), value| {
        let one = |is_one| usize::from(is_one);
        (
            nans + one(value.is_nan()),
            infinite + one(value.is_infinite()),
        )
    })
}

/// Returns the numbers of a text with commas or blanks between them; `None` if it is a single one, or has other words.
fn words(text: &str) -> Option<Vec<&str>> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace());
    let mut numbers = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        // `nan` and `inf` are words of texts as well.
        let is_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
            && word.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_number {
            return None;
        }
        numbers.push(word);
    }
    (numbers.len() > 1).then_some(numbers)
}

/// Returns a text of several numbers as a list; of many, or of such as JSON does not have, only that it is one.
fn list_of_numbers(text: &str) -> Option<String> {
    let list = format!("[{}]", words(text)?.join(","));
    let is_shown = list.len() <= MAX_LIST_LEN && serde_json::from_str::<Vec<f64>>(&list).is_ok();
    Some(if is_shown { list } else { "[…]".to_owned() })
}

fn is_image(given: &Given) -> bool {
    matches!(given.content, Content::Image(_) | Content::Images(_))
}

impl Inputs {
    /// Sets the sampling rate in Hz that the model takes.
    ///
    /// # Errors
    ///
    /// Fails if a sound has another one.
    pub fn at_rate(mut self, rate: Option<u32>) -> Result<Self, InputError> {
        self.sample_rate = rate;
        self.check_rates()?;
        Ok(self)
    }

    /// Compares the rates of sounds with the one that the model takes, if that is known.
    pub(super) fn check_rates(&self) -> Result<(), InputError> {
        for Given { argument, content } in &self.given {
            if let Content::Samples(sound) = content {
                let path = argument.source.path();
                let place = path.map(|path| path.display().to_string());
                self.check_rate(place, sound.rate)?;
            }
        }
        Ok(())
    }

    fn check_rate(&self, place: Option<String>, rate: Option<u32>) -> Result<(), InputError> {
        match (self.sample_rate, rate) {
            (Some(expected), Some(found)) if expected != found => Err(InputError::SampleRate {
                place: place.unwrap_or_else(|| "the sound".to_owned()),
                found,
                expected,
            }),
            _ => Ok(()),
        }
    }

    /// Reports sounds that have several channels, a rate that speech mostly does not have, bytes that are no sample, or
    /// less than their headers say.
    pub(super) fn hear_of_sounds(&self) {
        for Given { argument, content } in &self.given {
            let Content::Samples(sound) = content else {
                continue;
            };
            let path = argument.source.path().cloned();
            self.hear_of_form(sound.rate, sound.channels);
            self.hear_of_loudness(path.as_ref(), &sound.samples);
            if sound.goes_on {
                let path = path.clone();
                self.remarks.hear(InputRemark::GoesOn { path });
            }
            if let Some(rest) = sound.rest {
                let path = path.clone();
                self.remarks.hear(InputRemark::Rest { path, rest });
            }
            if let Some(cut) = sound.cut {
                self.remarks.hear(InputRemark::Cut { path, cut });
            }
        }
    }

    /// Reports what the header of a stream of samples says.
    ///
    /// # Errors
    ///
    /// Fails if it has another sampling rate than the model takes.
    pub fn hear_of_stream(&self, form: &SoundForm) -> Result<(), InputError> {
        self.check_rate(None, form.rate)?;
        self.hear_of_form(form.rate, form.channels);
        Ok(())
    }

    /// Reports the end of a stream of samples, with so many bytes and samples of each channel, and whether something else
    /// than a chunk follows them.
    pub fn hear_of_stream_end(&self, form: &SoundForm, bytes: u64, samples: u64, goes_on: bool) {
        if goes_on {
            self.remarks.hear(InputRemark::GoesOn { path: None });
        }
        if let Some(rest) = form.rest(bytes) {
            self.remarks.hear(InputRemark::Rest { path: None, rest });
        }
        if let Some(cut) = form.cut(samples) {
            self.remarks.hear(InputRemark::Cut { path: None, cut });
        }
    }

    /// Returns the number of samples of a step, if a sound is cut into steps.
    pub fn samples_of_a_step(&self, model: &ModelMetadata) -> Option<usize> {
        let mut sounds = self.given.iter().filter_map(|given| match given.content {
            Content::Samples(_) => samples_of_a_step(&given.argument, model).ok(),
            _ => None,
        });
        sounds.next()
    }

    /// Reports samples that are far outside of -1 to 1.
    pub(super) fn hear_of_loudness(&self, path: Option<&PathBuf>, samples: &[f32]) {
        let most = loudest(samples);
        if most > LOUD {
            let (path, most) = (path.cloned(), number(most.into()));
            self.remarks.hear(InputRemark::Loud { path, most });
        }
    }

    fn hear_of_form(&self, rate: Option<u32>, channels: usize) {
        if channels > 1 {
            self.remarks.hear(InputRemark::Mixed { channels });
        }
        if let Some(rate) = rate
            && self.sample_rate.is_none()
            && rate != USUAL_RATE
        {
            self.remarks.hear(InputRemark::UnusualRate { rate });
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
        let has_image = named.iter().any(|(_, given)| is_image(given));
        if self.is_one_of_many {
            self.remarks.see(has_image);
        } else if self.image.is_any_given() && !has_image {
            self.remarks.hear(InputRemark::NoImage);
        }
    }

    /// Reports images whose pixels are prepared twice, here and by the server, or whose colors it takes otherwise. One
    /// that is sent as the bytes of its file is prepared by the server alone.
    pub(super) fn hear_of_steps(&self, named: &[(String, Given)], model: &ModelMetadata) {
        let is_decoded = |(name, given): &&(String, Given)| {
            let mut inputs = model.inputs.iter();
            let input = inputs.find(|input| input.name == *name);
            let dtype = given.argument.dtype;
            let dtype = dtype.or_else(|| input.and_then(TensorMetadata::dtype));
            is_image(given) && dtype.is_some_and(|dtype| dtype != DataType::String)
        };
        let Some((input, _)) = named.iter().find(is_decoded) else {
            return;
        };
        let has = |step| model.properties.has_step(step);
        let (has_mean, has_scale) = (has(ImageStep::Mean), has(ImageStep::Scale));
        let image = &self.image;
        if (has_mean && !image.mean.is_empty()) || (has_scale && !image.scale.is_empty()) {
            let input = input.clone();
            self.remarks.hear(InputRemark::PreparedTwice { input });
        }
        if has(ImageStep::Bgr) && !image.is_bgr {
            let input = input.clone();
            self.remarks.hear(InputRemark::OtherColors { input });
        }
    }

    /// Reports elements that are no numbers, and those that are infinite.
    pub(super) fn hear_of_not_finite(&self, input: Option<&str>, tensor: &Tensor) {
        let input = input.unwrap_or_default().to_owned();
        let (nans, infinite) = not_finite(tensor);
        if nans > 0 {
            let (input, count) = (input.clone(), nans);
            self.remarks.hear(InputRemark::NotNumbers { input, count });
        }
        self.hear_of_infinite(&input, infinite);
    }

    /// Reports elements that are infinite; steps with elements that are no numbers are refused elsewhere.
    pub(super) fn hear_of_infinite(&self, input: &str, count: usize) {
        if count > 0 {
            let input = input.to_owned();
            self.remarks.hear(InputRemark::Infinite { input, count });
        }
    }

    /// Reports what images lose.
    pub(super) fn hear_of_losses(&self, losses: Vec<(String, ImageLoss)>) {
        for (file, loss) in losses {
            self.remarks.hear(match loss {
                ImageLoss::Bits => InputRemark::Narrowed { file },
                ImageLoss::Transparency => InputRemark::Opaque { file },
            });
        }
    }

    /// Reports what the server changes of images that it decodes for a tensor of a datatype and shape.
    fn hear_of_losses_there(&self, images: &[EncodedImage], dtype: DataType, shape: &PartialShape) {
        // Channels stand last there; four of them have room for transparency.
        let channels = shape.0.last().copied().unwrap_or(Dim::Any);
        let is_kept = channels.allows(4) && !channels.allows(3);
        for image in images {
            let file = || image.name.clone();
            for loss in ImageLoss::all_in(&image.bytes) {
                match loss {
                    ImageLoss::Bits => self.remarks.hear(InputRemark::Wide {
                        file: file(),
                        most: match dtype {
                            DataType::I8 => 127,
                            DataType::U8 => 255,
                            DataType::I16 => 32_767,
                            _ => u16::MAX,
                        },
                    }),
                    ImageLoss::Transparency if is_kept => {}
                    ImageLoss::Transparency => {
                        self.remarks.hear(InputRemark::Opaque { file: file() });
                    }
                }
            }
        }
    }

    /// Reports names of columns that are left out, or what may be such names and is sent.
    pub(super) fn hear_of_first_line(&self, first: Option<FirstLine>, source: &ElementSource) {
        let path = source.path().cloned();
        match first {
            Some(FirstLine::Names(first)) => self.remarks.hear(InputRemark::Headed { path, first }),
            Some(FirstLine::Counted) => self.remarks.hear(InputRemark::CountedLine { path }),
            None => {}
        }
    }

    /// Reports columns of a table that are left out, since they are no inputs.
    pub(super) fn hear_of_columns(&self, names: Vec<String>, source: &ElementSource) {
        if !names.is_empty() {
            let path = source.path().cloned();
            self.remarks.hear(InputRemark::Columns { path, names });
        }
    }

    /// Reports, behind the last of many requests, what is to be done to the pixels of images where none had an image.
    pub fn hear_of_end(&self) {
        if self.image.is_any_given() && self.remarks.has_seen_no_image() {
            self.remarks.hear(InputRemark::NoImage);
        }
    }

    /// Reports numbers that are sent as a text, since the datatype of the input is unknown.
    pub(super) fn hear_of_numbers(
        &self,
        input: &str,
        target: &Target<'_>,
        content: &Content,
        source: &ElementSource,
    ) {
        if target.dtype().is_ok() {
            return;
        }
        let value = match content {
            Content::Inline(text) => list_of_numbers(text),
            Content::Text(bytes) | Content::Rows(bytes) => {
                let is_numbers = std::str::from_utf8(bytes).is_ok_and(|it| words(it).is_some());
                let path = source.path().filter(|_| is_numbers);
                path.map(|path| format!("@{}", path.display()))
            }
            _ => None,
        };
        if let Some(value) = value {
            let input = input.to_owned();
            self.remarks
                .hear(InputRemark::NumbersAsText { input, value });
        }
    }

    /// Reports an image that is sent as something else than it may seem.
    pub(super) fn hear_of_image(&self, input: &str, target: &Target<'_>, content: &Content) {
        let (input, dtype) = (input.to_owned(), target.dtype());
        let is_decoded = matches!(&dtype, Ok(dtype) if *dtype != DataType::String);
        if is_decoded && self.image.is_factor() {
            self.remarks.hear(InputRemark::Factor);
        } else if is_decoded && self.image.is_of_unit() {
            let input = input.clone();
            self.remarks.hear(InputRemark::OfUnit { input });
        }
        let images = match content {
            Content::Image(image) => slice::from_ref(image),
            Content::Images(images) => images,
            _ => &[],
        };
        // What a model of numbers gets as the bytes of a file, the server decodes.
        let there = target.model.filter(|_| !is_decoded);
        let there = there.and_then(|it| Some((it.dtype()?, &it.shape)));
        let there = there.filter(|(dtype, _)| *dtype != DataType::String);
        if let Some((dtype, shape)) = there {
            self.hear_of_losses_there(images, dtype, shape);
        }
        let is_laid_out = is_decoded || there.is_some();
        let turned = images.iter().find(|it| is_laid_out && is_turned(&it.bytes));
        if let Some(image) = turned {
            let file = image.name.clone();
            self.remarks.hear(InputRemark::Turned { file });
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
