"""Any server that speaks OpenAI's chat completions: Ollama, vLLM, llama.cpp, clouds.

`ChatCompletions` is the model, `RequestOptions` what may be asked of it and what it
cannot take. The wire is in `wire`, free of I/O; `link` carries it over HTTP.
"""

from __future__ import annotations

from .link import ChatCompletions as ChatCompletions
from .wire import RequestOptions as RequestOptions
