//! Shapes of a model's inputs: its own, configured ones, or those that a request asks for.

use super::{
    error::ModelLoadError,
    names::{Port, listed},
    options::{BatchOption, LoadOptions, PerTensor, ShapeOption},
};
use crate::tensor::{Dim, Layout, PartialShape};

/// Decides on the shapes of inputs, given in the model's order as clients see them, with their
/// layouts. `None` leaves an input its own shape.
pub(super) fn decide(
    inputs: &[Port<'_>],
    layouts: &[Layout],
    options: &LoadOptions,
    asked: &[(String, Vec<usize>)],
) -> Result<Vec<Option<PartialShape>>, ModelLoadError> {
    let mut shapes = vec![None; inputs.len()];
    let asked_for = |name: &str| {
        let found = asked.iter().find(|(asked, _)| asked == name);
        found.map(|(_, shape)| shape.as_slice())
    };
    if options.batch.is_some() && options.shapes != PerTensor::Unset {
        tracing::warn!("shape and batch_size are both set; batch_size is ignored");
    }
    match &options.shapes {
        PerTensor::Unset => {
            let Some(batch) = options.batch else {
                return Ok(shapes);
            };
            for ((shape, input), layout) in shapes.iter_mut().zip(inputs).zip(layouts) {
                let axis = batch_axis(input, layout)?;
                let length = match batch {
                    BatchOption::Dim(dim) => Some(dim),
                    BatchOption::Auto => asked_for(&input.public)
                        .and_then(|asked| asked.get(axis).copied())
                        .map(Dim::Fixed),
                };
                if let (Some(length), Some(mut own)) = (length, input.shape.clone()) {
                    own.0[axis] = length;
                    *shape = Some(own);
                }
            }
        }
        PerTensor::Anonymous(ShapeOption::Dims(shape)) => match shapes.as_mut_slice() {
            [only] => *only = Some(shape.clone()),
            _ => {
                return Err(ModelLoadError::unfit(format!(
                    "Anonymous fixed shape is invalid for models with multiple inputs - the model \
                     has: {}; give each its shape by name",
                    listed(inputs)
                )));
            }
        },
        PerTensor::Anonymous(ShapeOption::Auto) => {
            for (shape, input) in shapes.iter_mut().zip(inputs) {
                *shape = asked_for(&input.public).map(PartialShape::of);
            }
        }
        PerTensor::Named(named) => {
            for (name, option) in named {
                let Some(port) = inputs.iter().position(|input| input.public == *name) else {
                    return Err(unknown(name, inputs));
                };
                shapes[port] = match option {
                    ShapeOption::Dims(shape) => Some(shape.clone()),
                    ShapeOption::Auto => asked_for(name).map(PartialShape::of),
                };
            }
        }
    }
    Ok(shapes)
}

fn batch_axis(input: &Port<'_>, layout: &Layout) -> Result<usize, ModelLoadError> {
    let axis = input.rank().and_then(|rank| layout.axis('N', rank));
    axis.ok_or_else(|| {
        let shape = input.shape.as_ref();
        let shape = shape.map_or_else(|| "of any rank".to_owned(), ToString::to_string);
        ModelLoadError::unfit(format!(
            "Invalid batch dimension in shape - input `{}` has no batch dimension: shape {shape}, \
             layout {layout}",
            input.public
        ))
    })
}

/// Explains that no input has a public name.
fn unknown(name: &str, inputs: &[Port<'_>]) -> ModelLoadError {
    ModelLoadError::unfit(match inputs.iter().find(|input| input.own == *name) {
        Some(input) => format!(
            "Shape from config has real name. Use mapped name instead - `{name}` is mapped to `{}`",
            input.public
        ),
        None => format!(
            "Shape from config not found in model - no input `{name}`; the model has: {}",
            listed(inputs)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::decide;
    use crate::{
        openvino::{
            names::Port,
            options::{BatchOption, LoadOptions, PerTensor, ShapeOption},
        },
        tensor::{Dim, Layout, PartialShape},
    };

    fn port(own: &str, public: &str, shape: &[usize]) -> Port<'static> {
        Port {
            own: own.to_owned(),
            public: public.to_owned(),
            shape: Some(PartialShape::of(shape)),
            layout: None,
        }
    }

    /// Inputs `a` (2,3) and `img` (1,8,3), which the model calls `x`.
    fn two() -> (Vec<Port<'static>>, Vec<Layout>) {
        (
            vec![port("a", "a", &[2, 3]), port("x", "img", &[1, 8, 3])],
            ["CN", "N..."]
                .map(|layout| Layout::parse(layout).unwrap())
                .to_vec(),
        )
    }

    /// Decides for the two inputs and prints.
    fn decided(options: LoadOptions, asked: &[(&str, &[usize])]) -> String {
        let (inputs, layouts) = two();
        let asked: Vec<(String, Vec<usize>)> = asked
            .iter()
            .map(|(name, shape)| ((*name).to_owned(), shape.to_vec()))
            .collect();
        match decide(&inputs, &layouts, &options, &asked) {
            Ok(shapes) => {
                let shapes: Vec<String> = shapes
                    .iter()
                    .map(|shape| {
                        shape
                            .as_ref()
                            .map_or_else(|| "own".to_owned(), ToString::to_string)
                    })
                    .collect();
                shapes.join(" ")
            }
            Err(error) => error.to_string(),
        }
    }

    fn shapes(shapes: PerTensor<ShapeOption>) -> LoadOptions {
        LoadOptions {
            shapes,
            ..LoadOptions::default()
        }
    }

    fn batch(batch: BatchOption) -> LoadOptions {
        LoadOptions {
            batch: Some(batch),
            ..LoadOptions::default()
        }
    }

    fn named(list: &[(&str, ShapeOption)]) -> LoadOptions {
        let list = list
            .iter()
            .map(|(name, shape)| ((*name).to_owned(), shape.clone()));
        shapes(PerTensor::Named(list.collect()))
    }

    fn dims(dims: &[Dim]) -> ShapeOption {
        ShapeOption::Dims(PartialShape(dims.to_vec()))
    }

    #[test]
    fn shapes_are_the_models_own_unless_they_are_set() {
        assert_eq!(decided(LoadOptions::default(), &[]), "own own");
        assert_eq!(
            decided(
                named(&[("img", dims(&[Dim::Any, Dim::Range(1, 8), Dim::Fixed(3)]))]),
                &[]
            ),
            "own (-1,[1~8],3)"
        );
    }

    #[test]
    fn auto_shapes_are_those_asked_for() {
        let all = || shapes(PerTensor::Anonymous(ShapeOption::Auto));
        assert_eq!(decided(all(), &[]), "own own");
        assert_eq!(decided(all(), &[("img", &[4, 8, 3])]), "own (4,8,3)");
        assert_eq!(
            decided(
                named(&[
                    ("img", ShapeOption::Auto),
                    ("a", dims(&[Dim::Fixed(5), Dim::Any]))
                ]),
                &[("img", &[2, 2, 2]), ("a", &[9, 9])]
            ),
            "(5,-1) (2,2,2)"
        );
    }

    #[test]
    fn the_batch_is_where_the_layout_has_it() {
        assert_eq!(
            decided(batch(BatchOption::Dim(Dim::Range(1, 4))), &[]),
            "(2,[1~4]) ([1~4],8,3)"
        );
        assert_eq!(decided(batch(BatchOption::Auto), &[]), "own own");
        assert_eq!(
            decided(
                batch(BatchOption::Auto),
                &[("img", &[7, 1, 1]), ("a", &[9, 7])]
            ),
            "(2,7) (7,8,3)"
        );
        let mut both = named(&[("a", dims(&[Dim::Any, Dim::Any]))]);
        both.batch = Some(BatchOption::Auto);
        assert_eq!(decided(both, &[("a", &[7, 7])]), "(-1,-1) own");
    }

    #[test]
    fn each_error_has_its_text() {
        let one = || dims(&[Dim::Fixed(1)]);
        let errors = [
            decided(shapes(PerTensor::Anonymous(one())), &[]),
            decided(named(&[("b", one())]), &[]),
            decided(named(&[("x", one())]), &[]),
        ];
        insta::assert_snapshot!(errors.join("\n"), @"
        Anonymous fixed shape is invalid for models with multiple inputs - the model has: a, img; give each its shape by name
        Shape from config not found in model - no input `b`; the model has: a, img
        Shape from config has real name. Use mapped name instead - `x` is mapped to `img`
        ");
    }

    #[test]
    fn a_scalar_has_no_batch() {
        let inputs = [port("x", "x", &[])];
        for option in [BatchOption::Auto, BatchOption::Dim(Dim::Fixed(2))] {
            let refused = decide(&inputs, &[Layout::unspecified(0)], &batch(option), &[]);
            let error = refused.unwrap_err();
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @"Invalid batch dimension in shape - input `x` has no batch dimension: shape (), layout ...");
            }
        }
    }
}
