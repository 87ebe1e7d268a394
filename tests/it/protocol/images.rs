//! Encoded images as inputs: each form of request, and refusals. Decoding of pixels is tested
//! beside the decoder.

use std::{fs, io::Cursor, sync::LazyLock};

use image::{DynamicImage, ImageFormat, RgbImage};
use serde_json::json;

use crate::support::{
    Server,
    bytes::{ANY_BYTES, Form, Output, Served},
    eventually, fixture,
    grpc::{self, Grpc, to_floats},
    infer::{infer, json as json_of},
    model,
    pipelines::{Config, dl},
    repository,
    steps::ALL,
};

/// A model of images of any size.
static ANY: LazyLock<Served<'_>> = LazyLock::new(|| of("image_any"));

/// A model of up to four images of one size.
static FIXED: LazyLock<Served<'_>> = LazyLock::new(|| of("image_fixed"));

/// A server of models with settings, and of pipelines.
static SET: LazyLock<Server> = LazyLock::new(|| {
    let mut config = Config::of(&["image_fixed", "image_any", "image_grey"]);
    config.model("auto", &model("image_fixed"))["batch_size"] = json!("auto");
    config.model("range", &model("image_range"))["batch_size"] = json!("auto");
    config.model("unnamed", &model("image_fixed"))["layout"] = json!("N?WC");
    config.model("turned", &model("image_any"))["layout"] = json!("NCHW");
    for (name, model, count) in [
        ("fixed", "image_fixed", 2),
        ("any", "image_any", -1),
        ("other", "turned", -1),
    ] {
        let node = dl("only", model, "image=request.x", "out=y");
        config.pipeline(name, "x", &[node], "out=only.y")["demultiply_count"] = json!(count);
    }
    config.serve_kept(&[])
});

/// Returns a shared model.
fn of(model: &'static str) -> Served<'static> {
    Served::of(Server::shared(model), model, "image")
}

fn star(extension: &str) -> Vec<u8> {
    fs::read(fixture(&format!("images/star.{extension}"))).unwrap()
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, format).unwrap();
    file.into_inner()
}

/// Returns an image of one colour.
fn plain(width: u32, height: u32, rgb: [u8; 3]) -> Vec<u8> {
    let image = RgbImage::from_pixel(width, height, image::Rgb(rgb));
    encoded(&image.into(), ImageFormat::Png)
}

/// Returns the samples of an image, blue first.
fn samples(file: &[u8]) -> Vec<u8> {
    let mut samples = image::load_from_memory(file)
        .unwrap()
        .into_rgb8()
        .into_raw();
    samples.chunks_exact_mut(3).for_each(<[u8]>::reverse);
    samples
}

fn floats(samples: &[u8]) -> Vec<f32> {
    samples.iter().copied().map(f32::from).collect()
}

#[test]
fn images_arrive_as_they_are_where_no_size_is_known() {
    for (file, size) in [(star("png"), [224, 224]), (star("jpg"), [240, 320])] {
        for form in ANY_BYTES {
            let one = ANY.ask(form, &[1], &[&file]).unwrap();
            assert_eq!(
                (one.datatype.as_str(), &one.shape[..]),
                ("FP32", &[1, size[0], size[1], 3][..])
            );
            assert!(to_floats(&one.data) == floats(&samples(&file)), "{form:?}");
            let two = ANY.ask(form, &[2], &[&file, &file]).unwrap();
            assert_eq!(two.shape, [2, size[0], size[1], 3]);
            assert!(
                to_floats(&two.data) == floats(&samples(&file).repeat(2)),
                "{form:?}"
            );
        }
    }
}

#[test]
fn images_are_resized_where_a_size_is_known() {
    let (large, small) = (plain(30, 20, [1, 2, 3]), plain(1, 1, [4, 5, 6]));
    let as_it_is = plain(6, 4, [7, 8, 9]);
    let expected = [[3, 2, 1], [6, 5, 4], [9, 8, 7]].map(|pixel: [u8; 3]| pixel.repeat(24));
    for form in ANY_BYTES {
        let three = FIXED.ask(form, &[3], &[&large, &small, &as_it_is]);
        assert_eq!(
            three,
            Ok(Output {
                datatype: "UINT8".to_owned(),
                shape: vec![3, 4, 6, 3],
                data: expected.concat(),
            })
        );
        let jpeg = FIXED.ask(form, &[1], &[&star("jpg")]).unwrap();
        assert_eq!(jpeg.shape, [1, 4, 6, 3]);
    }
}

