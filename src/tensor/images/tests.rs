//! The numbers that come out, against those worked out by hand and against OpenCV's.

use std::io::Cursor;

use bytes::Bytes;
use image::{DynamicImage, ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use proptest::prelude::*;

use super::{ImageError, ImageTensor, PixelLimit, takes_images};
use crate::{
    budget::Budget,
    error::chain,
    tensor::{
        Tensor,
        dtype::DataType,
        layout::Layout,
        shape::{Dim, PartialShape},
        strings::{Strings, push},
        values::values,
    },
};

/// A sample of the image that the tests draw.
fn sample(row: usize, column: usize, channel: usize) -> u8 {
    u8::try_from((row * 37 + column * 61 + channel * 101 + row * column * 17) % 256).unwrap()
}

/// The image as samples, its channels in the order blue, green, red.
fn drawn(height: usize, width: usize, channels: usize) -> Vec<u8> {
    let mut samples = Vec::new();
    for row in 0..height {
        for column in 0..width {
            samples.extend((0..channels).map(|channel| sample(row, column, channel)));
        }
    }
    samples
}

fn png(samples: &[u8], width: u32, height: u32, color: ExtendedColorType) -> Vec<u8> {
    let mut file = Vec::new();
    PngEncoder::new(&mut file)
        .write_image(samples, width, height, color)
        .unwrap();
    file
}

/// The image as a PNG file.
fn drawn_png(height: usize, width: usize, channels: usize) -> Vec<u8> {
    let mut samples = drawn(height, width, channels);
    let color = match channels {
        1 => ExtendedColorType::L8,
        3 => {
            samples
                .chunks_exact_mut(3)
                .for_each(|pixel| pixel.reverse());
            ExtendedColorType::Rgb8
        }
        _ => unreachable!("the tests draw no other"),
    };
    let length = |length| u32::try_from(length).unwrap();
    png(&samples, length(width), length(height), color)
}

fn list(files: &[&[u8]]) -> Strings {
    let mut framed = Vec::new();
    for file in files {
        push(&mut framed, file).unwrap();
    }
    Strings::new(framed.into()).unwrap()
}

fn fixed(lengths: [usize; 4]) -> PartialShape {
    PartialShape(lengths.map(Dim::Fixed).into())
}

/// Fills a tensor of a type and shape; returns its shape and elements.
fn fill(
    dtype: DataType,
    shape: &PartialShape,
    layout: &str,
    files: &[&[u8]],
) -> Result<(Vec<usize>, Vec<f64>), String> {
    let layout = Layout::parse(layout).unwrap();
    let tensor = ImageTensor {
        dtype,
        shape,
        layout: &layout,
    };
    let (shape, data) = tensor
        .fill(&list(files), PixelLimit::default(), &Budget::default())
        .map_err(|error| chain(&error))?;
    let tensor = Tensor::new(dtype, shape.clone(), data).expect("shape and data agree");
    let elements = values(&tensor).map(|value| value.as_f64().unwrap());
    Ok((shape, elements.collect()))
}

fn filled(dtype: DataType, shape: &PartialShape, files: &[&[u8]]) -> Vec<f64> {
    fill(dtype, shape, "NHWC", files).unwrap().1
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.iter().copied().map(f64::from).collect()
}

#[test]
fn channels_come_blue_first() {
    // One red pixel and one blue.
    let file = png(&[255, 1, 2, 3, 4, 250], 2, 1, ExtendedColorType::Rgb8);
    let got = filled(DataType::U8, &fixed([1, 1, 2, 3]), &[&file]);
    assert_eq!(got, [2.0, 1.0, 255.0, 250.0, 4.0, 3.0]);
}

#[test]
fn every_type_has_the_samples_unscaled() {
    let file = drawn_png(2, 3, 3);
    let expected = doubles(&drawn(2, 3, 3));
    for dtype in [
        DataType::F32,
        DataType::F64,
        DataType::F16,
        DataType::I16,
        DataType::U8,
        DataType::U16,
        DataType::I32,
    ] {
        let got = filled(dtype, &fixed([1, 2, 3, 3]), &[&file]);
        assert_eq!(got, expected, "{dtype}");
    }
    // INT8 ends at 127.
    let clamped: Vec<f64> = expected.iter().map(|sample| sample.min(127.0)).collect();
    assert_eq!(
        filled(DataType::I8, &fixed([1, 2, 3, 3]), &[&file]),
        clamped
    );
    for dtype in [
        DataType::I64,
        DataType::U32,
        DataType::U64,
        DataType::Bool,
        DataType::Bf16,
    ] {
        let refused = fill(dtype, &fixed([1, 2, 3, 3]), "NHWC", &[&file]).unwrap_err();
        assert_eq!(refused, format!("found a tensor of {dtype}"));
    }
}

#[test]
fn sixteen_bits_stay_as_they_are_and_end_where_the_type_does() {
    let words = [0_u16, 255, 256, 32767, 32768, 65535];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let file = png(&bytes, 6, 1, ExtendedColorType::L16);
    let got = |dtype| filled(dtype, &fixed([1, 1, 6, 1]), &[&file]);
    let all = words.map(f64::from);
    assert_eq!(got(DataType::U16), all);
    assert_eq!(got(DataType::F32), all);
    assert_eq!(got(DataType::I32), all);
    assert_eq!(
        got(DataType::I16),
        [0.0, 255.0, 256.0, 32767.0, 32767.0, 32767.0]
    );
    assert_eq!(got(DataType::U8), [0.0, 255.0, 255.0, 255.0, 255.0, 255.0]);
    // Half precision ends at 65504 and has every 32nd number near it.
    assert_eq!(
        got(DataType::F16),
        [0.0, 255.0, 256.0, 32768.0, 32768.0, 65504.0]
    );
}

#[test]
fn alpha_is_left_out_unless_the_tensor_has_a_place_for_it() {
    let rgba = png(&[1, 2, 3, 40, 5, 6, 7, 80], 2, 1, ExtendedColorType::Rgba8);
    let three = filled(DataType::U8, &fixed([1, 1, 2, 3]), &[&rgba]);
    assert_eq!(three, [3.0, 2.0, 1.0, 7.0, 6.0, 5.0]);
    let four = filled(DataType::U8, &fixed([1, 1, 2, 4]), &[&rgba]);
    assert_eq!(four, [3.0, 2.0, 1.0, 40.0, 7.0, 6.0, 5.0, 80.0]);
    let grey = png(&[9, 40, 8, 80], 2, 1, ExtendedColorType::La8);
    let one = filled(DataType::U8, &fixed([1, 1, 2, 1]), &[&grey]);
    assert_eq!(one, [9.0, 8.0]);
    let any = PartialShape(vec![Dim::Any; 4]);
    let (shape, _) = fill(DataType::U8, &any, "N...", &[&rgba]).unwrap();
    assert_eq!(shape, [1, 1, 2, 3]);
}

/// Results of OpenCV 5.0: `cv2.resize` with its default, bilinear.
#[test]
fn bytes_are_resized_as_opencv_does_it() {
    let smaller = [
        10, 111, 190, 83, 176, 29, 144, 133, 103, 199, 76, 158, 104, 125, 218, 122, 191, 87, 58,
        151, 150, 132, 121, 102, 92, 100, 161, 97, 142, 110, 123, 81, 141, 198, 139, 152, 106, 185,
        52, 165, 74, 135, 96, 131, 98, 126, 105, 165, 111, 68, 169, 63, 151, 164, 135, 233, 100,
        70, 147, 184, 100, 188, 140, 99, 187, 157, 66, 143, 188, 129, 227, 123,
    ];
    let got = filled(DataType::U8, &fixed([1, 4, 6, 3]), &[&drawn_png(5, 7, 3)]);
    assert_eq!(got, doubles(&smaller));
    let larger = [
        0, 6, 30, 55, 61, 4, 10, 35, 60, 66, 19, 25, 53, 81, 88, 33, 41, 71, 102, 109, 37, 45, 76,
        107, 115,
    ];
    let got = filled(DataType::U8, &fixed([1, 5, 5, 1]), &[&drawn_png(2, 2, 1)]);
    assert_eq!(got, doubles(&larger));
}

#[test]
fn other_types_are_resized_as_opencv_does_it() {
    let file = drawn_png(2, 3, 1);
    let expected = [
        0.0, 38.125, 83.875, 122.0, 18.5, 61.9375, 114.0625, 157.5, 37.0, 85.75, 144.25, 193.0,
    ];
    for dtype in [DataType::F32, DataType::F64] {
        let got = filled(dtype, &fixed([1, 3, 4, 1]), &[&file]);
        assert_eq!(got, expected, "{dtype}");
    }
    // The image times 100, with 16 bits.
    let words: Vec<u8> = drawn(5, 7, 1)
        .into_iter()
        .flat_map(|sample| (u16::from(sample) * 100).to_ne_bytes())
        .collect();
    let file = png(&words, 7, 5, ExtendedColorType::L16);
    for dtype in [DataType::U16, DataType::I16, DataType::I32] {
        let got = filled(dtype, &fixed([1, 2, 3, 1]), &[&file]);
        assert_eq!(
            got,
            [7692.0, 5700.0, 16508.0, 15508.0, 14900.0, 10025.0],
            "{dtype}"
        );
    }
}

#[test]
fn ranges_take_the_nearer_bound_of_the_first_image_for_all() {
    let shape = PartialShape(vec![
        Dim::Range(1, 4),
        Dim::Range(2, 3),
        Dim::Range(4, 5),
        Dim::Fixed(1),
    ]);
    let shapes = |files: &[&[u8]]| fill(DataType::U8, &shape, "NHWC", files).unwrap().0;
    let (small, within, large) = (drawn_png(1, 3, 1), drawn_png(2, 4, 1), drawn_png(9, 9, 1));
    assert_eq!(shapes(&[&small]), [1, 2, 4, 1]);
    assert_eq!(shapes(&[&within]), [1, 2, 4, 1]);
    assert_eq!(shapes(&[&large]), [1, 3, 5, 1]);
    assert_eq!(shapes(&[&small, &large, &within]), [3, 2, 4, 1]);
}

#[test]
fn only_a_known_size_is_resized_to() {
    let (one, other) = (drawn_png(2, 3, 1), drawn_png(3, 3, 1));
    let any = PartialShape(vec![Dim::Any, Dim::Any, Dim::Fixed(3), Dim::Fixed(1)]);
    let (shape, elements) = fill(DataType::U8, &any, "NHWC", &[&one, &one]).unwrap();
    assert_eq!(shape, [2, 2, 3, 1]);
    assert_eq!(elements, doubles(&drawn(2, 3, 1).repeat(2)));
    let sizes = fill(DataType::U8, &any, "NHWC", &[&one, &other]).unwrap_err();
    assert_eq!(sizes, "image 1 has another size than the first");
    let narrow = PartialShape(vec![Dim::Any, Dim::Any, Dim::Fixed(4), Dim::Fixed(1)]);
    let shape = fill(DataType::U8, &narrow, "NHWC", &[&one]).unwrap_err();
    assert_eq!(shape, "the images have shape (1,2,3,1)");
    // Fixed, and another layout than those that resize.
    let known = fixed([1, 4, 4, 1]);
    for (layout, resizes) in [
        ("NHWC", true),
        ("...", true),
        ("N...", true),
        ("N...C", false),
        ("N??C", false),
    ] {
        let done = fill(DataType::U8, &known, layout, &[&one]);
        assert_eq!(done.is_ok(), resizes, "{layout}");
        let as_it_is = fill(DataType::U8, &fixed([1, 2, 3, 1]), layout, &[&one]);
        assert!(as_it_is.is_ok(), "{layout}");
    }
}

#[test]
fn only_layouts_with_the_channels_last_take_images() {
    let takes = |text: &str, rank| takes_images(&Layout::parse(text).unwrap(), rank);
    for text in [
        "NHWC", "N...", "...", "N...HWC", "N??C", "????", "...C", "?H?C",
    ] {
        assert!(takes(text, 4), "{text}");
    }
    for text in [
        "NCHW", "NC...", "CN...", "...W", "NWHC", "NHWD", "NHW", "?N...",
    ] {
        assert!(!takes(text, 4), "{text}");
    }
    assert!(takes("N?HWC", 5) && takes("NDHWC", 5) && !takes("NHWC?", 5));
    assert!(!takes("...", 3));
}

#[test]
fn another_number_of_channels_is_refused() {
    let (grey, colour) = (drawn_png(2, 2, 1), drawn_png(2, 2, 3));
    let refused = |shape: &PartialShape, files: &[&[u8]]| {
        fill(DataType::U8, shape, "N...", files).unwrap_err()
    };
    assert_eq!(
        refused(&fixed([1, 2, 2, 3]), &[&grey]),
        "image 0 has 1 channels, the tensor 3"
    );
    assert_eq!(
        refused(&fixed([1, 2, 2, 1]), &[&colour]),
        "image 0 has 3 channels, the tensor 1"
    );
    let any = PartialShape(vec![Dim::Any; 4]);
    assert_eq!(
        refused(&any, &[&colour, &grey]),
        "image 1 has 1 channels, the tensor 3"
    );
}

/// The header of a PNG of a size, and nothing behind it.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    // A good file of a pixel, with another size and the checksum of the header that goes with it.
    let mut file = png(&[0], 1, 1, ExtendedColorType::L8);
    file[16..20].copy_from_slice(&width.to_be_bytes());
    file[20..24].copy_from_slice(&height.to_be_bytes());
    let checksum = crc32(&file[12..29]);
    file[29..33].copy_from_slice(&checksum.to_be_bytes());
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    !crc
}

