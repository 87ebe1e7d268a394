//! Sounds from bytes that the tests make.

use std::io::Cursor;

use hound::{SampleFormat, WavSpec, WavWriter};

use super::{
    Beginning, FileKind, SampleForm, SampleRest, Sound, SoundCut, SoundError, SoundStream, loudest,
    of_wav,
};

fn wav(channels: u16, samples: &[i16]) -> Vec<u8> {
    let spec = WavSpec {
        channels,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec).unwrap();
    for sample in samples {
        writer.write_sample(*sample).unwrap();
    }
    writer.finalize().unwrap();
    file.into_inner()
}

#[test]
fn samples_are_from_minus_one_to_one_and_channels_are_mixed() {
    let mono = [0, 16384, -32768];
    let read = |file: &[u8]| {
        let sound = of_wav(file).unwrap();
        (sound.samples.to_vec(), sound.rate)
    };
    assert_eq!(read(&wav(1, &mono)), (vec![0.0, 0.5, -1.0], Some(16_000)));
    let stereo = [0, 16384, -32768, 0];
    assert_eq!(read(&wav(2, &stereo)).0, [0.25, -0.5]);
    let raw: Vec<u8> = mono
        .iter()
        .flat_map(|sample| sample.to_le_bytes())
        .collect();
    assert_eq!(SampleForm::I16.read(&raw), [0.0, 0.5, -1.0]);
    assert!(of_wav(b"RIFFxxxxWAVE").is_err());
    // As programs write it to a pipe, with half a sample at the end.
    let mut piped = wav(1, &mono);
    let at = piped.len() - 2 * mono.len() - 4;
    piped[at..at + 4].copy_from_slice(&[0xFF; 4]);
    piped.push(1);
    assert_eq!(read(&piped).0, [0.0, 0.5, -1.0]);
    assert_eq!(of_wav(&piped).unwrap().cut, None);
    // One that was cut short within a sample.
    let cut = wav(1, &[0, 16384, -32768, 8192]);
    assert_eq!(of_wav(&cut).unwrap().cut, None);
    let cut = of_wav(&cut[..cut.len() - 3]).unwrap();
    assert_eq!(*cut.samples, [0.0, 0.5]);
    let missing = SoundCut {
        expected: 8,
        found: 4,
    };
    assert_eq!(cut.cut, Some(missing));
}

#[test]
fn chunks_of_an_odd_length_are_passed_over() {
    let samples = [0, 16384, -32768];
    let mut file = wav(1, &samples);
    let data = file.len() - 6 - 8;
    file.splice(data..data, *b"LIST\x0b\0\0\0INFOISFTabc\0");
    // Before the form of the samples, and behind the samples.
    file.splice(12..12, *b"note\x01\0\0\0a\0");
    file.extend(*b"LIST\x03\0\0\0abc\0");
    let sound = of_wav(&file).unwrap();
    assert_eq!(*sound.samples, [0.0, 0.5, -1.0]);
    assert_eq!((sound.rate, sound.cut), (Some(16_000), None));
    let sound = of_wav(&file[..file.len() - 13]).unwrap();
    assert_eq!(*sound.samples, [0.0, 0.5]);
    let missing = SoundCut {
        expected: 6,
        found: 4,
    };
    assert_eq!(sound.cut, Some(missing));
}

#[test]
fn a_recording_that_was_not_finished_is_read_to_its_end() {
    let mut file = wav(1, &[0, 16384, -32768]);
    let at = file.len() - 6 - 4;
    file[at..at + 4].copy_from_slice(&[0; 4]);
    // Half a sample at the end is none.
    file.push(1);
    let sound = of_wav(&file).unwrap();
    assert_eq!(*sound.samples, [0.0, 0.5, -1.0]);
    let unfinished = SoundCut {
        expected: 0,
        found: 6,
    };
    assert_eq!(sound.cut, Some(unfinished));
    // One without samples may have something else behind them.
    let mut empty = wav(1, &[]);
    empty.extend(*b"LIST\x03\0\0\0abc\0");
    let sound = of_wav(&empty).unwrap();
    assert_eq!((sound.samples.len(), sound.cut), (0, None));
}

