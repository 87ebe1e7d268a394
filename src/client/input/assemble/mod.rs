//! All inputs of a request: what was given, fitted to what the model takes, and the rest filled.

mod apart;
mod filling;
mod hearing;
mod turns;

use std::{io::Read, path::Path};

use self::{
    apart::{TableInputs, columns, no_answer, several},
    filling::{is_open, with_rows},
    hearing::{Padding, not_finite},
};
use super::{
    Argument, ElementSource, FileKind, Fill, ImageOptions, InputError, ValueProblem,
    audio::Sound,
    content::{Content, EncodedImage, FileLimit, Stdin},
    convert::Filler,
    pattern,
    remark::{DtypeConversion, InputRemark, RemarkListener},
    target::{Target, fit},
};
use crate::{
    client::message::{ModelMetadata, TensorMetadata},
    tensor::{DataType, PartialShape, Tensor, TensorMap, elements},
};

pub use turns::{InputTurn, MAX_OF_FILES};

/// Inputs that are read, but not yet tensors: that takes the model's metadata.
#[derive(Debug, Clone)]
pub struct Inputs {
    given: Vec<Given>,
    fill: Option<Fill>,
    image: ImageOptions,
    remarks: RemarkListener,
    /// Marks inputs of one of many requests, of which others may have images.
    is_one_of_many: bool,
    /// Marks a beginning that later inputs continue.
    is_part: bool,
    /// Sampling rate in Hz that the model takes, if it is known.
    sample_rate: Option<u32>,
}

/// An input in the shape in which it was given, which may be that of many steps.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeInput {
    /// The name.
    pub name: String,
    /// The elements.
    pub tensor: Tensor,
    /// The shape that the model takes at once; `None` for what is sent as it is.
    pub step: Option<PartialShape>,
}

/// One input, read.
#[derive(Debug, Clone, Default)]
struct Given {
    argument: Argument,
    content: Content,
}

impl Inputs {
    /// Reads the files of the arguments, where a pattern stands for several, and standard input if one asks for it.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, a pattern matches none, or two arguments ask for standard input and it has one value.
    pub fn load(
        arguments: Vec<Argument>,
        fill: Option<Fill>,
        image: ImageOptions,
        stdin: &mut dyn Read,
    ) -> Result<Self, InputError> {
        Self::load_within(arguments, fill, image, stdin, u64::MAX)
    }

    /// Loads arguments with a limit on the bytes of all files together.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, and if the files have more bytes.
    pub fn load_within(
        arguments: Vec<Argument>,
        fill: Option<Fill>,
        image: ImageOptions,
        stdin: &mut dyn Read,
        most: u64,
    ) -> Result<Self, InputError> {
        let mut inputs = Self {
            given: Vec::with_capacity(arguments.len()),
            fill,
            image,
            remarks: RemarkListener::default(),
            is_one_of_many: false,
            is_part: false,
            sample_rate: None,
        };
        let (mut stdin, mut limit) = (Stdin::new(stdin), FileLimit::new(most));
        for argument in arguments {
            inputs.read(argument, &mut stdin, &mut limit)?;
        }
        Ok(inputs)
    }

    /// Adds what an argument names: one value, or one for each file that its pattern matches.
    fn read(
        &mut self,
        argument: Argument,
        stdin: &mut Stdin<'_>,
        limit: &mut FileLimit,
    ) -> Result<(), InputError> {
        for argument in pattern::expanded(argument)? {
            let content = Content::load(&argument.source, stdin, limit)?;
            self.given.push(Given { argument, content });
        }
        Ok(())
    }

    /// Calls a function for each value that is sent as something else than it may seem, once for all requests.
    #[must_use]
    pub fn on_remark(self, report: impl Fn(&InputRemark) + Send + Sync + 'static) -> Self {
        let inputs = Self {
            remarks: RemarkListener::new(report),
            ..self
        };
        inputs.hear_of_sounds();
        inputs
    }

