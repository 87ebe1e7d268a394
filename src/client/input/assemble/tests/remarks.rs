//! Remarks on inputs, and the files of images.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{content, model, text};
use crate::{
    client::{
        ModelMetadata, ModelProperties,
        input::{
            Argument, ImageOptions, SoundCut,
            assemble::{Content, EncodedImage, Given, Inputs},
            audio::Sound,
        },
    },
    tensor::{DataType, Tensor},
};

/// Makes a PNG file of one color.
fn png(columns: u32, rows: u32) -> EncodedImage {
    let file = image::RgbImage::from_pixel(columns, rows, image::Rgb([10, 20, 30]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    file.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    EncodedImage {
        name: "a.png".to_owned(),
        bytes: bytes.into_inner().into(),
    }
}

#[test]
fn a_row_of_floats_is_cut_into_steps_as_a_sound_is() {
    let row = |dtype: DataType, count: usize| {
        let bytes = vec![1; count * dtype.size().unwrap()];
        Content::Array(Tensor::new(dtype, vec![count], bytes.into()).unwrap())
    };
    for (content_of, datatype, shape, expected, note) in [
        (
            row(DataType::F32, 5),
            "FP32",
            [1, 2],
            vec![3, 1, 2],
            "input `x` is sent in 3 steps, the last padded with 1 zero",
        ),
        (row(DataType::F16, 4), "FP16", [1, 2], vec![2, 1, 2], ""),
        // What fills the model's shape goes with every step.
        (row(DataType::F32, 2), "FP32", [1, 2], vec![1, 2], ""),
        (row(DataType::I32, 5), "INT32", [1, 2], vec![5], ""),
        (row(DataType::F32, 5), "FP32", [-1, 2], vec![5], ""),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(None, None, content_of);
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        let whole = inputs.whole(&model(&[("x", datatype, &shape)])).unwrap();
        assert_eq!(whole[0].tensor.shape(), expected);
        assert_eq!(notes.lock().join(""), note);
        if !note.is_empty() {
            assert!(whole[0].tensor.data().ends_with(&[1, 1, 1, 1, 0, 0, 0, 0]));
        }
    }
}

#[test]
fn images_that_a_server_prepares_too_are_reported() {
    let pixel = png(1, 1);
    for (images, image, expected) in [
        (
            "",
            ImageOptions {
                mean: vec![1.0],
                ..ImageOptions::default()
            },
            "",
        ),
        ("mean scale", ImageOptions::default(), ""),
        (
            "mean",
            ImageOptions {
                mean: vec![9.0],
                ..ImageOptions::default()
            },
            "the server prepares images for input `x` with a mean or a scale of its own, so pixels are prepared \
             twice: leave out `--preset`, `--mean`, and `--scale`",
        ),
        (
            "bgr",
            ImageOptions::default(),
            "the server takes images for input `x` with blue before red, and this one is sent with red first: add `--bgr`",
        ),
        (
            "bgr scale",
            ImageOptions {
                is_bgr: true,
                ..ImageOptions::default()
            },
            "",
        ),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let mut inputs = content(None, None, Content::Image(pixel.clone()));
        inputs.image = image;
        let inputs = inputs.on_remark(move |it| {
            assert!(it.is_warning());
            heard.lock().push(it.to_string());
        });
        let mut model = model(&[("x", "FP32", &[1, 3, 4, 4])]);
        let properties = [("images".to_owned(), images.to_owned())];
        model.properties = ModelProperties::new(properties.iter().map(|(name, text)| (name, text)));
        inputs.whole(&model).unwrap();
        assert_eq!(notes.lock().join(""), expected, "{images}");
    }
}

#[test]
fn an_image_that_is_sent_as_its_file_is_prepared_by_the_server_alone() {
    let bytes = png(1, 1);
    for (dtype, model_type, shape) in [
        (Some(DataType::String), "FP32", &[1, 3, 4, 4][..]),
        (None, "BYTES", &[-1]),
        (None, "-", &[-1]),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(None, dtype, Content::Image(bytes.clone()));
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.is_warning()));
        let mut model = model(&[("x", model_type, shape)]);
        let properties = [("images".to_owned(), "bgr mean".to_owned())];
        model.properties = ModelProperties::new(properties.iter().map(|(name, text)| (name, text)));
        inputs.tensors(&model).unwrap();
        assert!(!notes.lock().contains(&true), "{model_type}");
    }
}