#[test]
fn a_stream_may_have_less_than_its_header_tells() {
    let whole = wav(2, &[0, 16384, -32768, 8192]);
    let cut = |stream: &[u8]| {
        let mut sound = SoundStream::open(stream, FileKind::Pcm16).unwrap();
        let form = sound.form();
        let samples = sound.next(9).unwrap().0;
        form.cut(samples.len() as u64)
    };
    assert_eq!(cut(&whole), None);
    let missing = SoundCut {
        expected: 8,
        found: 4,
    };
    assert_eq!(cut(&whole[..whole.len() - 1]), Some(missing));
    // Whoever records into a pipe does not know the length.
    let mut piped = whole.clone();
    let at = piped.len() - 12;
    piped[at..at + 4].copy_from_slice(&0x7FFF_FFFF_u32.to_le_bytes());
    assert_eq!(cut(&piped), None);
    // Nor does one that has not come to its end.
    piped[at..at + 4].copy_from_slice(&[0; 4]);
    let unfinished = SoundCut {
        expected: 0,
        found: 8,
    };
    assert_eq!(cut(&piped), Some(unfinished));
    assert_eq!(cut(&wav(1, &[])), None);
    assert_eq!(cut(&[0, 1]), None);
}

#[test]
fn bytes_behind_the_last_sample_are_found() {
    let rest = |bytes, sample| Some(SampleRest { bytes, sample });
    for (kind, length, expected) in [
        (FileKind::Pcm16, 4, None),
        (FileKind::Pcm16, 5, rest(1, 2)),
        (FileKind::Float32, 7, rest(3, 4)),
    ] {
        let bytes = vec![0; length];
        assert_eq!(Sound::of_samples(&bytes, kind).unwrap().rest, expected);
        let stream = &bytes[..];
        let mut sound = SoundStream::open(stream, kind).unwrap();
        let form = sound.form();
        let (_, read) = sound.next(9).unwrap();
        assert_eq!((read, form.rest(read)), (length as u64, expected));
    }
    // Behind a header the first sample is where it should be.
    let file = wav(1, &[0, 1]);
    let stream = &file[..];
    let sound = SoundStream::open(stream, FileKind::Pcm16).unwrap();
    assert_eq!(sound.form().rest(3), None);
}

#[test]
fn a_stream_may_begin_with_a_header() {
    let samples = [0, 16384, -32768, 8192, 0];
    let raw: Vec<u8> = samples
        .iter()
        .flat_map(|it: &i16| it.to_le_bytes())
        .collect();
    for (stream, rate) in [(raw, None), (wav(1, &samples), Some(16000))] {
        let stream = &stream[..];
        let mut sound = SoundStream::open(stream, FileKind::Pcm16).unwrap();
        let form = sound.form();
        assert_eq!((form.channels, form.rate), (1, rate));
        assert_eq!(sound.next(2).unwrap().0, [0.0, 0.5]);
        assert_eq!(sound.next(2).unwrap().0, [-1.0, 0.25]);
        assert_eq!(sound.next(2).unwrap().0, [0.0]);
        assert_eq!(sound.next(2).unwrap().0, [0.0; 0]);
    }
}

#[test]
fn a_stream_of_floats_is_read_as_it_is() {
    let samples = [0.0_f32, 0.5, -1.0, 2.0];
    let raw: Vec<u8> = samples.iter().flat_map(|it| it.to_le_bytes()).collect();
    let spec = WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 32,
        sample_format: SampleFormat::Float,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec).unwrap();
    for sample in samples {
        writer.write_sample(sample).unwrap();
    }
    writer.finalize().unwrap();
    // Two bytes behind the last sample are none.
    for (stream, rate) in [
        ([&raw[..], &[1, 2]].concat(), None),
        (file.into_inner(), Some(16_000)),
    ] {
        let stream = &stream[..];
        let mut sound = SoundStream::open(stream, FileKind::Float32).unwrap();
        let form = sound.form();
        assert_eq!((form.channels, form.rate), (1, rate));
        assert_eq!(sound.next(3).unwrap().0, [0.0, 0.5, -1.0]);
        assert_eq!(sound.next(3).unwrap().0, [2.0]);
        assert_eq!(sound.next(3).unwrap().0, [0.0; 0]);
    }
}

