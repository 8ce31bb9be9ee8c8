"""Anthropic's Messages API, at the vendor or at any server that supports it.

`Anthropic` is the model; `RequestOptions` holds the request's options and the model's
abilities. The protocol is in `wire` and `assembler`, without I/O; `link` sends it over
HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .link import VENDOR as VENDOR
from .link import Anthropic as Anthropic
from .wire import RequestOptions as RequestOptions

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Options="RequestOptions")