#[test]
fn elements_that_are_no_numbers_are_reported_once_for_each_input() {
    let model = model(&[("x", "FP32", &[-1])]);
    for (value, expected) in [
        ("[1,NaN]", "input `x` has 1 NaN"),
        ("[NaN,1,NaN]", "input `x` has 2 NaNs"),
        ("[1,Infinity]", "input `x` has 1 infinite number"),
        (
            "[-Infinity,NaN,Infinity]",
            "input `x` has 1 NaN;input `x` has 2 infinite numbers",
        ),
        ("[1,2]", ""),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(None, None, Content::Json(value.to_owned()));
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        inputs.tensors(&model).unwrap();
        inputs.tensors(&model).unwrap();
        assert_eq!(notes.lock().join(";"), expected);
    }
}

#[test]
fn sounds_that_are_filled_or_cut_short_are_reported() {
    let x = model(&[("x", "FP32", &[1, 4])]);
    let sound = |samples: usize, found: Option<u64>| Sound {
        cut: found.map(|found| SoundCut { expected: 8, found }),
        ..Sound::raw(vec![0.5; samples])
    };
    let notes_of = |inputs: Inputs, make: &dyn Fn(&Inputs)| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        make(&inputs.on_remark(move |it| heard.lock().push(it.to_string())));
        notes.lock().join("; ")
    };
    for (sound, expected) in [
        (
            sound(6, None),
            "input `x` is sent in 2 steps, the last padded with 2 zeros",
        ),
        (
            sound(3, None),
            "input `x` is sent in 1 step, padded with 1 zero",
        ),
        (sound(8, None), ""),
        (
            sound(4, Some(6)),
            "the sound is truncated: its header says 8 bytes of samples, it has 6; those are sent",
        ),
    ] {
        let inputs = content(None, None, Content::Samples(sound));
        let notes = notes_of(inputs, &|inputs| drop(inputs.whole(&x).unwrap()));
        assert_eq!(notes, expected);
    }
    // As they come, nobody knows how many steps there are.
    let only = Argument::default();
    for (samples, expected) in [
        (3, "the last step of input `x` is padded with 1 zero"),
        (2, "the last step of input `x` is padded with 2 zeros"),
        (4, ""),
    ] {
        let notes = notes_of(content(None, None, Content::Fill), &|inputs| {
            drop(inputs.with_samples(&only, vec![0.5; samples], &x).unwrap());
        });
        assert_eq!(notes, expected);
    }
}

/// Returns the notes on samples of a sound, as a whole and as they come.
fn loudness(samples: &[f32]) -> [String; 2] {
    let x = model(&[("x", "FP32", &[1, 2])]);
    let heard_of = |inputs: Inputs, hear: &dyn Fn(&Inputs)| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        hear(&inputs.on_remark(move |it| heard.lock().push(it.to_string())));
        notes.lock().join("; ")
    };
    let sound = Content::Samples(Sound::raw(samples.to_vec()));
    let whole = heard_of(content(None, None, sound), &|_| {});
    let coming = heard_of(content(None, None, Content::Fill), &|inputs| {
        for step in samples.chunks(2) {
            let heard = inputs.with_samples(&Argument::default(), step.to_vec(), &x);
            heard.unwrap();
        }
    });
    [whole, coming]
}