#[test]
fn a_image_that_is_too_large_is_refused_by_its_header() {
    let shape = fixed([1, 2, 2, 1]);
    let refused = |file: &[u8]| fill(DataType::U8, &shape, "NHWC", &[file]).unwrap_err();
    assert_eq!(
        refused(&bomb(50_000, 50_000)),
        "image 0 cannot be decoded: found 50000x50000 pixels, at most 67108864 are decoded; see \
         --max-image-pixels"
    );
    // Just allowed, and then there is no data.
    assert!(!refused(&bomb(8192, 8192)).contains("max_image_pixels"));
    let layout = Layout::unspecified(4);
    let tensor = ImageTensor {
        dtype: DataType::U8,
        shape: &shape,
        layout: &layout,
    };
    let six = drawn_png(2, 3, 1);
    let fill = |limit| tensor.fill(&list(&[&six]), PixelLimit(limit), &Budget::default());
    assert!(fill(6).is_ok());
    assert!(matches!(fill(5), Err(ImageError::Decode { .. })));
}

#[test]
fn images_that_need_too_much_memory_together_are_refused_before_it_is_taken() {
    // 1 MiB each as FP32, and 1025 of them.
    let file = png(&vec![7; 1 << 18], 512, 512, ExtendedColorType::L8);
    let files = vec![file.as_slice(); 1025];
    let any = PartialShape(vec![Dim::Any; 4]);
    let refused = fill(DataType::F32, &any, "N...", &files).unwrap_err();
    assert_eq!(refused, "the images need more than 1073741824 bytes");
}

