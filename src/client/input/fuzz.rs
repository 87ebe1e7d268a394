//! Fuzz targets of inputs that come from elsewhere: sounds, and what another command has written.

use super::{
    FileKind, SoundForm, SoundStream,
    audio::{RIFF, SampleForm, Sound, of_wav},
    piped,
};

/// Maximum number of samples that are read of a stream at once.
const MAX_SAMPLES: usize = 256;

/// A sound, as a file and as a stream. There are never more samples than bytes.
pub(crate) fn wav(data: &[u8]) {
    if let Ok(Sound { samples, .. }) = of_wav(data) {
        assert!(samples.len() <= data.len());
    }
    assert_eq!(SampleForm::I16.read(data).len(), data.len() / 2);
    let Ok(mut stream) = SoundStream::open(data, FileKind::Pcm16) else {
        return;
    };
    let SoundForm {
        samples, channels, ..
    } = stream.form();
    let length = samples.length();
    assert!(channels > 0 && (channels == 1 || data.starts_with(RIFF)));
    let mut read = 0;
    loop {
        let samples = stream.next(MAX_SAMPLES);
        let (samples, _) = samples.expect("memory can be read");
        if samples.is_empty() {
            break;
        }
        assert!(samples.len() <= MAX_SAMPLES);
        read += samples.len();
    }
    assert!(read * length * channels <= data.len());
}

/// An answer of another command, or of a server.
pub(crate) fn piped(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let head = piped::head(&text);
    match piped::outputs(&text) {
        Some(Ok(outputs)) => assert!(!outputs.is_empty()),
        Some(Err(error)) => assert!(!error.to_string().is_empty()),
        None => assert!(head.is_none()),
    }
}
