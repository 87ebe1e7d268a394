"""What the examples draw with: colours, bars, and images of half blocks.

Colours are left out if NO_COLOR is set, and all drawing in a pipe or on a dumb terminal.
"""

import os
import shutil
import sys

DRAWS = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
COLOURS = DRAWS and not os.environ.get("NO_COLOR")
WIDTH = min(shutil.get_terminal_size((80, 24)).columns, 80)

GREEN, YELLOW, BLUE, GREY = "32", "33", "34", "90"
EIGHTHS = " ▏▎▍▌▋▊▉█"


def styled(text, *codes):
    """A text in the style of the codes, if there are colours."""
    if not COLOURS or not codes:
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def rgb(colour, ground=False):
    """The code of a colour, (red, green, blue), for letters or for what is behind them."""
    return f"{48 if ground else 38};2;" + ";".join(str(int(part)) for part in colour)


def note(text):
    """Says something beside the data: on stderr, and grey on a terminal."""
    if sys.stderr.isatty() and COLOURS:
        text = f"\x1b[{GREY}m{text}\x1b[0m"
    print(text, file=sys.stderr, flush=True)


def show(text="", end="\n"):
    """Prints at once, so that whoever watches sees it."""
    print(text, end=end, flush=True)


def restore():
    """Ends a line that was broken off, with the usual colours."""
    if DRAWS:
        show("\x1b[0m" if COLOURS else "")


def bar(share, columns):
    """A bar for a share of 0 to 1, in eighths of a column; of `#` without drawing."""
    if not DRAWS:
        return ("#" * round(share * columns)).ljust(columns)
    full, rest = divmod(round(share * columns * 8), 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(columns)


def half_blocks(pixels):
    """Lines of an image, two rows of pixels in each: the upper in front, the lower behind.

    Without colours a pixel is there or not, as it is darker or brighter than most.
    """
    lines = []
    rows = [*pixels]
    if len(rows) % 2:
        rows.append(rows[-1])
    light = sorted(sum(pixel) for row in rows for pixel in row)
    ground = light[len(light) // 2]
    for upper, lower in zip(rows[::2], rows[1::2]):
        if COLOURS:
            line = [styled("▀", rgb(one), rgb(two, ground=True)) for one, two in zip(upper, lower)]
        else:
            is_drawn = [[abs(sum(pixel) - ground) > 120 for pixel in row] for row in (upper, lower)]
            line = [" ▀▄█"[one + 2 * two] for one, two in zip(*is_drawn)]
        lines.append("".join(line))
    return lines