    /// Returns whether nothing was given and nothing is to be filled.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.fill.is_none()
    }

    /// Returns whether every input has a name, a datatype and a shape of its own, so that no model needs
    /// to be asked for its inputs.
    pub fn are_reported(&self) -> bool {
        let is_reported = |Given { argument, .. }: &Given| {
            argument.name.is_some() && argument.dtype.is_some() && argument.shape.is_some()
        };
        self.fill.is_none() && !self.given.is_empty() && self.given.iter().all(is_reported)
    }

    /// Makes a tensor for every input of the model, in the model's order.
    ///
    /// Inputs that the model does not list, such as those that control a sequence, follow; they
    /// need a datatype of their own.
    ///
    /// # Errors
    ///
    /// Fails if an input is missing, unknown or given twice, or a value does not fit.
    pub fn tensors(&self, model: &ModelMetadata) -> Result<TensorMap, InputError> {
        let tensors = self.each(
            model,
            |given, input, filler| {
                let name = given.argument.name.clone();
                let tensor = self.tensor(given, input, filler, false)?;
                let name = input.map(|input| input.name.as_str()).or(name.as_deref());
                self.hear_of_not_finite(name, &tensor);
                Ok(tensor)
            },
            |tensor, rank| {
                let shape = tensor.shape();
                shape.first().copied().filter(|_| shape.len() == rank)
            },
        );
        Ok(TensorMap::from_iter(tensors?))
    }

    /// Assembles only those inputs that are given or filled.
    ///
    /// # Errors
    ///
    /// Fails if an input is unknown or given twice, or a value does not fit.
    pub fn given(&self, model: &ModelMetadata) -> Result<TensorMap, InputError> {
        let mut asked = model.clone();
        if self.fill.is_none() {
            let named = self.named(model)?;
            asked
                .inputs
                .retain(|input| named.iter().any(|(name, _)| *name == input.name));
        }
        self.tensors(&asked)
    }

    /// Assembles the inputs, but leaves arrays and lists in the shape in which they were given.
    ///
    /// Images, single values, flat lists that fill the model's shape, and what is filled without
    /// a shape of its own have the model's shape nevertheless.
    ///
    /// # Errors
    ///
    /// Fails as [`tensors`](Self::tensors) does.
    pub fn whole(&self, model: &ModelMetadata) -> Result<Vec<WholeInput>, InputError> {
        let make = |given: Given, input: Option<&TensorMetadata>, filler: &mut Option<Filler>| {
            if let Content::Samples(sound) = &given.content {
                let (dtype, shape) = (given.argument.dtype, given.argument.shape.clone());
                let target = Target {
                    model: input,
                    dtype,
                    shape,
                    is_whole: true,
                };
                let (tensor, step, zeros) = target.steps_of(&sound.samples)?;
                let name = given.argument.name.as_deref();
                let name = input.map(|input| input.name.as_str()).or(name);
                let steps = tensor.shape()[0];
                let padding = Padding {
                    steps: Some(steps),
                    zeros,
                    step: tensor.shape()[1..].iter().product(),
                    rate: sound.rate.or(self.sample_rate),
                };
                self.hear_of_zeros(name, padding);
                return Ok((tensor, Some(step)));
            }
            let is_of_the_model = match given.content {
                Content::Image(_) | Content::Images(_) => true,
                Content::Fill => given.argument.shape.is_none(),
                _ => false,
            };
            let is_list = given.content.may_be_in_a_row();
            let tensor = self.tensor(given, input, filler, !is_of_the_model)?;
            let step = input.filter(|_| !is_of_the_model);
            // Texts and images for the server to take apart have a shape of their own.
            let step = step
                .filter(|it| {
                    tensor.dtype() != DataType::String || it.dtype() == Some(DataType::String)
                })
                .map(|it| it.shape.clone());
            let (tensor, step) = fitted(tensor, step)?;
            match (input, &step) {
                (Some(input), Some(shape)) if is_list => {
                    let (tensor, zeros) = chunked(tensor, shape)?;
                    let steps = tensor.shape()[0];
                    let padding = Padding {
                        steps: Some(steps),
                        zeros,
                        step: tensor.shape()[1..].iter().product(),
                        rate: None,
                    };
                    self.hear_of_zeros(Some(&input.name), padding);
                    Ok((tensor, step))
                }
                _ => Ok((tensor, step)),
            }
        };
        // What is filled has one step, which goes with all of the others.
        let inputs = self.each(model, make, |_, _| None)?;
        for (name, (tensor, _)) in &inputs {
            self.hear_of_infinite(name, not_finite(tensor).1);
        }
        let input = |(name, (tensor, step))| WholeInput { name, tensor, step };
        Ok(inputs.into_iter().map(input).collect())
    }

    /// Adds an input whose value is samples of a sound, from -1 to 1: as many as the model takes at once,
    /// or fewer, which zeros follow.
    ///
    /// # Errors
    ///
    /// Fails if the model does not say how many it takes.
    pub fn with_samples(
        &self,
        argument: &Argument,
        mut samples: Vec<f32>,
        model: &ModelMetadata,
    ) -> Result<Self, InputError> {
        let count = samples_of_a_step(argument, model)?;
        let first = model.inputs.first().map(|input| input.name.as_str());
        let name = argument.name.as_deref().or(first);
        let padding = Padding {
            steps: None,
            zeros: count.saturating_sub(samples.len()),
            step: count,
            rate: self.sample_rate,
        };
        self.hear_of_zeros(name, padding);
        self.hear_of_loudness(None, &samples);
        samples.resize(count, 0.0);
        let mut inputs = self.clone();
        inputs.given.push(Given {
            argument: argument.clone(),
            content: Content::Samples(Sound::raw(samples)),
        });
        Ok(inputs)
    }

    /// Marks a beginning that later inputs continue, so that a last step with zeros in it is worth a warning.
    #[must_use]
    pub fn as_part(mut self) -> Self {
        self.is_part = true;
        self
    }

    /// Returns the files of the images of an input, in the order of the batch; none if several inputs have images.
    pub fn image_files(&self, model: &ModelMetadata) -> Vec<String> {
        let mut files = self.image_files_by_input(model);
        match files.len() {
            1 => files.swap_remove(0).1,
            _ => Vec::new(),
        }
    }

    /// Returns the files of the images of each input that has images, in the order of its batch.
    pub fn image_files_by_input(&self, model: &ModelMetadata) -> Vec<(String, Vec<String>)> {
        let named = self.named(model).unwrap_or_default();
        let names = |images: &[EncodedImage]| images.iter().map(|it| it.name.clone()).collect();
        let files = named.into_iter().filter_map(|(input, given)| {
            let files = match &given.content {
                Content::Image(image) => names(std::slice::from_ref(image)),
                Content::Images(images) => names(images),
                _ => return None,
            };
            Some((input, files))
        });
        files.collect()
    }

    /// Returns the texts among the values that are names of files.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.given.iter().filter_map(|given| match &given.content {
            Content::Inline(text) if is_file_name(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Adds an input whose value is JSON, or inputs that are the outputs of an answer.
    ///
    /// # Errors
    ///
    /// Fails if it is an answer that cannot be used.
    pub fn with_json(&self, argument: &Argument, text: String) -> Result<Self, InputError> {
        let mut inputs = self.clone();
        inputs.given.push(Given {
            argument: argument.clone(),
            content: Content::line(text, &argument.source)?,
        });
        Ok(inputs)
    }

    /// Makes something of every input of the model, in the model's order, and of the others.
    ///
    /// Inputs that are filled are made last: they have as many rows as those that were given, of which `rows` returns the
    /// length of the first of so many dimensions, where the model leaves both lengths open.
    fn each<T>(
        &self,
        model: &ModelMetadata,
        make: impl Fn(Given, Option<&TensorMetadata>, &mut Option<Filler>) -> Result<T, ValueProblem>,
        rows: impl Fn(&T, usize) -> Option<usize>,
    ) -> Result<Vec<(String, T)>, InputError> {
        let mut named = self.named(model)?;
        self.hear_of_no_image(&named);
        self.hear_of_steps(&named, model);
        let mut filler = self.fill.map(Filler::new);
        let mut made = Vec::with_capacity(named.len());
        let (mut missing, mut filled) = (Vec::new(), Vec::new());
        let mut given_rows = None;
        for (index, input) in model.inputs.iter().enumerate() {
            let given = match named.iter().position(|(name, _)| *name == input.name) {
                Some(index) => named.remove(index).1,
                None if filler.is_some() => Given::default(),
                None => {
                    missing.push(input.clone());
                    continue;
                }
            };
            let is_filled = given.content == Content::Fill && filler.is_some();
            let rank = input.shape.0.len();
            if is_filled {
                let shape = given.argument.shape.as_ref();
                let own = shape.filter(|it| is_open(input) && it.len() == rank);
                given_rows = given_rows.or_else(|| own?.first().copied());
                filled.push((index, input, given));
                continue;
            }
            let one = make(given, Some(input), &mut filler);
            let one = one.map_err(|problem| problem.of(&input.name))?;
            given_rows = given_rows.or_else(|| rows(&one, rank).filter(|_| is_open(input)));
            made.push((input.name.clone(), one));
        }
        for (index, input, mut given) in filled {
            if given.argument.shape.is_none() {
                given.argument.shape = with_rows(input, given.argument.dtype, given_rows);
            }
            let one = make(given, Some(input), &mut filler);
            let one = one.map_err(|problem| problem.of(&input.name))?;
            made.insert(index, (input.name.clone(), one));
        }
        if !missing.is_empty() {
            return Err(InputError::Missing { missing });
        }
        for (name, given) in named {
            let one = make(given, None, &mut filler).map_err(|problem| problem.of(&name))?;
            made.push((name, one));
        }
        Ok(made)
    }

    /// Gives every input a name, and takes archives, objects, and tables of several inputs apart.
    fn apart(&self, model: &ModelMetadata) -> Result<Vec<(String, Given)>, InputError> {
        let mut named = Vec::new();
        for given in self.given.iter().cloned() {
            if let Some(TableInputs { inputs, others }) =
                columns(&given, model).map_err(|problem| problem.of(&model.inputs[0].name))?
            {
                self.hear_of_columns(others, &given.argument.source);
                named.extend(inputs);
                continue;
            }
            match (given.argument.name.clone(), several(&given, model)) {
                (Some(name), _) => named.push((name, given)),
                (None, Some(inputs)) => named.extend(inputs),
                (None, None) => match model.inputs.as_slice() {
                    [only] => named.push((only.name.clone(), given)),
                    _ => {
                        return Err(InputError::Nameless {
                            known: model.input_names(),
                        });
                    }
                },
            }
        }
        Ok(named)
    }

    /// Returns the value of each input, by its name.
    fn named(&self, model: &ModelMetadata) -> Result<Vec<(String, Given)>, InputError> {
        let named = in_batches(self.apart(model)?);
        let mut seen: Vec<&str> = Vec::with_capacity(named.len());
        for (name, given) in &named {
            if seen.contains(&name.as_str()) {
                return Err(InputError::Twice(name.clone()));
            }
            // Better said before inputs are missing, because a typing error causes both.
            if !model.has_input(name) && given.argument.dtype.is_none() {
                let known = model.input_names();
                let name = name.clone();
                return Err(InputError::Unknown { name, known });
            }
            seen.push(name);
        }
        Ok(named)
    }

    fn tensor(
        &self,
        Given { argument, content }: Given,
        model: Option<&TensorMetadata>,
        filler: &mut Option<Filler>,
        is_whole: bool,
    ) -> Result<Tensor, ValueProblem> {
        let target = Target {
            model,
            dtype: argument.dtype,
            shape: argument.shape,
            is_whole,
        };
        let unnamed = match content {
            Content::Arrays(_) => |names: Vec<String>| {
                let names = names.join(", ");
                ValueProblem::Misfit(format!(
                    "found the arrays {names}, none of the input's name"
                ))
            },
            _ => ValueProblem::Outputs,
        };
        if let (Content::Image(_) | Content::Images(_), Some(input)) = (&content, model) {
            self.hear_of_image(&input.name, &target, &content);
        }
        if let Some(input) = model {
            self.hear_of_numbers(&input.name, &target, &content, &argument.source);
        }
        match content {
            Content::Inline(text) => match target.dtype_of(&text) {
                DataType::String if !text.starts_with(['[', '"']) => target.string(text.as_bytes()),
                dtype => target
                    .json(&text, dtype)
                    .map_err(|problem| match is_file_name(&text) {
                        true => ValueProblem::FileName(text),
                        false => problem,
                    }),
            },
            Content::Json(text) => {
                let read = target.json(&text, target.dtype_of(&text));
                read.map_err(|problem| no_answer(&text).unwrap_or(problem))
            }
            Content::Piped(text) => {
                let read = target.json(&text, target.dtype_of(&text));
                read.map_err(|problem| match problem {
                    ValueProblem::Json(error) if error.is_syntax() => ValueProblem::Piped(error),
                    problem => no_answer(&text).unwrap_or(problem),
                })
            }
            Content::Array(tensor) => self.array(&target, &tensor, &argument.source),
            Content::Arrays(several) | Content::Outputs(several) => {
                let name = argument.name.unwrap_or_default();
                let named = several.iter().find(|(known, _)| *known == name);
                match (several.as_slice(), named) {
                    ([(_, only)], _) | (_, Some((_, only))) => {
                        self.array(&target, only, &argument.source)
                    }
                    (_, None) => Err(unnamed(several.into_iter().map(|(name, _)| name).collect())),
                }
            }
            Content::Image(file) => match target.dtype_of_file() {
                // The server decodes it.
                DataType::String => target.string(&file.bytes),
                dtype => {
                    let (wanted, mut losses) = (target.wanted(), Vec::new());
                    let image = self
                        .image
                        .tensor(&file, dtype, wanted.as_ref(), &mut losses)?;
                    self.hear_of_losses(losses);
                    Ok(image)
                }
            },
            Content::Images(files) => match target.dtype_of_file() {
                DataType::String => target.strings(files.iter().map(|file| &*file.bytes)),
                dtype => {
                    let (wanted, mut losses) = (target.wanted(), Vec::new());
                    let images = self
                        .image
                        .batch(&files, dtype, wanted.as_ref(), &mut losses)?;
                    self.hear_of_losses(losses);
                    Ok(images)
                }
            },
            Content::Samples(sound) => target.samples(&sound.samples),
            Content::Text(text) => match target.dtype_of_file() {
                DataType::String => target.string(&text),
                dtype => target.words(&text, dtype),
            },
            Content::Rows(text) => match target.dtype_of_file() {
                DataType::String => target.string(&text),
                dtype => {
                    let mut first = None;
                    let rows = target.rows(&text, dtype, &mut first)?;
                    self.hear_of_first_line(first, &argument.source);
                    Ok(rows)
                }
            },
            Content::Binary(bytes) => target.bytes(bytes),
            Content::Fill => {
                let filler = filler.as_mut().ok_or_else(|| match target.dtype() {
                    Ok(DataType::String) => ValueProblem::NoText,
                    _ => ValueProblem::Nothing,
                })?;
                filler.tensor(target.dtype()?, target.smallest())
            }
        }
    }

    /// Makes a tensor of an array, and reports if it was converted or reshaped without having been asked for.
    fn array(
        &self,
        target: &Target<'_>,
        array: &Tensor,
        source: &ElementSource,
    ) -> Result<Tensor, ValueProblem> {
        let tensor = target.array(array)?;
        let (found, expected) = (array.dtype(), tensor.dtype());
        if let Some(input) = target.model.filter(|_| target.dtype.is_none())
            && found != expected
        {
            let path = source.path().cloned();
            self.remarks.hear(InputRemark::Converted(DtypeConversion {
                input: input.name.clone(),
                path,
                found,
                expected,
            }));
        }
        if let Some(input) = target.model.filter(|_| target.shape.is_none())
            && array.shape() != tensor.shape()
        {
            self.remarks.hear(InputRemark::Reshaped {
                input: input.name.clone(),
                found: array.shape().to_vec(),
                sent: tensor.shape().to_vec(),
            });
        }
        Ok(tensor)
    }
}

