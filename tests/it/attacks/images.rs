//! Images that are small on the wire.

use std::{fs, io::Write as _};

use flate2::{Compression, write::ZlibEncoder};

use super::memory::{BUDGET, Growth, WITH_BUDGET};
use crate::support::{
    Server,
    bytes::framed,
    fixture,
    grpc::{Grpc, raw},
};

/// Returns a JPEG image of a few pixels, whose header claims 8000 by 8000.
fn claims() -> Vec<u8> {
    let image = image::RgbImage::from_pixel(8, 8, image::Rgb([1, 2, 3]));
    let mut file = std::io::Cursor::new(Vec::new());
    image
        .write_to(&mut file, image::ImageFormat::Jpeg)
        .expect("a Vec takes it");
    let mut file = file.into_inner();
    // The frame header: marker, length, precision, height, width.
    let frame = file
        .windows(2)
        .position(|pair| pair == [0xff, 0xc0])
        .expect("it is a baseline JPEG");
    for side in [frame + 5, frame + 7] {
        file[side..side + 2].copy_from_slice(&8000_u16.to_be_bytes());
    }
    file
}

/// Returns a PNG image with a compressed profile of 400 MB.
fn profiled() -> Vec<u8> {
    let image = image::RgbImage::from_pixel(8, 8, image::Rgb([1, 2, 3]));
    let mut file = std::io::Cursor::new(Vec::new());
    image
        .write_to(&mut file, image::ImageFormat::Png)
        .expect("a Vec takes it");
    let mut file = file.into_inner();
    let mut packed = ZlibEncoder::new(b"a\0\0".to_vec(), Compression::best());
    for _ in 0..400 {
        packed.write_all(&vec![0; 1 << 20]).expect("a Vec takes it");
    }
    let profile = packed.finish().expect("a Vec takes it");
    let mut chunk = u32::try_from(profile.len())
        .expect("it is short")
        .to_be_bytes()
        .to_vec();
    let mut sum = flate2::Crc::new();
    sum.update(b"iCCP");
    sum.update(&profile);
    chunk.extend(b"iCCP");
    chunk.extend(&profile);
    chunk.extend(sum.sum().to_be_bytes());
    // Behind the signature and the header, which has 25 bytes.
    file.splice(33..33, chunk);
    file
}

/// Sends the same image eight times at once; returns all responses.
fn eight(server: &Server, image: &[u8]) -> Vec<Result<usize, String>> {
    let grpc = Grpc::connect(server);
    let request = || raw("image_any", "image", "BYTES", &[1], &framed(&[image]));
    let calls: Vec<_> = (0..8).map(|_| grpc.call(request())).collect();
    let answers = calls.into_iter().map(|call| call.wait());
    answers
        .map(|answer| match answer {
            Ok(answer) => Ok(answer.raw_output_contents[0].len()),
            Err(status) => Err(crate::support::grpc::error(&status)),
        })
        .collect()
}

#[test]
fn what_a_header_claims_is_charged_before_it_is_decoded_and_profiles_are_not_unpacked() {
    let server = Server::start_with("image_any", &[WITH_BUDGET]);
    let image = claims();
    assert!(image.len() < 1000);
    let growth = Growth::of(&server);
    for answer in eight(&server, &image) {
        assert_eq!(
            answer.unwrap_err(),
            format!(
                "ResourceExhausted: Request is too large - it needs more than {BUDGET} bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight"
            )
        );
    }
    growth.check();
    let small = fs::read(fixture("images/star.png")).unwrap();
    let served = eight(&server, &small);
    assert!(served.iter().all(Result::is_ok), "{served:?}");

    let image = profiled();
    assert!(image.len() < 1 << 20);
    for answer in eight(&server, &image) {
        assert_eq!(answer, Ok(8 * 8 * 3 * 4));
    }
    growth.check();
}

#[test]
fn copies_of_images_count() {
    let server = Server::start_with("image_any", &[WITH_BUDGET]);
    let image = image::RgbImage::from_pixel(8, 8, image::Rgb([1, 2, 3]));
    let mut file = std::io::Cursor::new(Vec::new());
    image
        .write_to(&mut file, image::ImageFormat::Png)
        .expect("a Vec takes it");
    let mut file = file.into_inner();
    // What the first call takes is not of the image.
    drop(eight(&server, &file));
    let chunk = |name: &[u8; 4], contents: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(contents);
        let length = u32::try_from(contents.len()).expect("it is small");
        let parts: [&[u8]; 4] = [
            &length.to_be_bytes(),
            name,
            contents,
            &sum.sum().to_be_bytes(),
        ];
        parts.concat()
    };
    // One chunk that is left out, and one of 20 MB that is not.
    let end = file.len() - 12;
    let more = [
        chunk(b"tEXt", b"a\0b"),
        chunk(b"IDAT", &vec![0; 20_000_000]),
    ]
    .concat();
    file.splice(end..end, more);
    let growth = Growth::of(&server);
    drop(eight(&server, &file));
    // Frames of 1 MiB that were copied stay with the allocator for some milliseconds. Uncounted, the copies would
    // be 60 MB more.
    growth.check_for(BUDGET + (16 << 20));
}

#[test]
fn images_that_are_cut_short_are_refused() {
    let server = Server::shared("image_any");
    for extension in ["jpg", "png"] {
        let whole = fs::read(fixture(&format!("images/star.{extension}"))).unwrap();
        for cut in [whole.len() / 2, whole.len() - 2] {
            let answers = eight(server, &whole[..cut]);
            let expected = "InvalidArgument: Image parsing failed - image 0: found no end of the image: it is cut short; input name: image";
            assert!(
                answers
                    .iter()
                    .all(|answer| answer.as_ref() == Err(&expected.to_owned())),
                "{extension}, {cut}: {answers:?}"
            );
        }
    }
}