#[test]
fn what_is_no_image_is_reported() {
    let shape = fixed([1, 2, 2, 1]);
    let refused = |file: &[u8]| fill(DataType::U8, &shape, "NHWC", &[file]).unwrap_err();
    assert_eq!(refused(b""), "image 0 cannot be decoded: found no bytes");
    let neither = "image 0 cannot be decoded: found neither JPEG nor PNG";
    assert_eq!(refused(b"GIF89a and so on"), neither);
    assert_eq!(refused(&[0; 100]), neither);
    let scans = [[0xff, 0xd8].as_slice(), &[0xff, 0xda].repeat(501)].concat();
    assert_eq!(
        refused(&[scans.as_slice(), &[0xff, 0xd9]].concat()),
        "image 0 cannot be decoded: found more than 500 scans"
    );
    let whole = drawn_png(2, 2, 1);
    assert!(refused(&whole[..whole.len() - 20]).starts_with("image 0 cannot be decoded: "));
}

#[test]
fn the_orientation_in_a_jpeg_is_not_applied() {
    let mut file = Cursor::new(Vec::new());
    DynamicImage::new_rgb8(8, 16)
        .write_to(&mut file, image::ImageFormat::Jpeg)
        .unwrap();
    let mut file = file.into_inner();
    // After the start: an EXIF segment that says that the image lies on its side.
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    file.splice(2..2, exif.iter().copied());
    let read = image::ImageReader::with_format(Cursor::new(&file), image::ImageFormat::Jpeg);
    let mut decoder = read.into_decoder().unwrap();
    assert_eq!(
        image::ImageDecoder::orientation(&mut decoder).unwrap(),
        image::metadata::Orientation::Rotate90
    );
    let any = PartialShape(vec![Dim::Any; 4]);
    let (shape, _) = fill(DataType::U8, &any, "NHWC", &[&file]).unwrap();
    assert_eq!(shape, [1, 16, 8, 3]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        jpeg in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        end in any::<prop::sample::Index>(),
    ) {
        let good: &[u8] = if jpeg {
            include_bytes!("../../../fixtures/images/star.jpg")
        } else {
            include_bytes!("../../../fixtures/images/star.png")
        };
        let mut file = good.to_vec();
        for (index, byte) in changes {
            // The headers are where it matters most.
            let length = file.len();
            file[index.index(length.min(600))] = byte;
        }
        if end.index(4) == 0 {
            let length = file.len();
            file.truncate(end.index(length));
        }
        let shape = PartialShape(vec![Dim::Any; 4]);
        let layout = Layout::unspecified(4);
        let tensor = ImageTensor { dtype: DataType::U8, shape: &shape, layout: &layout };
        if let Ok((shape, data)) = tensor.fill(&list(&[&file]), PixelLimit(1 << 20), &Budget::default()) {
            prop_assert_eq!(shape.iter().product::<usize>(), Bytes::len(&data));
        }
    }
}
