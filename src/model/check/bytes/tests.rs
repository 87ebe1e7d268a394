//! Strings for each kind of input, and each error once; wire by wire they are tested in `tests/it`.

use bytes::Bytes;

use super::super::{check, is_slow, tensor_shape};
use crate::{
    budget::Budget,
    error::ErrorKind,
    openvino::SlotInput,
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, Layout, PartialShape, images::PixelLimit, strings::push},
};

const ANY: Dim = Dim::Any;

fn info(dtype: DataType, shape: &[Dim], layout: &str) -> ServableInfo {
    let input = TensorInfo {
        name: "in".to_owned(),
        dtype,
        shape: PartialShape(shape.to_vec()),
        layout: Layout::parse(layout).unwrap(),
        is_open: false,
        port: 7,
    };
    ServableInfo::new(vec![input], vec![])
}

fn framed(strings: &[&[u8]]) -> Bytes {
    let mut framed = Vec::new();
    for string in strings {
        push(&mut framed, string).unwrap();
    }
    framed.into()
}

fn typed(strings: &[&[u8]]) -> Data {
    Data::Values {
        count: strings.len(),
        bytes: framed(strings),
    }
}

fn request(dialect: Dialect, shape: &[i64], data: Data) -> InferRequest {
    InferRequest {
        dialect,
        inputs: vec![InputTensor {
            name: "in".to_owned(),
            datatype: Declared::Known(DataType::String),
            shape: shape.to_vec(),
            data,
        }],
        ..InferRequest::default()
    }
}

fn taken(info: &ServableInfo, shape: &[i64], data: Data) -> SlotInput {
    let request = request(Dialect::KServe, shape, data);
    let mut work = check(info, request, PixelLimit::default(), &Budget::default()).unwrap();
    work.inputs.remove(0)
}

fn refused(info: &ServableInfo, dialect: Dialect, shape: &[i64], data: Data) -> String {
    let error = check(
        info,
        request(dialect, shape, data),
        PixelLimit::default(),
        &Budget::default(),
    )
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.message().to_owned()
}

#[test]
fn strings_stay_as_they_are_for_a_tensor_of_strings() {
    let strings = info(DataType::String, &[ANY], "N...");
    let list: &[&[u8]] = &[b"a", b"", b"\0\xff"];
    for data in [typed(list), Data::Raw(framed(list))] {
        let input = taken(&strings, &[3], data);
        assert_eq!((input.port, &input.shape[..]), (7, &[3][..]));
        assert_eq!(input.data.bytes().unwrap(), framed(list));
    }
    let none = taken(&strings, &[0], Data::Raw(Bytes::new()));
    assert_eq!((&none.shape[..], none.data.size()), (&[0][..], 0));
}

#[test]
fn strings_become_rows_for_a_tensor_of_bytes() {
    let rows = info(DataType::U8, &[ANY, ANY], "N...");
    for data in [typed(&[b"abc", b""]), Data::Raw(framed(&[b"abc", b""]))] {
        let input = taken(&rows, &[2], data);
        assert_eq!(input.shape, [2, 4]);
        assert_eq!(&input.data.bytes().unwrap()[..], b"abc\0\0\0\0\0");
    }
    assert_eq!(taken(&rows, &[0], typed(&[])).shape, [0, 1]);
}

