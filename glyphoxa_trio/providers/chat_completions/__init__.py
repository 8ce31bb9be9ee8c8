"""Servers with OpenAI's chat completions API: Ollama, vLLM, llama.cpp, clouds.

`ChatCompletions` is the model; `RequestOptions` holds the request's options and the
model's abilities. The protocol is in `wire` and `assembler`, without I/O; `link` sends
it over HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .link import ChatCompletions as ChatCompletions
from .wire import RequestOptions as RequestOptions

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Options="RequestOptions")
