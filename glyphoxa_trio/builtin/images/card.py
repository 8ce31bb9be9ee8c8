"""A parchment card for a prompt, drawn here, for users without an image model.

The same prompt, style and size give the same card, to the byte: all randomness comes
from their hash.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import attrs

import trio

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

_SMALLEST, _LARGEST = 256, 2048  # pixels of a side
_MOST_LETTERS: Final = 600  # characters of the prompt that are written
_COLOURS: Final = 64  # in the palette of the file

Colour = tuple[int, int, int]


@attrs.frozen
class _Palette:
    words: frozenset[str]
    paper: Colour
    edge: Colour
    ink: Colour
    accent: Colour


def _palette(
    words: str, paper: Colour, edge: Colour, ink: Colour, accent: Colour
) -> _Palette:
    return _Palette(frozenset(words.split()), paper, edge, ink, accent)


_PALETTES: Final = (
    _palette(
        "parchment old map plain ink sepia",
        *((226, 204, 160), (150, 112, 62), (58, 36, 18), (122, 30, 20)),
    ),
    _palette(
        "dark night grim horror shadow gothic",
        *((74, 66, 72), (26, 22, 28), (224, 214, 198), (168, 52, 58)),
    ),
    _palette(
        "forest nature green elven druid wild",
        *((208, 210, 164), (92, 112, 62), (36, 48, 24), (60, 110, 54)),
    ),
    _palette(
        "sea water ice cold winter blue",
        *((202, 214, 218), (84, 112, 134), (24, 40, 58), (40, 92, 140)),
    ),
    _palette(
        "fire war blood battle red dragon",
        *((226, 188, 148), (140, 62, 36), (60, 18, 10), (176, 40, 20)),
    ),
    _palette(
        "royal gold magic arcane noble bright",
        *((238, 222, 180), (168, 134, 56), (52, 30, 66), (150, 112, 24)),
    ),
)


def installed() -> bool:
    return find_spec("PIL") is not None


def size_of(text: str) -> tuple[int, int]:
    """Return width and height in pixels, moved into the limits of a card.

    Raises:
      ValueError: if ``text`` is no size.
    """
    if text == "auto":
        return 1024, 1024
    width, cross, height = text.partition("x")
    if not (cross and width.isdecimal() and height.isdecimal() and len(text) < 12):
        raise ValueError("size: must be width and height, as in 1024x1024, or auto")
    sides = (min(_LARGEST, max(_SMALLEST, int(side))) for side in (width, height))
    return next(sides), next(sides)


@attrs.frozen
class Card:
    """A painter of parchment cards. ``size`` is width and height in pixels."""

    size: tuple[int, int] = (1024, 1024)

    @property
    def label(self) -> str:
        return "a parchment card"

    async def paint(self, prompt: str, style: str) -> bytes:
        """Return a card as a PNG, drawn in a thread, which takes half a second.

        If cancelled, returns at once; the thread ends soon and its card is dropped.
        """
        # Abandoned when cancelled: it ends soon and touches nothing.
        return await trio.to_thread.run_sync(
            drawn, prompt, style, self.size, abandon_on_cancel=True
        )


def drawn(prompt: str, style: str, size: tuple[int, int]) -> bytes:
    """Return the card as a PNG. Blocks while it draws."""
    from PIL import Image, ImageDraw

    seed = sha256(f"{prompt}\0{style}".encode()).digest()
    chance = random.Random(seed)
    palette = _chosen(style, chance)
    image = _paper(size, palette, chance, Image)
    draw = ImageDraw.Draw(image)
    margin = max(16, min(size) // 18)
    _border(draw, size, margin, palette)
    _ornament(draw, (size[0] // 2, 2 * margin), margin, palette, chance)
    _ornament(draw, (size[0] // 2, size[1] - 2 * margin), margin, palette, chance)
    _words(draw, prompt, size, 3 * margin, palette)
    file = io.BytesIO()
    image.quantize(_COLOURS).save(file, "PNG", optimize=False)
    return file.getvalue()


def _chosen(style: str, chance: random.Random) -> _Palette:
    words = set(style.casefold().split())
    best = max(_PALETTES, key=lambda palette: len(palette.words & words))
    if best.words & words:
        return best
    return chance.choice(_PALETTES) if style else _PALETTES[0]


def _paper(
    size: tuple[int, int], palette: _Palette, chance: random.Random, pil: Any
) -> Image.Image:
    """Draw the paper: stains of two sizes, and a darkened edge."""
    paper = pil.new("RGB", size, palette.paper)
    stained = pil.new("RGB", size, palette.edge)
    for grain, share in ((6, 0.30), (40, 0.16)):
        noise = pil.frombytes("L", (grain, grain), chance.randbytes(grain * grain))
        mask = noise.resize(size, pil.Resampling.BICUBIC)
        paper = pil.composite(stained, paper, mask.point(_times(share)))
    # The inverse of a soft light in the middle.
    light = pil.radial_gradient("L").resize(size, pil.Resampling.BILINEAR)
    edge: Image.Image = pil.composite(stained, paper, light.point(_edge))
    return edge


def _times(share: float) -> Callable[[int], int]:
    return lambda value: int(value * share)


def _edge(value: int) -> int:
    return max(0, int((value - 120) * 1.3))


def _border(
    draw: ImageDraw.ImageDraw, size: tuple[int, int], margin: int, palette: _Palette
) -> None:
    width, height = size[0] - 1, size[1] - 1
    for inset, thick in ((margin, 3), (margin + 8, 1)):
        box = (inset, inset, width - inset, height - inset)
        draw.rectangle(box, outline=palette.ink, width=thick)
    half = margin // 2
    for x in (margin, width - margin):
        for y in (margin, height - margin):
            points = [(x - half, y), (x, y - half), (x + half, y), (x, y + half)]
            draw.polygon(points, fill=palette.accent, outline=palette.ink)


def _ornament(
    draw: ImageDraw.ImageDraw,
    at: tuple[int, int],
    reach: int,
    palette: _Palette,
    chance: random.Random,
) -> None:
    x, y = at
    long = reach * chance.randint(3, 5)
    draw.line((x - long, y, x + long, y), fill=palette.accent, width=2)
    for step in range(chance.randint(1, 3)):
        half = max(2, reach // 3 - step * 3)
        whole = chance.random() < 0.5
        for side in (-1, 1):
            middle = x + side * (long * (step + 1) // 4)
            box = (middle - half, y - half, middle + half, y + half)
            if whole:
                draw.ellipse(box, outline=palette.ink, width=2)
            else:
                draw.arc(box, 0, 180, fill=palette.ink, width=2)


def _words(
    draw: ImageDraw.ImageDraw,
    prompt: str,
    size: tuple[int, int],
    inset: int,
    palette: _Palette,
) -> None:
    """Write the prompt in the middle, in lines, as large as it fits."""
    from PIL import ImageFont

    text = prompt if len(prompt) <= _MOST_LETTERS else prompt[:_MOST_LETTERS] + " …"
    wide, high = size[0] - 2 * inset, size[1] - 2 * inset
    for points in range(max(14, min(size) // 12), 9, -2):
        font = ImageFont.load_default(points)
        lines = _lines(text, wide, partial(draw.textlength, font=font))
        step = int(points * 1.4)
        if len(lines) * step <= high:
            break
    lines = lines[: max(1, high // step)]
    top = (size[1] - len(lines) * step) // 2
    for number, line in enumerate(lines):
        middle = (size[0] // 2, top + number * step + step // 2)
        draw.text(middle, line, fill=palette.ink, font=font, anchor="mm")


def _lines(text: str, wide: int, length: Callable[[str], float]) -> list[str]:
    lines: list[str] = []
    line = ""
    for word in text.split():
        while length(word) > wide and len(word) > 1:  # the word is wider than a line
            fits = max(1, int(len(word) * wide / length(word)) - 1)
            lines += [line] if line else []
            lines, line, word = [*lines, word[:fits]], "", word[fits:]
        longer = f"{line} {word}".strip()
        if line and length(longer) > wide:
            lines.append(line)
            line = word
        else:
            line = longer
    return [*lines, line] if line else lines