#[test]
fn each_error_of_strings_has_its_text() {
    let kserve = Dialect::KServe;
    let strings = info(DataType::String, &[Dim::Range(1, 3)], "N...");
    let rows = info(DataType::U8, &[Dim::Range(1, 3), Dim::Fixed(4)], "N...");
    let three: &[&[u8]] = &[b"abc", b"", b""];
    let broken = || Data::Raw(Bytes::from_static(&[1, 0, 0, 0]));
    let texts = [
        refused(&strings, kserve, &[1], broken()),
        refused(&strings, kserve, &[-1], broken()),
        refused(&strings, kserve, &[2], typed(three)),
        refused(&strings, kserve, &[3], Data::Raw(framed(&three[..2]))),
        refused(&strings, Dialect::TensorFlowServing, &[2], typed(three)),
        refused(&strings, kserve, &[3, 1], typed(three)),
        refused(&strings, kserve, &[4], typed(three)),
        refused(&rows, kserve, &[1], broken()),
        refused(&rows, kserve, &[3, 4], typed(three)),
        refused(&rows, Dialect::TensorFlowServing, &[], typed(three)),
        refused(&rows, kserve, &[2], typed(three)),
        refused(&rows, kserve, &[4], typed(&[b"abc".as_slice(); 4])),
        refused(&rows, kserve, &[1], typed(&[b"abcd"])),
        refused(&rows, kserve, &[1], Data::Unfit("too long".to_owned())),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: in
    Invalid input shape - Negative or zero dimension size is not acceptable: (-1); input name: in
    Invalid number of values in tensor proto container - Expected: 2 values; Actual: 3 values; input name: in
    Invalid number of values in tensor proto container - Expected: 3 values; Actual: 2 values; input name: in
    Invalid number of values in tensor proto container - Expected: 2; Actual: 3; input name: in
    Invalid number of shape dimensions - Expected: ([1~3]); Actual: (3,1); input name: in
    Invalid input batch size - Expected: [1~3]; Actual: 4; input name: in
    Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 4 bytes given; input name: in
    Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: in
    Invalid number of shape dimensions - Expected number of binary input shape dimensions: 1; Actual: 0; input name: in
    Invalid input batch size - Expected: 2 as declared; Actual: 3; input name: in
    Invalid input batch size - Expected: [1~3]; Actual: 4; input name: in
    Invalid input shape - Expected batch size: [1~3]; got: 1; Expected max null terminated string length: 4; got: 5; input name: in
    Invalid value in tensor proto container - too long; input name: in
    ");
}

#[test]
fn rows_beyond_a_gibibyte_are_refused() {
    let rows = info(DataType::U8, &[ANY, ANY], "N...");
    let long = vec![b'x'; 1 << 20];
    let mut list: Vec<&[u8]> = vec![b""; 1024];
    list[0] = &long;
    insta::assert_snapshot!(refused(&rows, Dialect::KServe, &[1024], typed(&list)), @"Maximum 2D array after string conversion exceeded 1GB - 1024 strings of which the longest has 1048576 bytes; input name: in");
}

#[test]
fn each_error_of_images_has_its_text() {
    let kserve = Dialect::KServe;
    let fixed = [1, 2, 2, 3].map(Dim::Fixed);
    let images = info(DataType::F32, &fixed, "N...");
    let png = include_bytes!("../../../../fixtures/images/ring.png").as_slice();
    let jpeg = include_bytes!("../../../../fixtures/images/star.jpg").as_slice();
    let any = [ANY, ANY, ANY, Dim::Fixed(3)];
    let open_batch = [ANY, Dim::Fixed(2), Dim::Fixed(2), Dim::Fixed(3)];
    let open_parts = [
        ANY,
        Dim::Fixed(1),
        Dim::Fixed(2),
        Dim::Fixed(2),
        Dim::Fixed(3),
    ];
    let mut of_ranges = open_parts;
    of_ranges[1] = Dim::Range(1, 4);
    let grey = [1, 2, 2, 1].map(Dim::Fixed);
    let texts = [
        refused(&images, kserve, &[1, 1], typed(&[png])),
        refused(&images, kserve, &[1], typed(&[png, png])),
        refused(&images, kserve, &[2], typed(&[png, png])),
        refused(&images, kserve, &[1], Data::Raw(Bytes::from_static(png))),
        refused(&images, kserve, &[1], typed(&[b""])),
        refused(&images, Dialect::TensorFlowServing, &[1], typed(&[b""])),
        refused(&images, kserve, &[1], typed(&[b"no image"])),
        refused(
            &info(DataType::F32, &fixed, "NCHW"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::I64, &fixed, "NHWC"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::F32, &grey, "NHWC"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::F32, &any, "NHWC"),
            kserve,
            &[2],
            typed(&[png, jpeg]),
        ),
        refused(
            &info(DataType::F32, &fixed, "N...C"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::F32, &open_batch, "NHWC"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::F32, &open_parts, "N?HWC"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(
            &info(DataType::F32, &of_ranges, "N?HWC"),
            kserve,
            &[1],
            typed(&[png]),
        ),
        refused(&info(DataType::F32, &any, "NHWC"), kserve, &[0], typed(&[])),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: in
    Invalid input batch size - Expected: 1 as declared; Actual: 2; input name: in
    Invalid input batch size - Expected: 1; Actual: 2; input name: in
    Inputs inside buffer does not match expected format. - the string at byte 0 does not end within the 863 bytes given; input name: in
    Bytes contents is empty - image 0; input name: in
    String val is empty - image 0; input name: in
    Image parsing failed - image 0: found neither JPEG nor PNG; input name: in
    Received binary image input but resource not configured to accept NHWC layout - Expected: N...HWC; Actual: NCHW; input name: in
    Invalid input precision - Expected: I64; Actual: encoded images, which become FP32, FP64, FP16, I16, U8, I8, U16 or I32; input name: in
    Invalid number of channels in binary input - Expected: 1; Actual: 3 in image 0; input name: in
    Binary input images for this endpoint are required to have the same resolution - image 1 has another than the first; input name: in
    Invalid input shape - Expected: (1,2,2,3); Actual: (1,224,224,3); input name: in
    Invalid input shape - Expected: (-1,2,2,3); Actual: (1,224,224,3); input name: in - images are resized where no dimension is -1: with a batch size such as 1:8
    Invalid input shape - Expected: (-1,1,2,2,3); Actual: (1,1,224,224,3); input name: in - images are resized where no dimension is -1: with a demultiply_count that is a number
    Invalid input shape - Expected: (-1,[1~4],2,2,3); Actual: (1,1,224,224,3); input name: in - images are resized where no dimension is -1: with a demultiply_count that is a number
    Invalid input batch size - Expected: -1, and one image at least; Actual: 0; input name: in
    ");
}

#[test]
fn axes_without_a_letter_take_images_as_they_are() {
    let png = include_bytes!("../../../../fixtures/images/ring.png").as_slice();
    for layout in ["N???", "N??C", "N?WC", "N?...", "NHW?"] {
        let fits = info(DataType::U8, &[1, 224, 224, 3].map(Dim::Fixed), layout);
        let taken = taken(&fits, &[1], typed(&[png]));
        assert_eq!(taken.shape, [1, 224, 224, 3], "{layout}");
        let other = info(DataType::U8, &[1, 2, 2, 3].map(Dim::Fixed), layout);
        let text = refused(&other, Dialect::KServe, &[1], typed(&[png]));
        assert!(
            text.starts_with("Invalid input shape - "),
            "{layout}: {text}"
        );
    }
}

#[test]
fn the_shape_is_validated_before_the_framing() {
    let kserve = Dialect::KServe;
    let broken = || Data::Raw(Bytes::from_static(b"abc"));
    let unfit = || Data::Unfit("too long".to_owned());
    let strings = info(DataType::String, &[Dim::Range(1, 3)], "N...");
    let rows = info(DataType::U8, &[Dim::Range(1, 3), Dim::Fixed(4)], "N...");
    let turned = info(DataType::F32, &[1, 3, 2, 2].map(Dim::Fixed), "NCHW");
    let texts = [
        refused(&strings, kserve, &[1, 1], broken()),
        refused(&strings, kserve, &[4], broken()),
        refused(&strings, kserve, &[], Data::Unranked),
        refused(&rows, kserve, &[1, 1], unfit()),
        refused(&rows, kserve, &[4], broken()),
        refused(&rows, kserve, &[], Data::Unranked),
        refused(&turned, kserve, &[1, 1], broken()),
        refused(&turned, kserve, &[2], broken()),
        refused(&turned, kserve, &[1], broken()),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    Invalid number of shape dimensions - Expected: ([1~3]); Actual: (1,1); input name: in
    Invalid input batch size - Expected: [1~3]; Actual: 4; input name: in
    Invalid number of shape dimensions - Expected: a shape; Actual: unknown_rank; input name: in
    Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: in
    Invalid input batch size - Expected: [1~3]; Actual: 4; input name: in
    Invalid number of shape dimensions - Expected: a shape; Actual: unknown_rank; input name: in
    Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: in
    Invalid input batch size - Expected: 1; Actual: 2; input name: in
    Received binary image input but resource not configured to accept NHWC layout - Expected: N...HWC; Actual: NCHW; input name: in
    ");
}

#[test]
fn other_tensors_take_no_strings() {
    for (dtype, rank) in [
        (DataType::F32, 1),
        (DataType::F32, 2),
        (DataType::U8, 1),
        (DataType::U8, 3),
        (DataType::F32, 5),
    ] {
        let info = info(dtype, &vec![ANY; rank], "N...");
        let asked = request(Dialect::KServe, &[1], typed(&[b"a"]));
        let error = check(&info, asked, PixelLimit::default(), &Budget::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unimplemented);
        let text = error.message();
        assert!(
            text.starts_with("Functionality not implemented - "),
            "{text}"
        );
    }
}

#[test]
fn the_shape_to_load_for_is_that_of_the_tensor() {
    let shape = |info: &ServableInfo, declared: &[i64], data| {
        tensor_shape(
            &info.inputs[0],
            &request(Dialect::KServe, declared, data).inputs[0],
        )
    };
    let strings = || typed(&[b"abc", b""]);
    let native = info(DataType::String, &[ANY], "N...");
    assert_eq!(
        shape(&native, &[2], strings()),
        Some(PartialShape::of(&[2]))
    );
    let rows = info(DataType::U8, &[Dim::Fixed(1), Dim::Fixed(9)], "N...");
    assert_eq!(
        shape(&rows, &[2], strings()),
        Some(PartialShape::of(&[2, 4]))
    );
    let broken = Data::Raw(Bytes::from_static(&[1]));
    assert_eq!(shape(&rows, &[1], broken), None);
    let images = info(DataType::F32, &[1, 4, 6, 3].map(Dim::Fixed), "N...");
    let two = PartialShape::of(&[2, 4, 6, 3]);
    assert_eq!(shape(&images, &[2], strings()), Some(two));
    // What the images alone tell stays as the model has it.
    let range = [Dim::Range(1, 4), ANY, Dim::Fixed(6), Dim::Fixed(3)];
    let five = PartialShape(vec![Dim::Fixed(5), ANY, Dim::Fixed(6), Dim::Fixed(3)]);
    let images = info(DataType::F32, &range, "N...");
    assert_eq!(shape(&images, &[5], strings()), Some(five));
    let dummy = info(DataType::F32, &[ANY], "N...");
    assert_eq!(shape(&dummy, &[2], strings()), None);
    let mut numbers = request(Dialect::KServe, &[5], strings());
    numbers.inputs[0].datatype = Declared::Known(DataType::F32);
    assert_eq!(
        tensor_shape(&dummy.inputs[0], &numbers.inputs[0]),
        Some(PartialShape::of(&[5]))
    );
}

#[test]
fn images_and_long_lists_are_known_to_be_slow() {
    let slow = |info: &ServableInfo, length: usize| {
        let data = Data::Raw(vec![0; length].into());
        is_slow(info, &request(Dialect::KServe, &[1], data))
    };
    let images = info(DataType::F32, &[ANY; 4], "N...");
    assert!(slow(&images, 1));
    let rows = info(DataType::U8, &[ANY; 2], "N...");
    assert!(!slow(&rows, 2000) && slow(&rows, 3000));
    let strings = info(DataType::String, &[ANY], "N...");
    assert!(!slow(&strings, 1 << 16) && slow(&strings, (1 << 16) + 1));
    let mut numbers = request(Dialect::KServe, &[1], Data::Raw(vec![0; 1 << 20].into()));
    numbers.inputs[0].datatype = Declared::Known(DataType::F32);
    assert!(!is_slow(&images, &numbers));
}
