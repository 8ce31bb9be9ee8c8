"""``glyphoxa memory summarise``: evenings are summarised now, or anew."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import IDLE, Evening
from glyphoxa_trio.memory.importing.archiving import ALL
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.providers.llm import LLM, Usage
from glyphoxa_trio.recall.afterwards import Afterwards
from glyphoxa_trio.runtime.models import Models

from .common import warn
from .console import say, say_json, wide_console
from .memory_store import campaigns_of, unknown, with_memory

_WORDS: Final = {
    True: "summarised",
    False: "not summarised, since no answer of the model could be read",
    None: "left to another program, which is at it or has done it",
}


def summarise(
    where: str,
    evenings: Sequence[str],
    *,
    again: bool,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Summarise these evenings, or those that wait; with ``again`` all."""

    async def main(memory: Memory, config: Config) -> int:
        await memory.transcripts.end_idle(before=time.time() - IDLE)
        campaigns = await campaigns_of(memory, campaign, tenant)
        chosen = await _chosen(memory, campaigns, evenings, again=again)
        done: list[tuple[str, bool | None]] = []
        used: list[Usage] = []
        if chosen:
            async with _model_of(config) as model:
                afterwards = Afterwards(
                    memory, model, config.memory, time.time, charge=used.append,
                    warn=warn, stock=lambda: config.fallbacks,
                )  # fmt: skip
                # Another program may have summarised one of those that wait by then.
                before = None if again else math.inf
                for key, evening in chosen:
                    read = await afterwards.summarise(key, evening, before=before)
                    done.append((evening, read))
                    if not as_json:
                        say(wide_console(), f"{evening}: {_WORDS[read]}")
        if as_json:
            say_json(
                {
                    "summarised": [x for x, read in done if read],
                    "unread": [x for x, read in done if read is False],
                    "busy": [x for x, read in done if read is None],
                    "input_tokens": sum(x.input_tokens or 0 for x in used),
                    "output_tokens": sum(x.output_tokens or 0 for x in used),
                }
            )
        elif not done:
            say(wide_console(), "no evening waits for its summary")
        return 0 if all(read for _, read in done) else 1

    return with_memory(where, main)


async def _chosen(
    memory: Memory,
    campaigns: Sequence[CampaignKey],
    named: Sequence[str],
    *,
    again: bool,
) -> list[tuple[CampaignKey, str]]:
    """Return the evenings that are meant: those named, or those that wait, or all."""
    waiting = await memory.transcripts.unsummarised(before=math.inf)
    if not named and not again:
        return [one for one in waiting if one[0] in campaigns]
    known: dict[str, tuple[CampaignKey, Evening]] = {}
    every: list[tuple[CampaignKey, str]] = []
    for key in campaigns:
        for one in await memory.transcripts.evenings(key, GAME_MASTER, limit=ALL):
            if one.id in named and one.id in known:
                raise GlyphoxaError(
                    f"several campaigns have a {one.id}, give --campaign"
                )
            known[one.id] = key, one
            every += [(key, one.id)] if one.ended is not None else []
    if not named:
        return every[::-1]
    chosen: list[tuple[CampaignKey, str]] = []
    for name in named:
        if name not in known:
            raise unknown("evening", name, known)
        key, one = known[name]
        if one.ended is None:
            raise GlyphoxaError(f"{name} still goes on: sessions end ends it")
        if not again and (key, name) not in waiting:
            raise GlyphoxaError(f"{name} has a summary: --again writes it anew")
        chosen.append((key, name))
    return chosen


@asynccontextmanager
async def _model_of(config: Config) -> AsyncGenerator[LLM]:
    async with AsyncExitStack() as stack:
        models, name = Models(None, config.llm, stack), config.memory.model
        if models.is_stand_in(name):
            raise GlyphoxaError(
                "the offline stand-in writes no summaries: name a model in llm, or in"
                " memory.model"
            )
        yield models.for_npc(name)