#[test]
fn samples_far_outside_of_their_range_are_reported_once() {
    assert_eq!(loudness(&[0.5, -1.0, 1.5, f32::NAN]), ["", ""]);
    let note = "the sound has samples up to 8192, far outside of -1 to 1, and is sent as it is: samples of 16 bits are \
                read with `-:pcm16` or as `@FILE.pcm`";
    assert_eq!(loudness(&[8.0, 8192.0, 4.5, -5.0]), [note, note]);
}

#[test]
fn what_follows_the_samples_of_a_file_is_reported() {
    let sound = Sound {
        goes_on: true,
        ..Sound::raw(vec![0.5])
    };
    let notes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notes);
    let inputs = content(None, None, Content::Samples(sound));
    let inputs = inputs.on_remark(move |it| heard.lock().push((it.is_warning(), it.to_string())));
    let note = "standard input continues after the samples that its header announces, and the rest is left out: several \
                WAV files in a row are not one sound";
    drop(inputs);
    assert_eq!(*notes.lock(), [(true, note.to_owned())]);
}

#[test]
fn arrays_that_take_the_shape_of_the_model_are_reported() {
    let array = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        Tensor::new(DataType::F32, shape.to_vec(), vec![0; 4 * count].into()).unwrap()
    };
    let notes = |content_of: Content, shape: Option<Vec<usize>>| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let mut inputs = content(None, None, content_of);
        inputs.given[0].argument.shape = shape;
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        for _ in 0..2 {
            inputs.tensors(&model(&[("x", "FP32", &[1, 4])])).unwrap();
        }
        notes.lock().join("; ")
    };
    let note = "(4) is sent as (1,4) for input `x`";
    assert_eq!(notes(Content::Array(array(&[4])), None), note);
    let several = vec![("x".to_owned(), array(&[4]))];
    assert_eq!(notes(Content::Arrays(several), None), note);
    // What has the shape, what was asked for, and a list.
    assert_eq!(notes(Content::Array(array(&[1, 4])), None), "");
    assert_eq!(notes(Content::Array(array(&[4])), Some(vec![1, 4])), "");
    assert_eq!(notes(Content::Json("[1,2,3,4]".to_owned()), None), "");
}

#[test]
fn what_images_lose_is_reported_once() {
    let clear = image::RgbaImage::from_pixel(2, 1, image::Rgba([1, 2, 3, 0]));
    let deep = image::ImageBuffer::from_pixel(2, 1, image::Luma([9_u16]));
    let file = |name: &str, image: image::DynamicImage| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        EncodedImage {
            name: name.to_owned(),
            bytes: bytes.into_inner().into(),
        }
    };
    let images = vec![
        file("a.png", clear.clone().into()),
        file("b.png", deep.into()),
        file("c.png", clear.into()),
    ];
    let notes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notes);
    let inputs = content(None, None, Content::Images(images.clone()));
    let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
    inputs
        .tensors(&model(&[("x", "FP32", &[-1, 3, 1, 2])]))
        .unwrap();
    assert_eq!(
        *notes.lock(),
        [
            "a.png is partly transparent, and the colors below are used: `magick a.png -background white -flatten \
             FILE.png` puts it on white",
            "b.png has 16 bits a channel, and is sent with 8, as values from 0 to 255"
        ]
    );
}

