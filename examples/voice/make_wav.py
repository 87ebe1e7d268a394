"""Makes `speech.wav` from the recording of the fixtures: the same three phrases, with longer pauses.

    python examples/voice/make_wav.py        # needs NumPy; the file is committed
"""

import pathlib
import wave

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CLIP = HERE.parents[1] / "fixtures" / "expected" / "vad_clip_16k.npy"
RATE, CHUNK = 16000, 512
# Where the phrases begin and end, in chunks; before the first there is only the room.
ROOM, PHRASES, PAUSES = (0, 13), ((0, 36), (37, 107), (109, 153)), (22, 28)


def main():
    chunks = np.load(CLIP).reshape(-1, CHUNK)
    room = chunks[slice(*ROOM)]
    pauses = [np.resize(np.concatenate([room, room[::-1]]), (length, CHUNK)) for length in PAUSES]
    phrases = [chunks[slice(*phrase)] for phrase in PHRASES]
    sound = np.concatenate([phrases[0], pauses[0], phrases[1], pauses[1], phrases[2]])
    with wave.open(str(HERE / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.astype("<i2").tobytes())


main()