#[test]
fn a_batch_size_of_auto_follows_images_and_axes_without_a_letter_take_them() {
    let mut served = Served::of(&SET, "auto", "image");
    let (large, as_it_is) = (plain(30, 20, [1, 2, 3]), plain(6, 4, [7, 8, 9]));
    for count in [5, 2] {
        for form in ANY_BYTES {
            let files = vec![large.as_slice(); count];
            let output = served.ask(form, &[count as i64], &files).unwrap();
            assert_eq!(output.shape, [count as i64, 4, 6, 3], "{form:?}");
            assert_eq!(output.data, [3, 2, 1].repeat(24 * count), "{form:?}");
        }
    }
    served.model = "range";
    let files = vec![large.as_slice(); 5];
    let output = served.ask(Form::Raw, &[5], &files).unwrap();
    assert_eq!(output.shape, [5, 8, 6, 3]);
    served.model = "unnamed";
    let output = served.ask(Form::Raw, &[1], &[&as_it_is]).unwrap();
    assert_eq!(output.data, [9, 8, 7].repeat(24));
    insta::assert_snapshot!(refused(&served, &[1], &[&large]), @"400: Invalid input shape - Expected: ([1~4],4,6,3); Actual: (1,20,30,3); input name: image");
}

#[test]
fn a_pipeline_splits_a_request_of_images() {
    let mut served = Served::of(&SET, "fixed", "x");
    let (large, as_it_is) = (plain(30, 20, [1, 2, 3]), plain(6, 4, [7, 8, 9]));
    let pixels = [[3, 2, 1], [9, 8, 7]].map(|pixel: [u8; 3]| pixel.repeat(24));
    for form in ANY_BYTES {
        let two = served.ask(form, &[2], &[&large, &as_it_is]);
        let expected = Output {
            datatype: "UINT8".to_owned(),
            shape: vec![2, 1, 4, 6, 3],
            data: pixels.concat(),
        };
        assert_eq!(two, Ok(expected), "{form:?}");
    }
    let mut texts = vec![
        served.ask(Form::Raw, &[1], &[&large]).unwrap_err(),
        served
            .ask(Form::Raw, &[2, 1], &[&large, &large])
            .unwrap_err(),
    ];
    served.model = "any";
    for form in ANY_BYTES {
        let three = served.ask(form, &[3], &[&as_it_is, &as_it_is, &as_it_is]);
        let three = three.unwrap();
        assert_eq!(three.shape, [3, 1, 4, 6, 3], "{form:?}");
        assert_eq!(to_floats(&three.data), floats(&pixels[1].repeat(3)));
    }
    texts.push(
        served
            .ask(Form::Raw, &[2], &[&large, &as_it_is])
            .unwrap_err(),
    );
    served.model = "other";
    texts.push(served.ask(Form::Raw, &[1], &[&large]).unwrap_err());
    insta::assert_snapshot!(texts.join("\n"), @"
    InvalidArgument: Invalid input batch size - Expected: 2; Actual: 1; input name: x
    InvalidArgument: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: x
    InvalidArgument: Binary input images for this endpoint are required to have the same resolution - image 1 has another than the first; input name: x
    InvalidArgument: Received binary image input but resource not configured to accept NHWC layout - Expected: N...HWC; Actual: N?CHW; input name: x
    ");
    let folder = repository::folder();
    let file = folder.path().join("image.png");
    fs::write(&file, &as_it_is).unwrap();
    for api in ALL {
        let given = format!("x:BYTES=@{}", file.display());
        let run = infer(
            served.server,
            api,
            &["any", "-i", &given, "--output", "json"],
        );
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let reported: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(
            reported["outputs"][0]["shape"],
            json!([1, 1, 4, 6, 3]),
            "{api}"
        );
    }
}

#[test]
fn ranges_and_channels_of_models_are_kept() {
    let served = of("image_range");
    // The nearer bound of a range is taken.
    for (width, height, expected) in [
        (1, 1, [1, 2, 3, 3]),
        (5, 7, [1, 7, 5, 3]),
        (9, 9, [1, 8, 6, 3]),
    ] {
        for form in ANY_BYTES {
            let file = plain(width, height, [10, 20, 30]);
            let output = served.ask(form, &[1], &[&file]).unwrap();
            assert_eq!(output.shape, expected);
            assert_eq!(to_floats(&output.data)[..3], [30.0, 20.0, 10.0]);
        }
    }
    let served = Served::of(&SET, "image_grey", "image");
    let grey: Vec<u8> = (0..24).collect();
    let image = image::GrayImage::from_raw(6, 4, grey.clone()).unwrap();
    let file = encoded(&image.into(), ImageFormat::Png);
    for form in ANY_BYTES {
        assert_eq!(served.ask(form, &[1], &[&file]).unwrap().data, grey);
        let jpeg = image::GrayImage::from_pixel(6, 4, image::Luma([100]));
        let jpeg = encoded(&jpeg.into(), ImageFormat::Jpeg);
        assert_eq!(served.ask(form, &[1], &[&jpeg]).unwrap().data, [100; 24]);
    }
    let served = of("classifier");
    insta::assert_snapshot!(refused(&served, &[1], &[&star("png")]), @"400: Invalid number of channels in binary input - Expected: 224; Actual: 3 in image 0, which has its channels last; --layout NHWC:NCHW serves a model that has them first; input name: image");
}

/// Returns the error that all forms have, each with its code.
fn refused(served: &Served<'_>, shape: &[i64], files: &[&[u8]]) -> String {
    let texts = ANY_BYTES.map(|form| {
        let refused = served.ask(form, shape, files).unwrap_err();
        refused.replace("InvalidArgument: ", "400: ")
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    texts[0].clone()
}

#[test]
fn each_error_of_images_has_its_code_and_text() {
    let (png, jpg) = (star("png"), star("jpg"));
    let grey = image::GrayImage::from_pixel(2, 2, image::Luma([100]));
    let grey = encoded(&grey.into(), ImageFormat::Png);
    let texts = [
        (&[1][..], &[b"no image".as_slice()][..]),
        (&[1], &[b""]),
        (&[1, 1], &[&png]),
        (&[2], &[&png]),
        (&[0], &[]),
        (&[2], &[&png, &jpg]),
        (&[1], &[&grey]),
    ]
    .map(|(shape, files)| refused(&ANY, shape, files));
    insta::assert_snapshot!(texts.join("\n"), @"
    400: Image parsing failed - image 0: found neither JPEG nor PNG; input name: image
    400: Bytes contents is empty - image 0; input name: image
    400: Invalid number of shape dimensions - Expected number of input shape dimensions: 1; Actual: 2; input name: image
    400: Invalid input batch size - Expected: 2 as declared; Actual: 1; input name: image
    400: Invalid input batch size - Expected: -1, and one image at least; Actual: 0; input name: image
    400: Binary input images for this endpoint are required to have the same resolution - image 1 has another than the first; input name: image
    400: Invalid number of channels in binary input - Expected: 3; Actual: 1 in image 0; input name: image
    ");
    for form in [Form::Raw, Form::Binary] {
        let refused = ANY.ask_framed(form, &[1], &png).unwrap_err();
        assert!(refused.contains(": Inputs inside buffer does not match expected format. - "));
    }
}

#[test]
fn more_images_than_the_batch_takes_are_refused() {
    let file = plain(6, 4, [7, 8, 9]);
    let files = [file.as_slice(); 5];
    insta::assert_snapshot!(refused(&FIXED, &[5], &files), @"400: Invalid input batch size - Expected: [1~4]; Actual: 5; input name: image");
}

/// Returns a PNG of nothing but a header, which claims 50000 by 50000.
fn bomb() -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xc3\x50\0\0\xc3\x50\x08\x02\0\0\0".to_vec();
    // The checksum of the header, and data that never comes.
    file.extend_from_slice(&0xc4cd_aa9d_u32.to_be_bytes());
    file.extend_from_slice(b"\0\0\0\x08IDAT\x78\x9c\0\0\0\0\0\0\0\0\0\0");
    file
}

#[test]
fn a_image_that_would_fill_the_memory_is_refused_by_its_header() {
    let server = Server::start("image_any");
    let served = Served::of(&server, "image_any", "image");
    let before = peak_memory(&server);
    insta::assert_snapshot!(refused(&served, &[1], &[&bomb()]), @"400: Image parsing failed - image 0: found 50000x50000 pixels, at most 67108864 are decoded; see --max-image-pixels; input name: image");
    // Decoded it would have 7 GB.
    assert!(peak_memory(&server) - before < 100 << 20);
    assert!(served.ask(Form::Raw, &[1], &[&star("png")]).is_ok());
}

/// Returns the peak resident memory of a server so far, in bytes.
fn peak_memory(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

#[test]
fn many_images_at_once_are_all_answered() {
    let file = star("jpg");
    let expected = floats(&samples(&file));
    let framed = crate::support::bytes::framed(&[&file]);
    let calls: Vec<_> = (0..24)
        .map(|_| {
            ANY.grpc
                .call(grpc::raw("image_any", "image", "BYTES", &[1], &framed))
        })
        .collect();
    for call in calls {
        let answer = call.wait().unwrap();
        assert!(to_floats(&answer.raw_output_contents[0]) == expected);
    }
}

#[test]
fn a_client_that_leaves_does_no_harm() {
    let framed = crate::support::bytes::framed(&[&star("jpg")]);
    for _ in 0..8 {
        drop(
            ANY.grpc
                .call(grpc::raw("image_any", "image", "BYTES", &[1], &framed)),
        );
    }
    let grpc = Grpc::connect(ANY.server);
    eventually("an answer after those that left", || {
        grpc.infer(grpc::raw("image_any", "image", "BYTES", &[1], &framed))
            .ok()
    });
}

#[test]
fn the_client_sends_images_for_the_server_to_decode() {
    let given = format!("image:BYTES=@{}", fixture("images/star.png").display());
    let decoded = ALL.map(|api| {
        let answer = json_of(FIXED.server, api, &["image_fixed", "-i", &given]);
        assert_eq!(answer["outputs"][0]["shape"], json!([1, 4, 6, 3]), "{api}");
        answer["outputs"][0]["data"].clone()
    });
    assert!(
        decoded.iter().all(|data| *data == decoded[0]),
        "{decoded:?}"
    );
}