#[test]
fn a_stream_has_the_samples_that_its_header_tells() {
    for (bits, sample_format) in [
        (8, SampleFormat::Int),
        (16, SampleFormat::Int),
        (24, SampleFormat::Int),
        (32, SampleFormat::Int),
        (32, SampleFormat::Float),
    ] {
        let spec = WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: bits,
            sample_format,
        };
        let mut file = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut file, spec).unwrap();
        let whole = [0, 1 << (bits - 2), i32::MIN >> (32 - bits), 1 << (bits - 3)];
        for (sample, whole) in [0.0_f32, 0.5, -1.0, 0.25].into_iter().zip(whole) {
            match sample_format {
                SampleFormat::Float => writer.write_sample(sample).unwrap(),
                SampleFormat::Int => writer.write_sample(whole).unwrap(),
            }
        }
        writer.finalize().unwrap();
        let mut file = file.into_inner();
        assert_eq!(*of_wav(&file).unwrap().samples, [0.0, 0.5, -1.0, 0.25]);
        // A chunk of an odd length, and the byte behind it.
        let at = file.windows(4).position(|it| it == b"data").unwrap();
        file.splice(at..at, *b"note\x03\0\0\0abc\0");
        for kind in [FileKind::Pcm16, FileKind::Float32] {
            let stream = &file[..];
            let mut sound = SoundStream::open(stream, kind).unwrap();
            let form = sound.form();
            let samples = sound.next(9).unwrap().0;
            assert_eq!(samples, [0.0, 0.5, -1.0, 0.25], "{bits} {sample_format:?}");
            assert_eq!(form.cut(4), None);
        }
    }
}

/// Returns why a file is not read, which is the same as it comes by a stream.
fn refused(file: &[u8]) -> String {
    let error = of_wav(file).unwrap_err();
    let of_stream = SoundStream::open(file, FileKind::Pcm16).unwrap_err();
    assert_eq!(error.to_string(), of_stream.to_string());
    error.to_string()
}

#[test]
fn samples_of_other_forms_are_named() {
    let expected = "expected 8, 16, 24 or 32 bits in format 1 (whole numbers), or FP32 (format 3)";
    for (format, name) in [
        (2, "ADPCM, "),
        (6, "A-law, "),
        (7, "\u{b5}-law, "),
        (0x55, "MP3, "),
        (99, ""),
    ] {
        let mut file = wav(1, &[0]);
        file[20] = format;
        let found = format!("found samples of {name}16 bits in format {format}, {expected}");
        assert_eq!(refused(&file), found);
    }
    // One that has no number, but an identifier.
    let mut file = wav(1, &[0]);
    file[20..22].copy_from_slice(&[0xFE, 0xFF]);
    file[16] = 40;
    file.splice(
        36..36,
        [[22, 0, 16, 0, 0, 0, 0, 0], [1, 0, 9, 9, 9, 9, 9, 9], [9; 8]].concat(),
    );
    assert_eq!(
        refused(&file),
        format!(
            "found samples of a form without a number of its own, 16 bits in format 65534, {expected}"
        )
    );
}

#[test]
fn headers_that_are_not_whole_are_reported() {
    let file = wav(1, &[0, 1]);
    for length in [4, 11, 14, 30, 39, 43] {
        assert_eq!(
            refused(&file[..length]),
            "found its end within the header, before the samples",
            "{length}"
        );
    }
    let mut formless = file.clone();
    formless.drain(12..36);
    assert_eq!(
        refused(&formless),
        "found no form of the samples in its header"
    );
}

#[test]
fn other_formats_are_known_by_their_first_bytes() {
    for (bytes, name) in [
        (&b"fLaC\0\0\0\"\x10"[..], "a FLAC file"),
        (b"OggS", "an Ogg file (Vorbis or Opus)"),
        (b"ID3\x04", "an MP3 file"),
        (
            b"RF64\xff\xff\xff\xffWAVE",
            "an RF64 file, as WAV files of more than 4 GiB are",
        ),
        (b"FORM\0\0\0\0AIFF", "an AIFF file"),
        (b"caff\0\x01", "a CAF file"),
        (b"\0\0\0\x20ftypM4A ", "an MP4 or M4A file"),
        (
            b"RIFF\0\0\0\0AVI LIST",
            "a RIFF file of another kind than WAV",
        ),
    ] {
        let found = format!(
            "found the beginning of {name}, expected a WAV file, or samples without a header"
        );
        assert_eq!(refused(bytes), found);
        for kind in [FileKind::Pcm16, FileKind::Float32] {
            let error = Sound::of_samples(bytes, kind).unwrap_err();
            assert_eq!(error.to_string(), found);
        }
    }
    assert_eq!(
        refused(b"\x89PNG\r\n\x1a\n"),
        "found the beginning of a PNG image, expected a sound"
    );
    // What is no sound yet, and what begins like another format.
    for bytes in [
        &b""[..],
        b"fLa",
        b"\0\0\0\0\0\0\0\0",
        b"\0\0\0\x20ftyq",
        b"RIFE",
    ] {
        assert_eq!(Beginning::of(bytes), Beginning::Unknown);
        assert!(matches!(of_wav(bytes), Err(SoundError::NoHeader)));
        let mut sound = SoundStream::open(bytes, FileKind::Pcm16).unwrap();
        let (samples, read) = sound.next(9).unwrap();
        assert_eq!((samples.len(), read), (bytes.len() / 2, bytes.len() as u64));
    }
    // A header says more than the name of a file.
    let file = wav(1, &[16384]);
    let sound = Sound::of_samples(&file, FileKind::Float32).unwrap();
    assert_eq!((&*sound.samples, sound.rate), (&[0.5][..], Some(16_000)));
}