/// Returns the number of samples that a model takes at once.
///
/// # Errors
///
/// Fails if it takes any number.
pub fn samples_of_a_step(argument: &Argument, model: &ModelMetadata) -> Result<usize, InputError> {
    let named = argument.name.as_deref();
    let mut inputs = model.inputs.iter();
    let input = match named {
        Some(name) => inputs.find(|input| input.name == name),
        None => inputs.next(),
    };
    let target = Target {
        model: input,
        dtype: argument.dtype,
        shape: argument.shape.clone(),
        is_whole: true,
    };
    let name = named.or(input.map(|input| input.name.as_str()));
    let count = target.samples_at_once();
    count.map_err(|problem| problem.of(name.unwrap_or_default()))
}

/// Returns whether a text is the name of a file that would be read behind `@`.
fn is_file_name(text: &str) -> bool {
    let path = Path::new(text);
    FileKind::of(path).is_some() && path.is_file()
}

/// Makes a batch of several images for one input.
fn in_batches(named: Vec<(String, Given)>) -> Vec<(String, Given)> {
    let mut whole: Vec<(String, Given)> = Vec::with_capacity(named.len());
    for (name, given) in named {
        let Content::Image(image) = &given.content else {
            whole.push((name, given));
            continue;
        };
        let mut earlier = whole.iter_mut().filter(|(other, _)| *other == name);
        match earlier.next().map(|(_, first)| &mut first.content) {
            Some(Content::Images(images)) => images.push(image.clone()),
            Some(content @ Content::Image(_)) => {
                let Content::Image(first) = std::mem::take(content) else {
                    continue;
                };
                *content = Content::Images(vec![first, image.clone()]);
            }
            _ => whole.push((name, given)),
        }
    }
    whole
}

