"""The spans of turns and of model rounds, by OpenTelemetry's conventions.

A span says who answered, how long and with what end, and no word that was said.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from glyphoxa_trio.npc.events import TurnDone, TurnEnd
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.providers.llm import Finished
from glyphoxa_trio.providers.naming import Labelled, asked_first, provider_of
from glyphoxa_trio.tracing import Span, begin
from glyphoxa_trio.units import milliseconds

# The conventions' names of the providers of this package. Chat completions are spoken
# by many servers; `server.address` says which one it is.
_PROVIDERS: Final = {
    "chat_completions": "openai",
    "openai_realtime": "openai",
    "gemini_live": "gcp.gemini",
}
_A_KIND: Final = re.compile(r"[A-Za-z0-9_.]{1,64}")


def turn_span(id_: NpcId, number: int, *, scripted: bool) -> Span:
    """Begin the span of a turn, when its utterance is accepted."""
    return begin(
        f"invoke_agent {id_.npc}",
        lambda: {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": id_.npc,
            "gen_ai.conversation.id": str(id_.session),
            "glyphoxa.tenant": id_.session.tenant or None,
            "glyphoxa.turn": number,
            "glyphoxa.scripted": scripted or None,
        },
    )


def turn_ended(span: Span, done: TurnDone, queued: float) -> None:
    """Set how the turn ended. ``queued``: the seconds that it had to wait."""
    if not span:
        return
    timings = done.timings
    first = timings.first_text
    span.set(
        {
            "glyphoxa.end": done.end.value,
            "glyphoxa.tier": None if done.tier is None else str(done.tier),
            "glyphoxa.rounds": done.rounds,
            "glyphoxa.calls": len(done.outcomes),
            "glyphoxa.model_ms": milliseconds(timings.model),
            "glyphoxa.tools_ms": milliseconds(timings.tools),
            "glyphoxa.queued_ms": milliseconds(queued) or None,
            "glyphoxa.first_text_ms": None if first is None else milliseconds(first),
        }
    )
    if done.end is TurnEnd.FAILED:
        kind = done.error.partition(":")[0]  # the rest may be foreign text
        span.fail(kind if _A_KIND.fullmatch(kind) else "failed")


def chat_span(model: Labelled, *, round: int) -> Span:  # noqa: A002
    """Begin the span of one round of a model, the first of which is round 0."""
    first = asked_first(model)
    name, address, port = _place(first.label)

    def about() -> dict[str, Any]:
        provider = provider_of(first)
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": name,
            "server.address": address,
            "server.port": port,
            "glyphoxa.round": round,
        }

    return begin(f"chat {name}", about, kind="CLIENT")


def chat_finished(span: Span, event: Finished) -> None:
    """Set why the model ended, and what it used."""
    if not span:
        return
    about: dict[str, Any] = {"gen_ai.response.finish_reasons": [event.reason.value]}
    if (usage := event.usage) is not None:
        about |= {
            "gen_ai.response.model": usage.model or None,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        }
    span.set(about)


@lru_cache(maxsize=64)
def _place(label: str) -> tuple[str, str | None, int | None]:
    """Return the name of a model, and the host and port of its server, if any."""
    name, _, url = label.partition(" at ")
    try:
        parts = urlsplit(url)
        return name, parts.hostname, parts.port
    except ValueError:
        return name, None, None
