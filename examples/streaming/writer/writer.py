"""A prompt in, words out: each is drawn from those that followed the two words before it in a story.

A language model would take the place of `follow`; how words reach the client stays the same.
"""

import collections
import pathlib
import random
import struct
import time
from collections.abc import Iterator

from pyovms import Tensor

# It ends with the first sentence that ends after so many words, or after the most.
ENOUGH, MOST = 30, 60
# How long a word takes: about what a small language model needs.
THINKING = 0.06


def first_text(data: bytes) -> str:
    """The first element of a BYTES tensor: its length in four bytes, and the text."""
    (length,) = struct.unpack_from("<I", data)
    return data[4 : 4 + length].decode()


def packed(text: str) -> bytes:
    """A BYTES tensor with one element: its length in four bytes, little endian, and the text."""
    data = text.encode()
    return len(data).to_bytes(4, "little") + data


class OvmsPythonModel:
    def initialize(self, kwargs: dict) -> None:
        words = (pathlib.Path(kwargs["base_path"]) / "story.txt").read_text().split()
        self.followers = collections.defaultdict(list)
        for first, second, third in zip(words, words[1:], words[2:]):
            self.followers[first.lower(), second.lower()].append(third)
            self.followers[second.lower()].append(third)
        self.starts = [word for word in words if word[0].isupper()]

    def follow(self, before: list[str]) -> str:
        """The next word."""
        last = tuple(word.lower() for word in before[-2:])
        known = self.followers.get(last) or self.followers.get(last[-1:] and last[-1])
        return random.choice(known or self.starts)

    def execute(self, inputs: list) -> Iterator[list]:
        words = first_text(bytes(inputs[0])).split()
        for count in range(1, MOST + 1):
            time.sleep(THINKING)
            words.append(self.follow(words))
            yield [Tensor("token", packed(words[-1]), shape=(1,), datatype="BYTES")]
            if count >= ENOUGH and words[-1].endswith("."):
                return