/// Images as the server decodes them: it neither scales 16 bits nor has room for transparency in three channels.
#[test]
fn what_the_server_changes_of_encoded_images_is_reported() {
    let png = |image: image::DynamicImage, name: &str| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        EncodedImage {
            name: name.to_owned(),
            bytes: bytes.into_inner().into(),
        }
    };
    let images = vec![
        png(image::RgbaImage::new(2, 1).into(), "a.png"),
        png(image::DynamicImage::new_rgb16(2, 1), "b.png"),
        png(image::DynamicImage::new_rgb8(2, 1), "c.png"),
    ];
    let clear = "a.png is partly transparent, and the colors below are used: `magick a.png -background white \
                 -flatten FILE.png` puts it on white";
    let deep = "b.png has 16 bits a channel, which the server takes as values from 0 to 65535: `magick b.png -depth 8 \
                FILE.png` makes it 0 to 255";
    let cut = "b.png has 16 bits a channel, which the server takes as values from 0 to 65535, cut off at 255: `magick \
               b.png -depth 8 FILE.png` makes it 0 to 255";
    for (datatype, shape, expected) in [
        ("FP32", &[-1, 1, 2, 3][..], vec![clear, deep]),
        ("UINT8", &[-1, 1, 2, 3], vec![clear, cut]),
        // Four channels keep transparency, and what a model of texts does with them is its own.
        ("FP32", &[-1, 1, 2, 4], vec![deep]),
        ("BYTES", &[-1], vec![]),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(
            None,
            Some(DataType::String),
            Content::Images(images.clone()),
        );
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        inputs.tensors(&model(&[("x", datatype, shape)])).unwrap();
        assert_eq!(*notes.lock(), expected, "{datatype} {shape:?}");
    }
}

#[test]
fn numbers_in_a_row_are_cut_into_steps_from_any_file() {
    let table = || Content::Rows("1\n2\n3\n4\n5\n".into());
    for content_of in [
        table(),
        Content::Json("[1,2,3,4,5]".to_owned()),
        Content::Piped("[1,2,3,4,5]".to_owned()),
        Content::Text("1 2 3 4 5".into()),
        Content::Arrays(vec![(
            "x".to_owned(),
            Tensor::new(DataType::F32, vec![5], vec![0; 20].into()).unwrap(),
        )]),
    ] {
        let inputs = content(None, None, content_of);
        let whole = inputs.whole(&model(&[("x", "FP32", &[1, 2])])).unwrap();
        assert_eq!(whole[0].tensor.shape(), [3, 1, 2]);
    }
}

#[test]
fn names_of_columns_are_reported_where_they_are_left_out() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notes);
    let inputs = content(None, None, Content::Rows("age,height\n1,2\n".into()));
    let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
    inputs.tensors(&model(&[("x", "FP32", &[-1, 2])])).unwrap();
    assert_eq!(
        *notes.lock(),
        [
            "the first line of standard input is taken as the names of columns, from `age` on, and left out"
        ]
    );
}

#[test]
fn channels_that_are_mixed_and_rates_that_are_unusual_are_reported() {
    let notes_of = |rate: u32, channels: usize, wanted: Option<u32>| {
        let sound = Sound {
            rate: Some(rate),
            channels,
            ..Sound::raw(vec![0.5; 4])
        };
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(None, None, Content::Samples(sound)).at_rate(wanted);
        let inputs = inputs.map_err(|error| error.to_string())?;
        drop(inputs.on_remark(move |it| heard.lock().push((it.is_warning(), it.to_string()))));
        let notes = notes.lock().clone();
        Ok::<_, String>(notes)
    };
    let mixed = (
        false,
        "the sound has 2 channels, which are mixed into one".to_owned(),
    );
    let unusual = (
        true,
        "the sound has 44100 Hz and is sent as it is: a model of another rate, as of speech mostly 16000 Hz, answers \
         wrongly; `ffmpeg -i in.wav -ar 16000 -ac 1 out.wav` resamples, and `--sample-rate 44100` says that the model \
         takes this one"
            .to_owned(),
    );
    assert_eq!(notes_of(16_000, 1, None), Ok(vec![]));
    assert_eq!(notes_of(44_100, 2, None), Ok(vec![mixed.clone(), unusual]));
    assert_eq!(notes_of(44_100, 2, Some(44_100)), Ok(vec![mixed]));
    let error = "the sound has 44100 Hz, expected 16000 Hz as the model takes";
    assert_eq!(notes_of(44_100, 1, Some(16_000)), Err(error.to_owned()));
}

