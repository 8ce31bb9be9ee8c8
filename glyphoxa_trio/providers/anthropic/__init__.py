"""Anthropic's Messages, at the vendor or at anybody who speaks it.

`Anthropic` is the model, `RequestOptions` what may be asked of it and what it cannot take.
The wire is in `wire` and `assembler`, free of I/O; `link` carries it over HTTP.
"""

from __future__ import annotations

from .link import VENDOR as VENDOR
from .link import Anthropic as Anthropic
from .wire import RequestOptions as RequestOptions
