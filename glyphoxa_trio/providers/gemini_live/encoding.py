"""Messages as text frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.providers.payloads import well_formed


def encoded(message: Mapping[str, Any]) -> str:
    """Encode a message as one text frame, without lone surrogates.

    Raises:
      ValueError: if it holds a number that JSON does not have.
    """
    text = json.dumps(
        message,
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
        default=dict,  # for a read-only mapping
    )
    return well_formed(text)
