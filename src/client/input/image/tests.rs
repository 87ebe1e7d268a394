use std::io::Cursor;

use bytes::Bytes;
use image::{DynamicImage, ImageFormat, Luma, LumaA, Rgb, RgbImage, Rgba};

use super::{EncodedImage, ImageLayout, ImageLoss, ImageOptions, is_turned};
use crate::tensor::{DataType, Dim, PartialShape, Tensor, values::values};

/// -1 stands for a dimension that may vary.
fn shape(dims: &[i64]) -> PartialShape {
    let dim = |length: &i64| usize::try_from(*length).map_or(Dim::Any, Dim::Fixed);
    PartialShape(dims.iter().map(dim).collect())
}

/// One row: a pixel of 10, 20, 30 and one of 40, 50, 60.
fn two_pixels() -> EncodedImage {
    let mut image = RgbImage::new(2, 1);
    image.put_pixel(0, 0, Rgb([10, 20, 30]));
    image.put_pixel(1, 0, Rgb([40, 50, 60]));
    png(&image)
}

fn png(image: &RgbImage) -> EncodedImage {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).unwrap();
    named("a.png", file.into_inner())
}

fn named(name: &str, bytes: impl Into<Bytes>) -> EncodedImage {
    EncodedImage {
        name: name.to_owned(),
        bytes: bytes.into(),
    }
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    values(tensor).filter_map(|value| value.as_f64()).collect()
}

#[test]
fn colors_become_the_grey_that_others_make_of_them() {
    let mut image = RgbImage::new(5, 1);
    let colors = [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [10, 20, 30],
        [255, 255, 255],
    ];
    for (x, color) in (0..).zip(colors) {
        image.put_pixel(x, 0, Rgb(color));
    }
    let options = ImageOptions::default();
    let grey = options.tensor(
        &png(&image),
        DataType::U8,
        Some(&shape(&[1, 1, 1, 5])),
        &mut Vec::new(),
    );
    // As Pillow's `convert("L")` and OpenCV's `cvtColor` have them.
    assert_eq!(numbers(&grey.unwrap()), [76.0, 150.0, 29.0, 18.0, 255.0]);
}

#[test]
fn pixels_are_laid_out_as_the_shape_tells() {
    let planar = [10.0, 40.0, 20.0, 50.0, 30.0, 60.0];
    let interleaved = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
    let rows: &[(&[i64], &[usize], [f64; 6])] = &[
        (&[1, 3, 1, 2], &[1, 3, 1, 2], planar),
        (&[-1, 3, -1, -1], &[1, 3, 1, 2], planar),
        (&[1, -1, -1, 3], &[1, 1, 2, 3], interleaved),
        (&[3, -1, 2], &[3, 1, 2], planar),
        (&[-1, 2, 3], &[1, 2, 3], interleaved),
    ];
    for (wanted, expected, pixels) in rows {
        for dtype in [DataType::F32, DataType::U8, DataType::F16] {
            let tensor = ImageOptions::default()
                .tensor(&two_pixels(), dtype, Some(&shape(wanted)), &mut Vec::new())
                .unwrap();
            assert_eq!(tensor.shape(), *expected);
            assert_eq!(numbers(&tensor), pixels, "{wanted:?}");
        }
    }
}

