"""Draws scene.png: shapes on a table that a lamp lights from one side.

    python make_scene.py    # needs numpy and pillow
"""

import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 640, 360
FINE = 4  # pixels drawn for each that is kept
# Name, centre, radius, turn in degrees, colour.
THINGS = [
    ("star", (95, 90), 66, 20, (84, 24, 190)),
    ("ring", (245, 100), 56, 0, (40, 110, 190)),
    ("plus", (395, 88), 60, 35, (190, 70, 110)),
    ("hexagon", (545, 100), 60, 8, (70, 150, 80)),
    ("triangle", (110, 262), 66, -14, (230, 110, 40)),
    ("crescent", (262, 260), 64, 0, (130, 76, 20)),
    ("diamond", (405, 262), 62, 0, (30, 150, 160)),
    ("circle", (548, 262), 58, 0, (236, 30, 44)),
]


def polygon(count, radius, turn, inner=None):
    """The corners of a regular polygon, or of a star."""
    corners = []
    steps = count * (1 if inner is None else 2)
    for step in range(steps):
        reach = radius if inner is None or step % 2 == 0 else inner
        angle = math.radians(turn - 90 + 360 * step / steps)
        corners.append((reach * math.cos(angle), reach * math.sin(angle)))
    return corners


def plus(radius, turn):
    """The corners of a cross."""
    arm = radius * 0.34
    corners = [(-arm, -radius), (arm, -radius), (arm, -arm), (radius, -arm), (radius, arm), (arm, arm)]
    corners += [(-x, -y) for x, y in corners]
    sine, cosine = math.sin(math.radians(turn)), math.cos(math.radians(turn))
    return [(x * cosine - y * sine, x * sine + y * cosine) for x, y in corners]


def mask(name, centre, radius, turn):
    """Where a thing is: an image of the whole size, black and white."""
    image = Image.new("L", (WIDTH * FINE, HEIGHT * FINE))
    draw = ImageDraw.Draw(image)

    def fill(corners):
        draw.polygon([((x + centre[0]) * FINE, (y + centre[1]) * FINE) for x, y in corners], fill=255)

    def disc(right, down, size, value):
        x, y = centre[0] + right, centre[1] + down
        draw.ellipse([FINE * it for it in (x - size, y - size, x + size, y + size)], fill=value)

    if name in ("circle", "ring", "crescent"):
        disc(0, 0, radius, 255)
    if name == "ring":
        disc(0, 0, radius * 0.66, 0)
    elif name == "crescent":
        disc(radius * 0.42, radius * 0.24, radius * 0.86, 0)
    elif name == "plus":
        fill(plus(radius, turn))
    elif name == "star":
        fill(polygon(5, radius, turn, radius * 0.42))
    elif name == "diamond":
        fill([(0, -radius), (radius * 0.6, 0), (0, radius), (-radius * 0.6, 0)])
    elif name in ("triangle", "hexagon"):
        fill(polygon({"triangle": 3, "hexagon": 6}[name], radius, turn))
    return image


def main():
    """Draws the table, the things on it, and the grain of the film."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    light = 1.06 - 0.22 * x / WIDTH - 0.08 * y / HEIGHT
    scene = light[..., None] * np.array([222, 206, 180.0])
    for name, centre, radius, turn, colour in THINGS:
        drawn = mask(name, centre, radius, turn).resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        share = np.asarray(drawn, np.float64)[..., None] / 255
        scene = scene * (1 - share) + light[..., None] * np.array(colour) * share
    grain = np.random.default_rng(7).normal(0, 3.0, (HEIGHT, WIDTH, 1))
    scene = np.clip(scene + grain, 0, 255).astype(np.uint8)
    Image.fromarray(scene).save(Path(__file__).resolve().parent / "scene.png", optimize=True)


if __name__ == "__main__":
    main()
