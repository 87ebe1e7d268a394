//! Custom nodes of the examples, each by itself: OCR, faces, and one built with OpenCV.

use std::{fs, path::Path, sync::Arc};

use ovms::{
    custom_node::{Library, Node},
    tensor::{DataType, Tensor, TensorMap},
};

use crate::support::nodes::{compiled, compiled_with, floats, numbers, output};

const PAGE: usize = 640;
const CELLS: usize = 160;
const LINE: [usize; 2] = [48, 320];

fn node(source: &str, params: &[(&str, &str)]) -> Arc<Node> {
    let library = Library::open(source, &compiled(source)).unwrap();
    Node::initialize(&library, params.iter().copied()).unwrap()
}

fn whole(outputs: &TensorMap, name: &str) -> Vec<i32> {
    numbers(
        ovms::tensor::named(outputs, name).unwrap(),
        i32::from_le_bytes,
    )
}

/// Converts an integer small enough to be exact.
fn float(number: usize) -> f32 {
    f32::from(u16::try_from(number).unwrap())
}

/// Returns the value at a position of the page: a linear gradient, so that interpolated values are
/// known.
fn shade(colour: usize, y: f32, x: f32) -> f32 {
    float(colour) * 70.0 + y * 0.05 + x * 0.1
}

fn page() -> Tensor {
    let mut values = Vec::with_capacity(3 * PAGE * PAGE);
    for colour in 0..3 {
        for y in 0..PAGE {
            values.extend((0..PAGE).map(|x| shade(colour, float(y), float(x))));
        }
    }
    floats(&[1, 3, PAGE, PAGE], &values)
}

/// Returns probabilities with regions: left, top, right, bottom in cells.
fn prob(regions: &[[usize; 4]]) -> Tensor {
    let mut values = vec![0.5; CELLS * CELLS];
    for &[left, top, right, bottom] in regions {
        for row in top..bottom {
            values[row * CELLS + left..row * CELLS + right].fill(0.51);
        }
    }
    floats(&[1, 1, CELLS, CELLS], &values)
}

/// Returns a blank page.
fn black() -> Tensor {
    let data = vec![0; 4 * 3 * PAGE * PAGE];
    Tensor::new(DataType::F32, vec![1, 3, PAGE, PAGE], data.into()).unwrap()
}

fn lines(image: &Tensor, regions: &[[usize; 4]]) -> TensorMap {
    let inputs = [("image", image), ("prob", &prob(regions))];
    node("ocr_crops.cpp", &[]).execute(&inputs).unwrap()
}

#[test]
fn lines_of_text_are_found() {
    let found = |regions: &[[usize; 4]]| whole(&lines(&black(), regions), "boxes");
    // 4 cells high: a margin of 16 / 3 + 2 pixels.
    assert_eq!(found(&[[10, 20, 30, 24]]), [33, 73, 127, 103]);
    // At the edges boxes end with the page.
    assert_eq!(found(&[[0, 0, 160, 160]]), [0, 0, 640, 640]);
    assert_eq!(found(&[[150, 156, 160, 160]]), [593, 617, 640, 640]);
    // Seven cells are dirt, eight are a line.
    assert!(found(&[[5, 5, 12, 6]]).is_empty());
    assert_eq!(found(&[[5, 5, 13, 6]]), [17, 17, 55, 27]);
    // Corners do not connect, sides do.
    let corner = [[10, 10, 14, 12], [14, 12, 18, 14]];
    assert_eq!(found(&corner), [36, 36, 60, 52, 52, 44, 76, 60]);
    assert_eq!(
        found(&[[10, 10, 14, 12], [13, 12, 18, 14]]),
        [33, 33, 79, 63]
    );
    // From the top down, then from left to right.
    let order = [[60, 40, 70, 42], [5, 41, 20, 43], [30, 40, 40, 42]];
    let tops_and_lefts: Vec<_> = found(&order).chunks(4).map(|b| [b[1], b[0]]).collect();
    assert_eq!(tops_and_lefts, [[156, 116], [156, 236], [160, 16]]);
}

#[test]
fn lines_are_resized_to_what_is_between() {
    // Larger, smaller, and so wide that it is narrowed.
    let regions = [[10, 20, 30, 24], [100, 30, 101, 100], [2, 120, 150, 124]];
    let outputs = lines(&page(), &regions);
    let boxes = whole(&outputs, "boxes");
    let crops = ovms::tensor::named(&outputs, "crops").unwrap();
    assert_eq!(crops.shape(), [3, 1, 3, LINE[0], LINE[1]]);
    assert_eq!(
        ovms::tensor::named(&outputs, "boxes").unwrap().shape(),
        [3, 1, 4]
    );
    let values = output(&outputs, "crops");
    let crops = values.chunks(3 * LINE[0] * LINE[1]);
    for ((sides, crop), width) in boxes.chunks(4).zip(crops).zip([20, 150, 320]) {
        let [left, top, right, bottom] =
            [0, 1, 2, 3].map(|side| float(usize::try_from(sides[side]).unwrap()));
        let between = |i: usize, first: f32, last: f32, count: usize| {
            let place = (float(i) + 0.5) * (last - first) / float(count) - 0.5;
            first + place.clamp(0.0, last - first - 1.0)
        };
        for (index, &got) in crop.iter().enumerate() {
            let [colour, y, x] = [
                index / (LINE[0] * LINE[1]),
                index / LINE[1] % LINE[0],
                index % LINE[1],
            ];
            let expected = if x < width {
                let at = between(y, top, bottom, LINE[0]);
                shade(colour, at, between(x, left, right, width))
            } else {
                127.5
            };
            let is_near = (got - expected).abs() < 1e-3;
            assert!(is_near, "{sides:?} {colour} {y} {x}: {got}, not {expected}");
        }
    }
}