#[test]
fn images_of_one_input_have_their_files() {
    let images = ["a.png", "b.png"].map(|name| EncodedImage {
        name: name.to_owned(),
        bytes: b"encoded".as_slice().into(),
    });
    let x = model(&[("x", "BYTES", &[-1])]);
    let inputs = content(None, None, Content::Images(images.to_vec()));
    assert_eq!(inputs.image_files(&x), ["a.png", "b.png"]);
    let none = content(None, None, Content::Inline("[1]".to_owned()));
    assert!(none.image_files(&x).is_empty());
    // Rows of two inputs are of two files.
    let mut both = content(Some("x"), None, Content::Image(images[0].clone()));
    both.given.push(Given {
        argument: "y=@b.png".parse().unwrap(),
        content: Content::Image(images[1].clone()),
    });
    let two = model(&[("x", "BYTES", &[-1]), ("y", "BYTES", &[-1])]);
    assert!(both.image_files(&two).is_empty());
}

#[test]
fn what_cannot_be_done_to_pixels_is_reported() {
    let encoded = png(2, 1);
    let prepared = ImageOptions {
        mean: vec![1.0],
        scale: vec![2.0],
        ..ImageOptions::default()
    };
    let of_unit = ImageOptions {
        mean: vec![0.485, 0.456, 0.406],
        scale: vec![0.229, 0.224, 0.225],
        ..ImageOptions::default()
    };
    // As OpenCV takes it, which multiplies.
    let factor = ImageOptions {
        scale: vec![1.0 / 255.0],
        ..ImageOptions::default()
    };
    let advice = "`--scale` divides: for values from 0 to 1 use `--scale 255`, or `--preset unit`";
    let both = ImageOptions {
        mean: vec![0.5],
        ..factor.clone()
    };
    let shape: &[i64] = &[1, 3, 1, 2];
    for (dtype, image, expected) in [
        ("FP32", &factor, advice),
        ("FP32", &both, advice),
        ("FP32", &of_unit, "such as `--preset imagenet`"),
        (
            "BYTES",
            &prepared,
            "mean, scale, layout, and order of channels do not apply",
        ),
        ("BYTES", &ImageOptions::default(), ""),
        ("UINT8", &prepared, "rounded to whole numbers"),
        ("UINT8", &ImageOptions::default(), ""),
        ("FP32", &prepared, ""),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let mut inputs = content(None, None, Content::Image(encoded.clone()));
        inputs.image = image.clone();
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        let shape = if dtype == "BYTES" { &[-1] } else { shape };
        inputs.tensors(&model(&[("photo", dtype, shape)])).unwrap();
        let notes = notes.lock().join("; ");
        assert!(notes.contains(expected), "{dtype}: {notes}");
        assert_eq!(notes == advice, expected == advice, "{dtype}: {notes}");
        assert_eq!(notes.is_empty(), expected.is_empty(), "{dtype}: {notes}");
    }
}

#[test]
fn what_is_for_pixels_is_reported_where_no_input_is_an_image() {
    let prepared = ImageOptions {
        scale: vec![255.0],
        ..ImageOptions::default()
    };
    let array = Tensor::new(DataType::F32, vec![1, 2], vec![0; 8].into()).unwrap();
    for (image, expected) in [(prepared, 1), (ImageOptions::default(), 0)] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let mut inputs = content(None, None, Content::Array(array.clone()));
        inputs.image = image;
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        for _ in 0..2 {
            inputs.tensors(&model(&[("x", "FP32", &[1, 2])])).unwrap();
        }
        let notes = notes.lock();
        assert_eq!(notes.len(), expected, "{notes:?}");
        assert!(notes.iter().all(|it| it == NO_IMAGE), "{notes:?}");
    }
}

/// Note on flags of images without any image.
const NO_IMAGE: &str =
    "no input is an image: preset, mean, scale, layout, and channel order have no effect";

