"""The start of the next page of a list, as an opaque text.

A cursor holds the number of the last record that was read, so it stays right if records
are added or removed. It also holds the name of its list.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from .errors import InvalidArgument

_MOST: Final = 400  # characters
_LARGEST: Final = 2**63


def written(place: str, after: int) -> str:
    """Return the cursor after record number ``after`` of the list ``place``."""
    return base64.urlsafe_b64encode(f"{place} {after}".encode()).decode().rstrip("=")


def read(place: str, cursor: str | None) -> int:
    """Return the number in a cursor; 0, the beginning, without one.

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
    raise InvalidArgument("cursor is not from this list")