#[test]
fn a_page_without_text_has_no_lines() {
    let outputs = lines(&black(), &[]);
    let shapes = ["crops", "boxes"].map(|name| {
        ovms::tensor::named(&outputs, name)
            .unwrap()
            .shape()
            .to_vec()
    });
    assert_eq!(shapes, [vec![0, 1, 3, LINE[0], LINE[1]], vec![0, 1, 4]]);
}

#[test]
fn what_is_no_page_is_refused() {
    let (page, prob) = (black(), prob(&[]));
    let narrow = floats(&[1, 1, CELLS, CELLS - 1], &vec![0.0; CELLS * (CELLS - 1)]);
    let node = node("ocr_crops.cpp", &[]);
    for inputs in [
        vec![("image", &page), ("prob", &narrow)],
        vec![("image", &prob), ("prob", &prob)],
        vec![("image", &page)],
    ] {
        node.execute(&inputs).unwrap_err();
    }
}

#[test]
fn the_brightest_squares_are_faces() {
    const SHAPE: [usize; 2] = [256, 500];
    let mut image = vec![1.0; SHAPE[0] * SHAPE[1]];
    // One that is bright in its last row and column, and one that is less so.
    image[255 * SHAPE[1] + 479] = 9.0;
    image[0] = 5.0;
    let image = floats(&[1, SHAPE[0], SHAPE[1]], &image);
    let outputs = node("faces.c", &[]).execute(&[("image", &image)]).unwrap();
    let boxes = [256, 32, 480, 256, 0, 0, 224, 224];
    assert_eq!(whole(&outputs, "boxes"), boxes);
    assert_eq!(
        ovms::tensor::named(&outputs, "faces").unwrap().shape(),
        [2, 1, 224, 224]
    );
    let faces = output(&outputs, "faces");
    assert_eq!([faces[224 * 224 - 1], faces[224 * 224]], [9.0, 5.0]);
    assert_eq!(faces.iter().sum::<f32>(), float(2 * 224) * 224.0 + 12.0);
    // There is room for no more.
    let many = node("faces.c", &[("count", "7")]);
    let outputs = many.execute(&[("image", &image)]).unwrap();
    assert_eq!(whole(&outputs, "boxes"), boxes);
    let said = many.outputs().unwrap();
    assert_eq!(said[0].shape.fixed(), Some(vec![7, 1, 224, 224]));
}

#[test]
fn what_faces_have_in_common() {
    let node = node("dominant.cpp", &[]);
    let moods = floats(&[2, 1, 3], &[1.0, 5.0, 2.0, 3.0, 1.0, 9.0]);
    let outputs = node.execute(&[("moods", &moods)]).unwrap();
    assert_eq!(output(&outputs, "mean"), [2.0, 3.0, 5.5]);
    assert_eq!(whole(&outputs, "dominant"), [2]);
    node.execute(&[("moods", &floats(&[0, 1, 3], &[]))])
        .unwrap_err();
}

/// Returns the node that resizes with OpenCV, which `make test` finds or installs.
fn opencv(params: &[(&str, &str)]) -> Arc<Node> {
    let file = Path::new(env!("WORKSPACE_ROOT")).join("target/opencv/flags");
    let file = file.to_str().unwrap();
    assert!(fs::exists(file).unwrap(), "`make test` writes {file}");
    let library = compiled_with("opencv_resize.cpp", &[&format!("@{file}")]);
    let library = Library::open("opencv", &library).unwrap();
    Node::initialize(&library, params.iter().copied()).unwrap()
}

#[test]
fn opencv_resizes_images() {
    let node = opencv(&[("height", "2"), ("width", "3")]);
    // Each pixel four times as large: what is resized to is the middle of four.
    let rows: Vec<u8> = (0..4_u8)
        .flat_map(|y| (0..6_u8).flat_map(move |x| [10 * (y / 2), 20 * (x / 2), 7]))
        .collect();
    let image = Tensor::new(DataType::U8, vec![1, 4, 6, 3], rows.into()).unwrap();
    let outputs = node.execute(&[("image", &image)]).unwrap();
    assert_eq!(
        ovms::tensor::named(&outputs, "image").unwrap().shape(),
        [1, 3, 2, 3]
    );
    let red = [7.0; 6];
    let green = [0.0, 20.0, 40.0, 0.0, 20.0, 40.0];
    let blue = [0.0, 0.0, 0.0, 10.0, 10.0, 10.0];
    assert_eq!(output(&outputs, "image"), [red, green, blue].concat());
    assert_eq!(
        node.outputs().unwrap()[0].shape.fixed(),
        Some(vec![1, 3, 2, 3])
    );
    let grey = Tensor::new(DataType::U8, vec![1, 4, 6, 1], vec![0; 24].into()).unwrap();
    node.execute(&[("image", &grey)]).unwrap_err();
}

#[test]
fn opencv_works_on_many_threads() {
    let node = opencv(&[]);
    let running: Vec<_> = (0..8_u8)
        .map(|shade| {
            let node = Arc::clone(&node);
            crate::support::thread(move || {
                let pixels = vec![shade; 300 * 200 * 3];
                let image = Tensor::new(DataType::U8, vec![1, 200, 300, 3], pixels.into());
                let image = image.unwrap();
                for _ in 0..5 {
                    let outputs = node.execute(&[("image", &image)]).unwrap();
                    let resized = output(&outputs, "image");
                    assert_eq!(resized, vec![f32::from(shade); 3 * 224 * 224]);
                }
            })
        })
        .collect();
    for thread in running {
        thread.join().unwrap();
    }
}