/// Stream whose bytes come one by one, and that counts them.
struct Dripping<'a>(&'a [u8], usize);

impl std::io::Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(buffer.len()).min(1);
        let (now, rest) = self.0.split_at(count);
        buffer[..count].copy_from_slice(now);
        (self.0, self.1) = (rest, self.1 + count);
        Ok(count)
    }
}

#[test]
fn no_more_of_a_stream_is_awaited_than_shows_its_format() {
    for (bytes, most) in [(&[1, 2, 3, 4, 5, 6][..], 1), (&[0; 6], 5), (b"RIFE..", 4)] {
        let mut stream = Dripping(bytes, 0);
        SoundStream::open(&mut stream, FileKind::Pcm16).unwrap();
        assert_eq!(stream.1, most, "{bytes:?}");
    }
    let file = wav(1, &[16384, 0]);
    let mut sound = SoundStream::open(Dripping(&file, 0), FileKind::Pcm16).unwrap();
    assert_eq!(sound.next(9).unwrap().0, [0.5, 0.0]);
}

#[test]
fn what_follows_the_samples_is_not_heard() {
    let file = wav(1, &[16384, 0]);
    let chunk = *b"LIST\x04\0\0\0abcd";
    for (behind, goes_on) in [
        (&b""[..], false),
        (&chunk, false),
        (b"\n", false),
        (&file, true),
        (b"\xff\xff\xff\xff", true),
    ] {
        let whole = [&file[..], behind].concat();
        let sound = of_wav(&whole).unwrap();
        assert_eq!((&*sound.samples, sound.goes_on), (&[0.5, 0.0][..], goes_on));
        let mut stream = SoundStream::open(&whole[..], FileKind::Pcm16).unwrap();
        assert_eq!(stream.next(9).unwrap(), (vec![0.5, 0.0], 4));
        assert_eq!(stream.next(9).unwrap(), (vec![], 0));
        assert_eq!(stream.goes_on().unwrap(), goes_on);
    }
    // An odd length has a byte behind it.
    let mut odd = file[..file.len() - 4].to_vec();
    odd[34] = 8;
    odd[28..32].copy_from_slice(&16_000_u32.to_le_bytes());
    odd[32] = 1;
    odd[40] = 3;
    odd.extend([192, 128, 192, 0]);
    odd.extend(chunk);
    let sound = of_wav(&odd).unwrap();
    assert_eq!(
        (&*sound.samples, sound.goes_on),
        (&[0.5, 0.0, 0.5][..], false)
    );
    let mut stream = SoundStream::open(&odd[..], FileKind::Pcm16).unwrap();
    assert_eq!(stream.next(9).unwrap().0, [0.5, 0.0, 0.5]);
    assert!(!stream.goes_on().unwrap());
    // Without a length all of it is heard.
    let mut piped = file.clone();
    piped[40..44].copy_from_slice(&[0xFF; 4]);
    piped.extend(chunk);
    let mut stream = SoundStream::open(&piped[..], FileKind::Pcm16).unwrap();
    assert_eq!(stream.next(99).unwrap().1, 16);
    assert!(!stream.goes_on().unwrap());
}

#[test]
fn the_loudest_sample_is_a_number() {
    assert_eq!(loudest(&[0.5, -3.0, f32::NAN, f32::INFINITY]), 3.0);
    assert_eq!(loudest(&[]), 0.0);
}
