"""Reads PNG files with the standard library alone: of 8 bits a channel, and not interlaced."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Channels by colour type: grey, RGB, palette, grey and alpha, RGBA.
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


class Unreadable(ValueError):
    """The file is no such PNG."""


def read(path):
    """The rows of an image, each a list of (red, green, blue)."""
    with open(path, "rb") as file:
        data = file.read()
    if not data.startswith(SIGNATURE):
        raise Unreadable(f"{path} is no PNG")
    try:
        return decoded(path, list(parts(data)))
    except (struct.error, zlib.error, IndexError) as error:
        raise Unreadable(f"{path} is cut short or damaged: {error}") from error


def decoded(path, chunks):
    """The rows in the chunks of a file."""
    width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or interlace or kind not in CHANNELS:
        raise Unreadable(f"{path} has {depth} bits a channel, or is interlaced")
    palette = next((body for name, body in chunks if name == b"PLTE"), b"")
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    channels = CHANNELS[kind]
    rows = unfiltered(zlib.decompress(packed), width * channels, height, channels)
    return [[colour(row, at, channels, kind, palette) for at in range(width)] for row in rows]


def parts(data):
    """The chunks of a file: name and body."""
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += length + 12


def unfiltered(data, length, height, channels):
    """The rows of bytes as they were before they were made small."""
    before = bytes(length)
    for number in range(height):
        at = number * (length + 1)
        row = bytearray(data[at + 1 : at + 1 + length])
        for place, value in enumerate(row):
            left = row[place - channels] if place >= channels else 0
            corner = before[place - channels] if place >= channels else 0
            row[place] = (value + guess(data[at], left, before[place], corner)) & 255
        yield row
        before = row


def guess(kind, left, above, corner):
    """What a filter takes a byte for."""
    if kind == 4:
        nearest = left + above - corner
        return min((left, above, corner), key=lambda it: abs(nearest - it))
    return (0, left, above, (left + above) // 2)[kind]


def colour(row, at, channels, kind, palette):
    """One pixel."""
    pixel = row[at * channels : (at + 1) * channels]
    if kind == 3:
        return tuple(palette[3 * pixel[0] : 3 * pixel[0] + 3])
    return tuple(pixel[:3]) if channels > 2 else (pixel[0],) * 3


def shrunk(rows, width, height):
    """The image with so many pixels, each the mean of what it stands for."""
    return [
        [mean(rows, *span(x, width, len(rows[0])), *span(y, height, len(rows))) for x in range(width)]
        for y in range(height)
    ]


def span(place, count, length):
    """The pixels that one of `count` stands for."""
    start = place * length // count
    return start, max((place + 1) * length // count, start + 1)


def mean(rows, left, right, top, bottom):
    """The mean colour of a part of an image."""
    pixels = [pixel for row in rows[top:bottom] for pixel in row[left:right]]
    return tuple(sum(pixel[channel] for pixel in pixels) // len(pixels) for channel in range(3))
