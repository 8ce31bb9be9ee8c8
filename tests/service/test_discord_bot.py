"""The example of a Discord bot: discord.py itself, a service, and a Discord of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import discord_bot
import pytest
from discord_bot import Bot, Table, parts_of, run_bot
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import HANG, Ran, call
from .fake_discord import GUILD, MASTERS, FakeDiscord, fake_discord
from .support import CONFIG, TOKENS, Served, bytes_of, serving, token_file

EVERY = 0.2
ARIA, EVE = (17, "Aria"), (18, "Eve")


def answer(request: LLMRequest) -> list[Any]:
    last = request.messages[-1].content
    if "hang" in last:
        return ["Well.\n", HANG]
    if "mumble" in last:
        return ["Well. ", "Now then.\n", HANG]
    if "novel" in last:
        return [f"Sentence {at} of a long tale.\n" for at in range(150)]
    return ["Hail @everyone, ", f"<@{ARIA[0]}>. ", "So it is."]


@asynccontextmanager
async def bot_at(served: Served, fake: FakeDiscord) -> AsyncGenerator[Bot]:
    token = TOKENS[ClientRole.GAME_MASTER]
    bot = Bot(served.ws, token, every=EVERY, guild_ready_timeout=0.05)
    running = asyncio.create_task(run_bot(bot, "the-token-of-discord"))
    try:
        await fake.until(lambda: running.done() or bot.is_ready())
        await fake.until(lambda: running.done() or bot._service is not None)
        yield bot
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


Scenario = Callable[[Bot, FakeDiscord], Awaitable[None]]


async def play(
    scenario: Scenario, tmp_path: Path, *channels: int, **runtime: Any
) -> Served:
    """Play a scenario on asyncio, in a thread beside the service."""
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))

    async def run(served: Served) -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with fake_discord(patch, *channels) as fake:
                async with bot_at(served, fake) as bot:
                    await scenario(bot, fake)

    script = runtime.pop("script", answer)
    async with serving(script, options=options, **runtime) as served:
        await trio.to_thread.run_sync(
            lambda: asyncio.run(run(served)), abandon_on_cancel=True
        )
    return served


SAID = "**Bo:** Hail @everyone, <@17>. So it is."


@pytest.mark.border
async def test_players_speak_at_the_table_of_their_channel(tmp_path: Path) -> None:
    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        await fake.say(1, *ARIA, "good evening, all")  # not to the bot
        await fake.say(1, *ARIA, "@bot bo, an ale!")
        await fake.until(lambda: fake.posted(1) == [SAID])
        await fake.command(2, *EVE, "npc", {"name": "Ann", "text": "And mine?"})
        await fake.until(lambda: fake.posted(2) == [SAID.replace("Bo", "Ann")])
        assert fake.answers() == ["Eve to Ann: And mine?"]
        await fake.command(2, *EVE, "npc", {"name": "Zed", "text": "Hail?"})
        await fake.until(lambda: len(fake.posted(2)) == 2)
        assert fake.posted(2)[1].startswith("no NPC 'Zed'")
        posts = [x.body for x in fake.requests if "/messages" in x.path]
        assert all(x["allowed_mentions"] == {"parse": []} for x in posts)

    served = await play(scenario, tmp_path, 1, 2)
    first, second = served.llm.requests
    assert "Aria" in str(first.messages)
    assert "bo, an ale!" in first.messages[-1].content
    assert "an ale!" not in str(second.messages)  # another table


@pytest.mark.border
async def test_the_stable_ids_of_players_are_told(tmp_path: Path) -> None:
    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        await fake.say(1, 17, "Aria", "@bot Bo, hail!")
        await fake.until(lambda: len(fake.posted(1)) == 1)
        await fake.say(1, 18, "Aria", "@bot Bo, hail!")  # who is called the same
        await fake.until(lambda: len(fake.posted(1)) == 2)

    memory = tmp_path / "memory"
    served = await play(scenario, tmp_path, 1, memory=memory)
    assert "Aria (aria)" in str(served.llm.requests[1].messages)
    kept = bytes_of(tmp_path, "memory*")
    assert b"discord:17" in kept
    assert b"discord:18" in kept


@pytest.mark.border
async def test_who_speaks_again_or_hushes_interrupts(tmp_path: Path) -> None:
    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        await fake.say(1, *ARIA, "@bot Bo, hang")
        await fake.until(lambda: fake.posted(1) == ["**Bo:** Well."])
        await fake.say(1, *ARIA, "@bot Bo, and?")
        await fake.until(lambda: fake.posted(1) == ["**Bo:** Well. \N{EM DASH}", SAID])
        await fake.say(1, *ARIA, "@bot Bo, hang")
        await fake.until(lambda: len(fake.posted(1)) == 3)
        await fake.command(1, *EVE, "hush", {})  # nobody speaks to her
        await fake.until(lambda: fake.answers() == ["They say nothing just now."])
        await fake.command(1, *ARIA, "hush", {})
        await fake.until(lambda: fake.posted(1)[2] == "**Bo:** Well. \N{EM DASH}")

    await play(scenario, tmp_path, 1)


@pytest.mark.border
async def test_long_answers_are_cut_and_limits_are_kept(tmp_path: Path) -> None:
    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        await fake.say(1, *ARIA, "@bot Bo, a novel!")
        tale = " ".join(f"Sentence {at} of a long tale." for at in range(150))
        told = f"**Bo:** {tale}"
        await fake.until(lambda: " ".join(fake.posted(1)) == told)
        assert [len(x) <= 2000 for x in fake.posted(1)] == [True] * 3
        times = [x.at for x in fake.requests if "/messages" in x.path]
        between = [b - a for a, b in pairwise(times)]
        assert min(between) > EVERY * 0.9

    await play(scenario, tmp_path, 1)


@pytest.mark.border
async def test_an_npc_that_cannot_be_shown_is_interrupted(tmp_path: Path) -> None:
    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        fake.refuse = True
        await fake.say(1, *ARIA, "@bot Bo, hang")
        await fake.until(lambda: any("/messages" in x.path for x in fake.requests))
        await fake.until(lambda: not bot._tables[1].answers)
        fake.refuse = False
        await fake.say(1, *ARIA, "@bot Bo, and?")
        await fake.until(lambda: fake.posted(1) == [SAID])

    await play(scenario, tmp_path, 1)


@pytest.mark.border
async def test_a_lost_connection_is_told_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord_bot, "RETRY_AFTER", (0.05,))
    told: list[str] = []

    class Heard(discord_bot.Telling):
        def add(self, text: str) -> None:
            told.append(text)
            super().add(text)

    monkeypatch.setattr(discord_bot, "Telling", Heard)

    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        before = bot.service
        await fake.say(1, *ARIA, "@bot Bo, mumble")
        await fake.until(lambda: bool(fake.posted(1)))
        await fake.until(lambda: told[-1:] == [" Now then."])
        await before._stream.aclose()
        await fake.until(lambda: fake.posted(1)[1:] == [discord_bot.AWAY])
        assert fake.posted(1)[0] == "**Bo:** Well. Now then."
        await fake.until(lambda: bot._service not in (None, before))
        await fake.say(1, *ARIA, "@bot Bo, and?")
        await fake.until(lambda: fake.posted(1)[2:] == [SAID])

    await play(scenario, tmp_path, 1)


@pytest.mark.border
@pytest.mark.parametrize("press", ["Allow", "Refuse"])
async def test_the_game_master_approves(tmp_path: Path, press: str) -> None:
    def think(request: LLMRequest) -> list[Any]:
        if request.messages[-1].role == "tool":
            return ["I know now."]
        return [call("mcp__world__tell", '{"n": 1}')]

    async def scenario(bot: Bot, fake: FakeDiscord) -> None:
        await fake.say(1, *ARIA, "@bot Bo, think carefully")
        await fake.until(lambda: len(fake.posted(1)) == 1)
        (asked,) = fake.messages.values()
        assert "Bo wants to use" in asked["content"]
        # Discord shows it before the library knows which message the buttons belong to.
        views = bot._connection._view_store
        await fake.until(lambda: views.is_message_tracked(int(asked["id"])))
        await fake.press(asked, press, *ARIA, [GUILD])
        await fake.until(lambda: len(fake.answers()) == 1)
        assert "Only who has the role 'Game Master'" in fake.answers()[0]
        assert not ran.began
        await fake.press(asked, press, *EVE, [MASTERS])
        await fake.until(lambda: len(fake.answers()) == 2)
        assert fake.answers()[1].endswith("allowed" if press == "Allow" else "refused")
        await fake.until(lambda: fake.posted(1)[1:] == ["**Bo:** I know now."])

    ran = Ran()
    tool = ran.tool("tell", group="world", external=True)
    bo = NpcConfig(name="Bo", tools=("*",), budget_tier=Tier.DEEP)
    asking = {"config": attrs.evolve(CONFIG, npcs=(bo,)), "approvals": True}
    await play(scenario, tmp_path, 1, script=think, tools=(tool,), **asking)
    assert len(ran.began) == (press == "Allow")


# Words, as NPCs and players write them.
TEXTS = st.lists(st.text("abc é", max_size=30)).map(" ".join)


@given(TEXTS, st.integers(5, 40))
def test_a_cut_text_has_all_its_words_in_messages_short_enough(
    text: str, longest: int
) -> None:
    parts = parts_of(text, longest)
    assert all(0 < len(part) <= longest for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(TEXTS, TEXTS, st.integers(5, 40))
def test_only_the_last_message_changes_while_a_text_grows(
    text: str, more: str, longest: int
) -> None:
    before = parts_of(text, longest)[:-1]
    assert parts_of(text + more, longest)[: len(before)] == before


def test_the_npc_whose_name_begins_is_addressed() -> None:
    table = Table("1", npcs=["Bo", "Bo Peep"])
    assert table.addressed("bo, hail") == "Bo"
    assert table.addressed("Bo Peep: hail") == "Bo Peep"
    assert table.addressed("Bob, hail") is None
    assert table.addressed("Hail, Bo") is None