#[test]
fn of_many_requests_one_with_an_image_is_enough() {
    let prepared = ImageOptions {
        scale: vec![255.0],
        ..ImageOptions::default()
    };
    let array = || Content::Array(Tensor::new(DataType::F32, vec![1], vec![0; 4].into()).unwrap());
    let photo = || {
        Content::Image(EncodedImage {
            name: "a.png".to_owned(),
            bytes: b"encoded".as_slice().into(),
        })
    };
    let x = model(&[("x", "", &[])]);
    for (contents, expected) in [
        (vec![array(), photo(), array()], &[][..]),
        (vec![array(), array()], &[NO_IMAGE]),
        (Vec::new(), &[]),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let mut inputs = content(None, None, Content::Fill);
        inputs.given.clear();
        inputs.image = prepared.clone();
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        for content in contents {
            let mut one = inputs.of_many();
            one.given.push(Given {
                argument: Argument::default(),
                content,
            });
            one.given(&x).unwrap();
        }
        inputs.hear_of_end();
        let mut notes = notes.lock().clone();
        notes.retain(|it| !it.starts_with("the datatype of input"));
        assert_eq!(notes, expected);
    }
}

#[test]
fn a_note_says_that_an_image_without_a_datatype_is_sent_as_a_file() {
    let image = || {
        Content::Image(EncodedImage {
            name: "a.png".to_owned(),
            bytes: b"encoded".as_slice().into(),
        })
    };
    let open = model(&[("photo", "", &[])]);
    for (dtype, of, expected) in [
        (None, &open, true),
        (Some(DataType::String), &open, false),
        (None, &model(&[("photo", "BYTES", &[-1])]), false),
    ] {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = content(None, dtype, image());
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        for _ in 0..2 {
            let made = inputs.tensors(of).unwrap();
            assert!(text(&made).starts_with("photo BYTES"), "{}", text(&made));
        }
        let note = "the datatype of input `photo` is unknown, so the image is sent as the bytes of its file; \
                    `-i photo:UINT8=@FILE` sends its pixels";
        let expected: &[&str] = if expected { &[note] } else { &[] };
        assert_eq!(*notes.lock(), expected);
    }
}

#[test]
fn a_note_says_that_numbers_without_a_datatype_are_sent_as_a_text() {
    let open = model(&[("x", "", &[])]);
    let notes = |argument: &str, of: &ModelMetadata| {
        let notes = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&notes);
        let inputs = super::load(&[argument], None, "");
        let inputs = inputs.on_remark(move |it| heard.lock().push(it.to_string()));
        for _ in 0..2 {
            inputs.tensors(of).unwrap();
        }
        notes.lock().join("; ")
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let note = |value: &str| {
        format!(
            "the datatype of input `x` is unknown, so the numbers are sent as a text; `-i 'x:FP32={value}'` sends \
             them as numbers"
        )
    };
    let (rows, words) = (file("a.csv", "1,2\n3,4\n"), file("b.txt", "1 2\n-3e4"));
    for (value, expected) in [
        ("1,2,3".to_owned(), "[1,2,3]".to_owned()),
        ("0.5 -1e3".to_owned(), "[0.5,-1e3]".to_owned()),
        // What JSON does not have, and what is long.
        ("+1,.5".to_owned(), "[…]".to_owned()),
        (["12345"; 20].join(","), "[…]".to_owned()),
        (format!("@{rows}"), format!("@{rows}")),
        (format!("@{words}"), format!("@{words}")),
    ] {
        assert_eq!(notes(&format!("x={value}"), &open), note(&expected));
    }
    let prose = file("c.txt", "3 dogs, 2 cats");
    for argument in [
        "x=5",
        "x=[1,2,3]",
        "x=1.2.3",
        "x=2 dogs",
        "x=nan inf",
        "x=\"1,2,3\"",
        "x:BYTES=1,2,3",
        &format!("x=@{prose}"),
    ] {
        assert_eq!(notes(argument, &open), "", "{argument}");
    }
    assert_eq!(notes("x=1,2", &model(&[("x", "BYTES", &[-1])])), "");
}
