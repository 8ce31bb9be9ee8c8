"""Addresses of model servers that are probably not meant as they stand, and the remedy.

A ``base_url`` is the common part of a server's addresses, mostly ``http://host/v1``,
and each request adds its own path. What people copy is also the address of one request,
the host alone, or the address of the vendor's other protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs

from .builtin import ImagesConfig
from .llm import ModelConfig
from .memory import EmbeddingsConfig
from .presets import PRESETS, Provider
from .s2s import S2SProvider
from .servers import without_secrets
from .voices import RecognitionProvider, SynthesisProvider

if TYPE_CHECKING:
    from .model import Config

_REQUEST: Final = re.compile(
    r"/(?:chat/completions|audio/\w+|images/generations|\w*/?models/[^/]+:\w+)$"
    r"|(?<=/v1)/(?:completions|messages|responses|models|embeddings|realtime)$"
)
_OF_OLLAMA: Final = re.compile(r"/api(?:/(?:chat|generate|tags|embed))?$")
_VERSION: Final = re.compile(r"/v\d\w*(?:/|$)")
_PATHS: Final = {
    urlsplit(preset.base_url).hostname: urlsplit(preset.base_url).path
    for provider, preset in PRESETS.items()
    if preset.base_url and not preset.local and provider is not Provider.ANTHROPIC
}
# Their own documentation gives these addresses without a version.
_NO_VERSION: Final = frozenset(
    {"api.deepseek.com", "api.perplexity.ai", "models.inference.ai.azure.com"}
)
_COMPATIBLE: Final = (
    S2SProvider.OPENAI_REALTIME,
    SynthesisProvider.OPENAI_SPEECH,
    RecognitionProvider.TRANSCRIPTIONS,
)


def address_warnings(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of a warning for each such address."""
    for section in ("llm", "memory", "s2s", "speech", "builtin"):
        yield from _warnings(getattr(config, section), f".{section}")


def _warnings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from _warnings(item, f"{place}[{at}]")
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            below = getattr(value, field.name)
            if field.name == "base_url" and below and _is_asked(value):
                provider = getattr(value, "provider", None)
                if text := address_remedy(below, provider):
                    yield f"{place}.base_url", text
            yield from _warnings(below, f"{place}.{field.name}")


def _is_asked(value: Any) -> bool:
    """Return whether it is asked in OpenAI's protocols, or in Anthropic's."""
    if isinstance(value, (ModelConfig, EmbeddingsConfig, ImagesConfig)):
        return True
    return getattr(value, "provider", None) in _COMPATIBLE


def address_remedy(base_url: str, provider: object = None) -> str:
    """Return what is odd about an address, with the remedy; empty if nothing is."""
    parts = urlsplit(base_url)
    path, host = parts.path.rstrip("/"), parts.hostname or ""
    request = _REQUEST.search(path)
    begins = path[: request.start()] if request else path
    anthropic = provider is Provider.ANTHROPIC
    asks_anthropic = begins.endswith("/anthropic") or path.endswith("/v1/messages")
    other = ""
    if anthropic and path.endswith("/chat/completions"):
        anthropic, other = False, Provider.CHAT_COMPLETIONS
    elif asks_anthropic and not anthropic and isinstance(provider, Provider):
        anthropic, other = True, Provider.ANTHROPIC
    if anthropic:
        better = begins if _VERSION.search(begins) else f"{begins}/v1"
        why = "base_url has no version, below which Anthropic's protocol is answered"
    elif host in _PATHS and not (host in _NO_VERSION and begins in ("", "/beta")):
        better = _PATHS[host]
        why = f"{host} answers at another path"
    elif _OF_OLLAMA.search(path) and (path != "/api" or ":11434" in parts.netloc):
        better = _OF_OLLAMA.sub("/v1", path)
        why = "base_url is of Ollama's own protocol, which is not the one spoken here"
    elif not begins and provider is not Provider.LLAMACPP and host not in _NO_VERSION:
        better = "/openai/v1" if host.endswith(".openai.azure.com") else "/v1"
        why = "base_url has no path, and most servers answer below a version"
    else:
        better, why = begins, ""
    if better == path and not other:
        return ""
    if request:
        why = f"base_url ends with {request[0]}, and each request adds its own path"
    elif other:
        why = f"base_url is where {other} is asked"
    url = without_secrets(parts._replace(path=better).geturl())
    return f"{why}: write {f'provider: {other}, and ' if other else ''}base_url: {url}"
