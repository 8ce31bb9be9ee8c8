"""Recognising images by their header alone, without decoding them."""

from __future__ import annotations

import io
from typing import Final

import attrs

MAX_BYTES: Final = 8 * 1024 * 1024  # of one image
MAX_SIDE: Final = 4096  # pixels

_SUFFIXES: Final = {"png": ".png", "jpeg": ".jpg", "webp": ".webp", "gif": ".gif"}


class NoPicture(Exception):
    """The bytes are no image, or one that is not safe to open."""


@attrs.frozen(kw_only=True)
class Picture:
    """An image as it is in a file. ``width`` and ``height`` are in pixels."""

    data: bytes = attrs.field(repr=lambda data: f"{len(data)} bytes")
    mime: str
    width: int
    height: int

    @property
    def suffix(self) -> str:
        return _SUFFIXES[self.mime.partition("/")[2]]


def picture_of(data: bytes) -> Picture:
    """Return the image in these bytes. Only its header is read.

    Raises:
      NoPicture: if the bytes are no image, or it is too large to be shown.
    """
    from PIL import Image

    if len(data) > MAX_BYTES:
        raise NoPicture(f"it has more than {MAX_BYTES // 2**20} MiB")
    formats = [name.upper() for name in _SUFFIXES]
    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            kind, (width, height) = str(image.format).lower(), image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise NoPicture("it is too large when decoded") from None
    except Exception:  # border: the library reads bytes of any origin
        raise NoPicture("it is not a PNG, JPEG, WebP or GIF") from None
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise NoPicture(f"it has {width} times {height} pixels")
    return Picture(data=data, mime=f"image/{kind}", width=width, height=height)
