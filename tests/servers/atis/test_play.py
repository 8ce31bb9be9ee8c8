"""An NPC that says the weather: `config/atis.yaml`, the real server, a feed here.

One server and two NPCs, of which one may use it (A54). Everything is real but the
feed, and the model where what it does must be known.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest

import trio

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.config import Config, load_config, load_text
from glyphoxa_trio.npc import Filler, ToolFinished, TurnDone
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import TierLimits

from ...cli.support import run
from ...npc.support import Reply, ScriptedLLM, call
from .feeds import FeedServer, bulletin, observed, open_feed

pytestmark = pytest.mark.border

ROOT = Path(__file__).parents[3]
CONFIG = ROOT / "config" / "atis.yaml"
LIMIT = 60.0  # seconds; nothing that passes comes near it
PATIENT = TierLimits(fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT)
EXPOSED = "mcp_aviation_atis_get_atis"
ASKED = "What is the ATIS for ENBR?"
SAID = (
    "Runway in use one seven. Wind three two zero degrees niner knots. Ceiling and"
    " visibility okay."
)


def variables(feed: FeedServer) -> dict[str, str]:
    return {"ATIS_FEED_URL": feed.url, "METNO_USER_AGENT": "tower/1.0 t@example.org"}


def feed_with_weather() -> str:
    return bulletin(*(observed(9, icao, "CAVOK") for icao in ("ENGM", "ENBR")))


@pytest.mark.long
async def test_the_tower_of_the_example_says_the_weather() -> None:  # A15, A53
    async with open_feed(feed_with_weather()) as feed:
        with trio.fail_after(LIMIT):
            played = await trio.to_thread.run_sync(
                partial(run, "play", CONFIG, lines=f"{ASKED}\n", env=variables(feed))
            )
    assert played.stderr == ""
    assert played.returncode == 0
    _, _, answer = played.stdout.partition(f"you> {ASKED}\n")
    assert "aviation_atis.get_atis " in answer
    assert "Tower: Bergen Flesland information Quebec. Observed at " in answer
    assert SAID in " ".join(answer.split())


@asynccontextmanager
async def opened(
    feed: FeedServer, llm: ScriptedLLM, config: Config | None = None
) -> AsyncGenerator[Runtime]:
    config = config or load_config(CONFIG, env=variables(feed), mcp_json=False)
    config = attrs.evolve(
        config,
        calibration=attrs.evolve(config.calibration, at_start=False),
        mcp=attrs.evolve(config.mcp, remember=False),
        tiers=PATIENT,
    )
    with trio.fail_after(LIMIT):
        async with open_runtime(config, llm=llm, wait_for_servers=LIMIT) as runtime:
            assert not runtime.warnings
            yield runtime


def asks(icao: str = "ENBR") -> list[Reply]:
    return [[call(EXPOSED, f'{{"icao": "{icao}"}}')], ["So it is."]]


async def test_only_who_may_use_it_sees_it() -> None:  # A54
    llm = ScriptedLLM(asks() + asks())
    async with open_feed(feed_with_weather()) as feed, opened(feed, llm) as runtime:
        async with runtime.npc("Tower").say(ASKED) as turn:
            events = [event async for event in turn]
        (finished,) = [one for one in events if isinstance(one, ToolFinished)]
        assert finished.outcome.status is Status.OK
        assert finished.outcome.message == finished.outcome.data["atis_text"]
        assert SAID in finished.outcome.message
        # The mechanic is not shown it, and is refused when it calls it anyway.
        async with runtime.npc("Mechanic").say(ASKED) as turn:
            events = [event async for event in turn]
        (finished,) = [one for one in events if isinstance(one, ToolFinished)]
        assert finished.outcome.status is Status.DENIED
        assert len(feed.asked) == 1
    shown = llm.shown()
    assert shown[0] == [EXPOSED]
    assert EXPOSED not in shown[2]


async def test_a_slow_feed_is_announced_and_then_said() -> None:  # A18, A54
    llm = ScriptedLLM(asks())
    async with open_feed(feed_with_weather()) as feed:
        feed.delay = LIMIT * 2
        gone = trio.Event()
        feed.until = gone
        async with opened(feed, llm) as runtime:
            async with runtime.npc("Tower").say(f"Think carefully! {ASKED}") as turn:
                heard: list[str] = []
                async for event in turn:
                    if isinstance(event, Filler):
                        heard.append(event.text)
                        gone.set()  # it comes when it was said to be waited for
                    elif isinstance(event, ToolFinished):
                        heard.append(event.outcome.message)
                    elif isinstance(event, TurnDone):
                        heard.append(event.text)
    announced, told, text = heard
    assert announced == "Stand by, I am getting the weather."
    assert SAID in told
    assert text.endswith("So it is.")


async def test_a_feed_without_end_costs_the_turn_its_limit_only() -> None:  # A54
    llm = ScriptedLLM(asks())
    async with open_feed(feed_with_weather()) as feed:
        feed.delay = LIMIT * 2
        text = CONFIG.read_text().replace("timeout_ms: 10000", "timeout_ms: 200")
        config = load_text(text, source=CONFIG, env=variables(feed))
        async with opened(feed, llm, config) as runtime:
            async with runtime.npc("Tower").say(ASKED) as turn:
                events = [event async for event in turn]
    (finished,) = [one for one in events if isinstance(one, ToolFinished)]
    # The server is told how long it is waited for, and says no just before that.
    assert finished.outcome.status in (Status.TOOL_ERROR, Status.TIMEOUT)
    assert isinstance(events[-1], TurnDone)
    assert events[-1].text.endswith("So it is.")


@pytest.mark.parametrize("name", ["atis.yaml", "atis.example.yaml"])
def test_the_documentation_shows_the_files(name: str) -> None:
    page = (ROOT / "docs" / "atis.md").read_text()
    assert name in page
    text = (ROOT / "config" / name).read_text()
    blocks = [block.partition("\n```")[0] for block in page.split("```yaml\n")[1:]]
    assert blocks
    for block in blocks:
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        if lines[0].startswith(f"# config/{name}"):
            for line in lines[1:]:
                assert line.partition(" #")[0].rstrip() in text, line
            return
    raise AssertionError(f"no block of {name}")
