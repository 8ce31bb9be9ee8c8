"""``glyphoxa memory explain``: the prompt of one NPC, with the reason of each line."""

from __future__ import annotations

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.npc.hot_context import Gathered, Moment
from glyphoxa_trio.npc.prompt import system_prompt
from glyphoxa_trio.recall.campaign_names import CampaignNames
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.telling import Telling
from glyphoxa_trio.recall.wording import Saying, tokens_of

from .console import say, say_json, wide_console
from .memory_store import one_campaign, viewer_of, with_memory

_PATIENCE = 30.0  # seconds for a large memory


def explain(
    where: str,
    npc: str,
    text: str,
    *,
    player: str,
    session: str,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Print what an NPC is told before it answers a player, and why."""

    async def main(memory: Memory, config: Config) -> int:
        key = await one_campaign(memory, config, campaign, tenant)
        viewer = await viewer_of(memory, config, [key], npc, ())
        async with trio.open_nursery() as nursery:
            context = MemoryContext(
                memory,
                config.memory.recall,
                campaign_of=lambda _: key,
                viewer_of=lambda _: viewer,
                names=CampaignNames(memory, nursery).index,
                nursery=nursery,
            )
            moment = Moment(
                npc=viewer.npc or npc,
                turn=0,
                speaker=player,
                text=text,
                session=session,
                tenant=key.tenant,
                deadline=trio.current_time() + _PATIENCE,
            )
            explained = await context.explain(moment)
            nursery.cancel_scope.cancel()
        systems = [system_prompt(x) for x in config.npcs if x.name == moment.npc]
        if as_json:
            said = {"npc": moment.npc, "campaign": str(key)}
            say_json(said | {"system": "".join(systems)} | _as_json(explained))
            return 0
        console = wide_console()
        for system in systems:
            say(console, "from the configuration:", "dim")
            say(console, f"{system}\n")
        if explained is None:
            say(console, "memory adds nothing: each part has 0 tokens @ memory.recall")
            return 0
        telling, gathered = explained
        tokens = tokens_of([saying for _, saying in telling.told])
        most = config.memory.recall.total
        say(console, f"from memory, {tokens} of {most} tokens:", "dim")
        for part, saying in telling.told:
            say(console, f"- {saying}")
            say(console, f"    {part}; {saying.why}", "dim")
        if not telling.told:
            say(console, "nothing")
        if telling.untold:
            say(console, "\nleft out, since the tokens or lines are used up:", "dim")
        for part, saying in telling.untold:
            say(console, f"- {saying}", "dim")
            say(console, f"    {part}; {saying.why}", "dim")
        for part, why in gathered.missed:
            say(console, f"\nmissing: {part} ({why})")
        return 0

    return with_memory(where, main)


def _as_json(explained: tuple[Telling, Gathered] | None) -> dict[str, object]:
    if explained is None:
        return {"tokens": 0, "told": [], "left_out": [], "missed": []}
    telling, gathered = explained

    def row(part: str, saying: Saying) -> dict[str, object]:
        return {"part": part, "text": str(saying), "why": saying.why}

    return {
        "tokens": tokens_of([saying for _, saying in telling.told]),
        "told": [row(*x) for x in telling.told],
        "left_out": [row(*x) for x in telling.untold],
        "missed": [{"part": part, "why": why} for part, why in gathered.missed],
    }
