"""Where the next page of a list begins, as text that only we read.

A cursor holds the number of the last record that was read, so it stays right
whatever is added or removed; and which list it is of.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from .errors import InvalidArgument

_MOST: Final = 400  # characters
_LARGEST: Final = 2**63


def written(place: str, after: int) -> str:
    """The cursor behind record number ``after`` of the list ``place``."""
    return base64.urlsafe_b64encode(f"{place} {after}".encode()).decode().rstrip("=")


def read(place: str, cursor: str | None) -> int:
    """The number it holds; 0, the beginning, for none.

    Raises:
      InvalidArgument: if it is no cursor of this list.
    """
    if cursor is None:
        return 0
    try:
        padded = cursor[:_MOST] + "=" * (-len(cursor[:_MOST]) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        where, _, digits = text.rpartition(" ")
        if where == place and digits.isdigit() and (after := int(digits)) < _LARGEST:
            return after
    except (ValueError, binascii.Error):
        pass
    raise InvalidArgument("cursor is not one that this list has given out")
