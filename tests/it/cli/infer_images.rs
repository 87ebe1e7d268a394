//! `ovms infer` and images: how they are laid out, and what is seen in them.

use crate::support::{
    Server, cli, fixture,
    infer::{APIS, GRPC, data, infer, json},
    repository,
};
use serde_json::json;

/// Returns the flags for an image of the fixtures, with ranked output.
fn star(image: &str) -> Vec<String> {
    let labels = fixture("models/classifier/labels.txt");
    let image = fixture("images").join(image);
    vec![
        "classifier".to_owned(),
        "-i".to_owned(),
        format!("@{}", image.display()),
        "--top".to_owned(),
        "3".to_owned(),
        "--labels".to_owned(),
        labels.display().to_string(),
    ]
}

#[test]
fn the_best_scores_have_their_labels() {
    let server = Server::shared("classifier");
    for api in APIS {
        for image in ["star.png", "star.jpg"] {
            let flags = star(image);
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let table = infer(server, api, &flags).text();
            let rows: Vec<Vec<&str>> = table
                .lines()
                .map(|line| line.split_whitespace().collect())
                .collect();
            assert_eq!(rows.len(), 4, "{table}");
            assert_eq!(rows[0], ["rank", "index", "label", "score"]);
            assert_eq!(rows[1][..3], ["1", "3", "star"], "{table}");
            assert!(rows[1][3].parse::<f64>().unwrap() > 0.9, "{table}");

            let answer = json(server, api, &flags);
            assert_eq!(answer["output"], "scores");
            let ranking = answer["top"][0].as_array().unwrap();
            assert_eq!(ranking.len(), 3, "{answer}");
            let best = &ranking[0];
            assert_eq!((&best["rank"], &best["index"]), (&json!(1), &json!(3)));
            assert_eq!(best["label"], "star");
            assert!(best["score"].as_f64().unwrap() > 0.9, "{answer}");
        }
    }
}

#[test]
fn images_are_laid_out_as_the_model_takes_them() {
    let server = Server::shared("fullsize");
    let folder = repository::folder();
    let path = folder.path().join("plain.png");
    let plain = image::RgbImage::from_pixel(8, 4, image::Rgb([200, 100, 50]));
    plain.save(&path).unwrap();
    let image = format!("@{}", path.display());
    // The model gives the mean of each plane.
    for (flags, means) in [
        (&[][..], [200.0, 100.0, 50.0]),
        (&["--layout=NCHW"], [200.0, 100.0, 50.0]),
        (&["--bgr"], [50.0, 100.0, 200.0]),
        (&["--mean=100"], [100.0, 0.0, -50.0]),
        (&["--scale=10"], [20.0, 10.0, 5.0]),
        (&["--mean=200,100,0", "--scale=1,1,25"], [0.0, 0.0, 2.0]),
        // Means and scales follow the order that is sent.
        (&["--bgr", "--mean=50,100,190"], [0.0, 0.0, 10.0]),
    ] {
        let args = [&["fullsize", "-i", &image], flags].concat();
        let answer: Vec<f64> = serde_json::from_value(data(server, GRPC, &args)).unwrap();
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.01;
        assert!(
            answer.iter().zip(&means).all(is_near),
            "{flags:?}: {answer:?}"
        );
    }
}

/// Pixels are the same from the client as from the server, whatever EXIF says of how the image lies.
#[test]
fn an_image_lies_the_same_whoever_decodes_it() {
    let server = Server::shared("image_any");
    let folder = repository::folder();
    let path = folder.path().join("lies.jpg");
    let half = |x, _| image::Rgb(if x < 16 { [250, 10, 10] } else { [10, 10, 250] });
    image::RgbImage::from_fn(32, 16, half).save(&path).unwrap();
    // Behind the start: an EXIF segment with the orientation 6.
    let exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let mut file = std::fs::read(&path).unwrap();
    file.splice(2..2, exif.iter().copied());
    std::fs::write(&path, file).unwrap();
    let file = path.display();
    let here = infer(
        server,
        GRPC,
        &[
            "image_any",
            "-i",
            &format!("image=@{file}"),
            "--bgr",
            "--output",
            "json",
        ],
    );
    let there = infer(
        server,
        GRPC,
        &[
            "image_any",
            "-i",
            &format!("image:BYTES=@{file}"),
            "--output",
            "json",
        ],
    );
    let output = |run: &cli::Run| {
        let answer: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let output = answer["outputs"][0].clone();
        let data: Vec<f64> = serde_json::from_value(output["data"].clone()).unwrap();
        (output["shape"].clone(), data)
    };
    let ((shape, one), (other_shape, other)) = (output(&here), output(&there));
    assert_eq!((&shape, &shape), (&json!([1, 16, 32, 3]), &other_shape));
    let mut pairs = one.iter().zip(&other);
    assert!(pairs.all(|(a, b)| (a - b).abs() < 8.0), "{one:?} {other:?}");
    let warning = format!("warning: the EXIF orientation of {file} is not applied");
    assert!(here.stderr.contains(&warning), "{}", here.stderr);
}