#[test]
fn several_images_are_a_batch() {
    let batch = |dims: &[i64], files: &[EncodedImage]| {
        let options = ImageOptions::default();
        options.batch(files, DataType::U8, Some(&shape(dims)), &mut Vec::new())
    };
    let two = [two_pixels(), two_pixels()];
    let tensor = batch(&[-1, -1, -1, 3], &two).unwrap();
    assert_eq!(tensor.shape(), [2, 1, 2, 3]);
    assert_eq!(numbers(&tensor)[6..], [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    let other = [two_pixels(), png(&RgbImage::new(3, 1))];
    assert_eq!(batch(&[-1, 3, 1, 2], &other).unwrap().shape(), [2, 3, 1, 2]);
    let refused =
        |dims: &[i64], files: &[EncodedImage]| batch(dims, files).unwrap_err().to_string();
    insta::assert_snapshot!(refused(&[-1, -1, -1, 3], &other), @"found images of shapes (1,1,2,3) (a.png) and (1,1,3,3) (a.png), expected one size");
    insta::assert_snapshot!(refused(&[-1, -1, 3], &two), @"found 2 images, shape (-1,-1,3) takes one");
}

#[test]
fn a_shape_that_shows_no_layout_has_that_of_the_preset() {
    let usual = |layout| ImageOptions {
        usual_layout: Some(layout),
        ..ImageOptions::default()
    };
    let open = shape(&[-1, -1, -1, -1]);
    let tensor = |options: ImageOptions| {
        options.tensor(&two_pixels(), DataType::U8, Some(&open), &mut Vec::new())
    };
    let planar = tensor(usual(ImageLayout::Nchw)).unwrap();
    assert_eq!(planar.shape(), [1, 3, 1, 2]);
    let interleaved = tensor(usual(ImageLayout::Nhwc)).unwrap();
    assert_eq!(interleaved.shape(), [1, 1, 2, 3]);
    assert!(tensor(usual(ImageLayout::Chw)).is_err());
}

#[test]
fn blue_comes_first_before_means_and_scales_count() {
    let image = ImageOptions {
        layout: Some(ImageLayout::Hwc),
        usual_layout: None,
        mean: vec![30.0, 20.0, 0.0],
        scale: vec![2.0],
        is_bgr: true,
    };
    let tensor = image
        .tensor(&two_pixels(), DataType::F64, None, &mut Vec::new())
        .unwrap();
    assert_eq!(numbers(&tensor), [0.0, 0.0, 5.0, 15.0, 15.0, 20.0]);
}

#[test]
fn whole_numbers_are_rounded_and_clamped() {
    let image = ImageOptions {
        layout: Some(ImageLayout::Hwc),
        mean: vec![20.0],
        scale: vec![0.3],
        ..ImageOptions::default()
    };
    let tensor = image
        .tensor(&two_pixels(), DataType::I8, None, &mut Vec::new())
        .unwrap();
    assert_eq!(numbers(&tensor), [-33.0, 0.0, 33.0, 67.0, 100.0, 127.0]);
}

#[test]
fn a_image_is_resized_to_what_the_model_fixes() {
    let mut image = RgbImage::new(4, 2);
    for (x, _, pixel) in image.enumerate_pixels_mut() {
        *pixel = Rgb([if x < 2 { 0 } else { 100 }; 3]);
    }
    let tensor = ImageOptions::default()
        .tensor(
            &png(&image),
            DataType::F32,
            Some(&shape(&[1, 1, 2, 2])),
            &mut Vec::new(),
        )
        .unwrap();
    // Each pixel takes a little of its neighbour beyond the middle.
    assert_eq!(numbers(&tensor), [14.0, 86.0, 14.0, 86.0]);
}

#[test]
fn without_a_shape_a_image_is_height_width_channels() {
    let tensor = ImageOptions::default().tensor(&two_pixels(), DataType::U8, None, &mut Vec::new());
    let tensor = tensor.unwrap();
    assert_eq!(tensor.shape()[2], 3);
    assert_eq!(tensor.shape()[0] * tensor.shape()[1], 2);
}

#[test]
fn images_are_stacked_where_a_demultiplexer_splits() {
    let shape = PartialShape(vec![
        Dim::Any,
        Dim::Fixed(1),
        Dim::Fixed(3),
        Dim::Fixed(2),
        Dim::Fixed(2),
    ]);
    let options = ImageOptions::default();
    let one = options.tensor(&two_pixels(), DataType::U8, Some(&shape), &mut Vec::new());
    assert_eq!(one.as_ref().unwrap().shape(), [1, 1, 3, 2, 2]);
    let files = [two_pixels(), two_pixels()];
    let two = options
        .batch(&files, DataType::U8, Some(&shape), &mut Vec::new())
        .unwrap();
    assert_eq!(two.shape(), [2, 1, 3, 2, 2]);
    assert!(two.data().starts_with(one.unwrap().data()));
}

#[test]
fn what_does_not_fit_is_refused_with_the_shape() {
    let layout = |layout| ImageOptions {
        layout: Some(layout),
        ..ImageOptions::default()
    };
    let rows: &[(ImageOptions, &[i64], &str)] = &[
        (
            ImageOptions::default(),
            &[1, 3, 224, 3],
            "cannot tell the layout of an image from shape (1,3,224,3)",
        ),
        (
            ImageOptions::default(),
            &[1, 10],
            "cannot tell the layout of an image from shape (1,10)",
        ),
        (
            layout(ImageLayout::Chw),
            &[1, 3, 2, 2],
            "layout CHW does not fit shape (1,3,2,2)",
        ),
        (
            layout(ImageLayout::Nchw),
            &[1, 4, 2, 2],
            "layout NCHW finds 4 channels in shape (1,4,2,2), expected 1 or 3",
        ),
        (
            ImageOptions {
                mean: vec![1.0, 2.0],
                ..ImageOptions::default()
            },
            &[1, 3, -1, -1],
            "found 2 values of mean for 3 channels",
        ),
        (
            ImageOptions {
                scale: vec![0.0],
                ..ImageOptions::default()
            },
            &[1, 3, -1, -1],
            "found 0 as a scale, expected a number to divide by",
        ),
        (
            ImageOptions {
                scale: vec![1.0, f64::NAN, 1.0],
                ..ImageOptions::default()
            },
            &[1, 3, -1, -1],
            "found NaN as a scale, expected a number to divide by",
        ),
        (
            ImageOptions {
                scale: vec![f64::INFINITY],
                ..ImageOptions::default()
            },
            &[1, 3, -1, -1],
            "found inf as a scale, expected a number to divide by",
        ),
        (
            ImageOptions {
                mean: vec![f64::NEG_INFINITY],
                ..ImageOptions::default()
            },
            &[1, 3, -1, -1],
            "found -inf as a mean, expected a number to subtract",
        ),
    ];
    for (image, wanted, expected) in rows {
        let error = image
            .tensor(
                &two_pixels(),
                DataType::F32,
                Some(&shape(wanted)),
                &mut Vec::new(),
            )
            .unwrap_err();
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn an_image_that_cannot_be_decoded_is_named() {
    let options = ImageOptions {
        layout: Some(ImageLayout::Nhwc),
        ..ImageOptions::default()
    };
    let broken = named("b.png", &b"GIF89a"[..]);
    let error = options
        .tensor(&broken, DataType::F32, None, &mut Vec::new())
        .unwrap_err();
    assert_eq!(error.to_string(), "cannot decode b.png");
    for shape in [None, Some(shape(&[-1, 1, 1, 2, 3]))] {
        let files = [two_pixels(), broken.clone()];
        let error = options.batch(&files, DataType::F32, shape.as_ref(), &mut Vec::new());
        assert_eq!(
            error.unwrap_err().to_string(),
            "cannot decode b.png, image 2 of 2"
        );
    }
}

/// Counterpart of the test of the server's decoding: both give the same.
#[test]
fn the_orientation_in_a_jpeg_is_not_applied() {
    let mut file = Cursor::new(Vec::new());
    let image = RgbImage::new(8, 16);
    image.write_to(&mut file, ImageFormat::Jpeg).unwrap();
    let mut file = file.into_inner();
    assert!(!is_turned(&file.clone().into()));
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    file.splice(2..2, exif.iter().copied());
    assert!(is_turned(&file.clone().into()));
    let any = shape(&[1, 3, -1, -1]);
    let tensor = ImageOptions::default().tensor(
        &named("a.jpg", file),
        DataType::U8,
        Some(&any),
        &mut Vec::new(),
    );
    assert_eq!(tensor.unwrap().shape(), [1, 3, 16, 8]);
}

#[test]
fn an_image_that_is_cut_short_is_none() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/images/star.jpg");
    let whole = std::fs::read(path).unwrap();
    let decode = |bytes: &[u8]| {
        let file = named("half.jpg", bytes.to_vec());
        let options = ImageOptions::default();
        options.tensor(
            &file,
            DataType::U8,
            Some(&shape(&[1, 3, -1, -1])),
            &mut Vec::new(),
        )
    };
    assert!(decode(&whole).is_ok());
    for length in [whole.len() / 2, whole.len() - 2] {
        let problem = decode(&whole[..length]).unwrap_err();
        assert_eq!(
            crate::error::chain(&problem),
            "cannot decode half.jpg: found no end of the image: it is cut short"
        );
    }
}

#[test]
fn what_an_image_loses_is_reported() {
    let (bits, clear) = (ImageLoss::Bits, ImageLoss::Transparency);
    for (image, expected) in [
        (
            DynamicImage::ImageRgb8(image::ImageBuffer::from_pixel(2, 1, Rgb([1, 2, 3]))),
            vec![],
        ),
        // A channel of opacity without any transparency.
        (
            DynamicImage::ImageRgba8(image::ImageBuffer::from_pixel(2, 1, Rgba([1, 2, 3, 255]))),
            vec![],
        ),
        (
            DynamicImage::ImageRgba8(image::ImageBuffer::from_pixel(2, 1, Rgba([1, 2, 3, 254]))),
            vec![clear],
        ),
        (
            DynamicImage::ImageLuma16(image::ImageBuffer::from_pixel(2, 1, Luma([9]))),
            vec![bits],
        ),
        (
            DynamicImage::ImageLumaA16(image::ImageBuffer::from_pixel(2, 1, LumaA([9, 0]))),
            vec![bits, clear],
        ),
    ] {
        let mut file = Cursor::new(Vec::new());
        image.write_to(&mut file, ImageFormat::Png).unwrap();
        let file = named("a.png", file.into_inner());
        let (options, any) = (ImageOptions::default(), shape(&[1, 3, -1, -1]));
        let mut losses = Vec::new();
        options
            .tensor(&file, DataType::F32, Some(&any), &mut losses)
            .unwrap();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|it| ("a.png".to_owned(), it))
            .collect();
        assert_eq!(losses, expected, "{:?}", image.color());
    }
}

/// Makes a PNG that says how large it is, and has no pixels.
fn claiming(width: u32, height: u32) -> EncodedImage {
    let mut file = png(&RgbImage::new(1, 1)).bytes.to_vec();
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    named("large.png", file)
}

#[test]
fn images_are_decoded_up_to_a_size() {
    let options = ImageOptions::default();
    let decode = |files: &[EncodedImage], shape: &PartialShape| {
        let mut losses = Vec::new();
        let error = match files {
            [one] => options.tensor(one, DataType::F32, Some(shape), &mut losses),
            files => options.batch(files, DataType::F32, Some(shape), &mut losses),
        };
        crate::error::chain(&error.unwrap_err())
    };
    let fixed = shape(&[1, 3, 4, 4]);
    assert_eq!(
        decode(&[claiming(8193, 8192)], &fixed),
        "large.png has 8193x8192 pixels, expected 67108864 at most"
    );
    assert!(decode(&[claiming(8192, 8192)], &fixed).starts_with("cannot decode large.png: "));
    // The tensor has a limit, too.
    let huge = shape(&[1, 3, 20_000, 20_000]);
    assert_eq!(
        decode(&[two_pixels()], &huge),
        "an image of shape (1,3,20000,20000) needs 4577 MiB, expected 1024 MiB at most"
    );
    let batch = vec![two_pixels(); 3];
    assert_eq!(
        decode(&batch, &shape(&[-1, 3, 6000, 6000])),
        "3 images of shape (1,3,6000,6000) need 1235 MiB, expected 1024 MiB at most"
    );
}