/// Gives a value with fewer dimensions than the model's the model's shape, if it fills that.
fn fitted(
    tensor: Tensor,
    step: Option<PartialShape>,
) -> Result<(Tensor, Option<PartialShape>), ValueProblem> {
    let Some(shape) = step.as_ref() else {
        return Ok((tensor, step));
    };
    if tensor.shape().len() >= shape.0.len() {
        return Ok((tensor, step));
    }
    match fit(tensor.shape(), shape) {
        Ok(shape) => {
            let (dtype, _, data) = tensor.into_parts();
            Ok((Tensor::new(dtype, shape, data)?, None))
        }
        // Whoever cuts it into steps says what would do.
        Err(_) => Ok((tensor, step)),
    }
}

/// Cuts numbers with a fraction in a row into steps, as samples of a sound are: zeros follow in the last one.
///
/// Returns the number of these zeros, too. An array of another kind stays as it is.
fn chunked(tensor: Tensor, step: &PartialShape) -> Result<(Tensor, usize), ValueProblem> {
    let (&[count], Some(shape)) = (tensor.shape(), step.fixed()) else {
        return Ok((tensor, 0));
    };
    let each = elements(&shape).unwrap_or(0);
    if count == 0 || each == 0 || shape.len() < 2 || !tensor.dtype().is_float() {
        return Ok((tensor, 0));
    }
    let steps = count.div_ceil(each);
    let zeros = steps * each - count;
    let (dtype, _, data) = tensor.into_parts();
    let data = match zeros {
        0 => data,
        _ => {
            let mut filled = data.to_vec();
            filled.resize(data.len() / count * each * steps, 0);
            filled.into()
        }
    };
    let shape = [&[steps], shape.as_slice()].concat();
    Ok((Tensor::new(dtype, shape, data)?, zeros))
}

impl ValueProblem {
    fn of(self, name: &str) -> InputError {
        InputError::Value {
            name: name.to_owned(),
            problem: self,
        }
    }
}

#[cfg(test)]
mod tests;
