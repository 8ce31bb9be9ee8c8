"""The tools as the runtime has them, and an NPC that uses them: real sites, a model
with a script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio import Config, ConfigError, open_runtime
from glyphoxa_trio.builtin import web
from glyphoxa_trio.builtin.web import Search, SearXNG, fetch_tool, search_tool
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    NpcConfig,
    SearchConfig,
    SearchEngine,
    ToolOverride,
    WebConfig,
    load_text,
)
from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.runtime.assembly import builtin_tools
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import NoAnswer, Pieces, Reply
from glyphoxa_trio.testing.search_server import SearchEntry, open_searxng
from glyphoxa_trio.tools.outcome import Limit, Status
from glyphoxa_trio.tools.tier import Tier, TierLimits

from ...npc.support import ScriptedLLM, call
from .support import HTML, INN, WORDS, Site, open_site

# G14


def test_they_only_read_out_in_the_world_and_may_be_asked_again() -> None:
    search = search_tool(Search(engine=SearXNG(), base_url="http://localhost:8888"))
    for tool, seconds in ((search, 60), (fetch_tool(), 300)):
        definition = tool.definition
        assert definition.read_only
        assert definition.idempotent
        assert definition.open_world
        assert definition.cacheable == seconds
        assert definition.max_duration == 4.0
        assert definition.estimated_duration is not None
        assert definition.estimated_duration > TierLimits().standard_threshold


@pytest.mark.parametrize("tool", ["search", "fetch_page"])
async def test_a_probe_asks_nobody(tool: str) -> None:
    made = {
        "search": search_tool(Search(engine=SearXNG(), base_url="http://localhost:1")),
        "fetch_page": fetch_tool(),
    }[tool]
    (example,) = made.definition.examples
    with pytest.raises(Exception, match=r"empty|nothing"):
        await made(**example)


def config(web: WebConfig, **more: Any) -> Config:
    npc = NpcConfig(name="Bo", tools=("web.*",), budget_tier=Tier.DEEP)
    return Config(
        npcs=(npc,),
        builtin=BuiltinConfig(web=web),
        calibration=CalibrationConfig(at_start=False),
        **more,
    )


def tools_of(**web: Any) -> list[str]:
    tools, problems = builtin_tools(Config(builtin=BuiltinConfig(web=WebConfig(**web))))
    assert not problems
    return [x.definition.name for x in tools if x.definition.group == "web"]


SEARXNG = SearchConfig(engine=SearchEngine.SEARXNG, base_url="http://localhost:8888")


def test_they_are_there_when_they_are_switched_on() -> None:
    assert tools_of() == []
    assert tools_of(enabled=True) == ["fetch_page"]
    assert tools_of(enabled=True, search=SEARXNG) == ["search", "fetch_page"]
    assert tools_of(enabled=True, search=SEARXNG, fetch=False) == ["search"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{search: {engine: searxng}}", "needs base_url"),
        ("{search: {engine: brave}}", "needs api_key"),
        ("{search: {engine: google}}", "engine"),
        (
            "{search: {engine: brave, api_key: k, base_url: 'http://x.example'}}",
            "https://",
        ),
        ("{ports: []}", "ports"),
        ("{ports: [0]}", "ports"),
        ("{timeout_ms: 0}", "timeout_ms"),
        ("{most_text: 0}", "most_text"),
        ("{proxy: x}", "proxy"),
    ],
)
def test_a_configuration_that_does_not_fit_names_the_place(
    text: str, said: str
) -> None:
    text = f"npcs: []\nbuiltin:\n  web: {text}\n"
    with pytest.raises(ConfigError) as caught:
        load_text(text, source=Path("tavern.yaml"), env={})
    assert said in str(caught.value)
    assert "builtin.web" in str(caught.value)


@pytest.mark.parametrize(
    ("web", "said"),
    [
        (WebConfig(enabled=True, allow_private=("10.0.0.1/8",)), "allow_private"),
        (WebConfig(enabled=True, user_agent="(nobody)"), "user_agent"),
        (
            WebConfig(
                enabled=True,
                search=SearchConfig(
                    engine=SearchEngine.BRAVE, api_key=Secret("two words")
                ),
            ),
            "api_key",
        ),
    ],
)
def test_what_only_the_tools_understand_names_the_place_too(
    web: WebConfig, said: str
) -> None:
    with pytest.raises(ConfigError, match=r"@ builtin\.web") as caught:
        builtin_tools(Config(builtin=BuiltinConfig(web=web)))
    assert said in str(caught.value)
    assert "two words" not in str(caught.value)


def test_without_the_extra_pages_cannot_be_read_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "installed", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install .* @ builtin\.web"):
        tools_of(enabled=True)
    assert tools_of(enabled=True, fetch=False, search=SEARXNG) == ["search"]


# An NPC.


async def turn(
    site: Site, path: str, *, search: str | None = None, deep: float = 20.0
) -> tuple[TurnDone, ScriptedLLM]:
    """What comes of a turn in which an NPC fetches a page."""
    asked = call("fetch_page", f'{{"url": "{site.url(path)}"}}')
    calls = [asked]
    searching = None
    if search is not None:
        calls.append(call("search", '{"query": "inns of Saltmere"}'))
        searching = SearchConfig(engine=SearchEngine.SEARXNG, base_url=search)
    model = ScriptedLLM([calls, ["So it is written."]])
    web = WebConfig(
        enabled=True,
        allow_private=("127.0.0.1",),
        ports=(site.port,),
        search=searching,
        timeout=20.0,
    )
    known = ToolOverride(estimated_duration=0.1)  # or it would not fit, and not be run
    settings = config(
        web,
        tiers=TierLimits(deep_ceiling=deep, standard_ceiling=min(deep, 1.5)),
        tools={"web.fetch_page": known},
    )
    async with open_runtime(settings, llm=model) as runtime:
        async with runtime.npc("Bo").say("Take your time!") as said:
            async for _ in said:
                pass
        assert said.done is not None
        return said.done, model


@pytest.mark.border
async def test_an_npc_reads_a_page_and_searches() -> None:
    town = SearchEntry("Saltmere", "https://saltmere.example/", "A town by the sea.")
    with trio.fail_after(60):
        async with open_site(INN) as site, open_searxng(lambda asked: [town]) as engine:
            done, model = await turn(site, "/", search=engine.base_url)
    page, found = done.outcomes
    assert (page.status, found.status) == (Status.OK, Status.OK)
    assert page.message.startswith(f"Saltmere: Inn\n{WORDS}")
    assert found.message == "Saltmere: A town by the sea."
    assert WORDS in model.told()[-2][1]
    assert done.text == "So it is written."


@pytest.mark.border
@pytest.mark.parametrize(
    "reply",
    [NoAnswer(), Pieces(lambda: iter(lambda: b"<p>x", None), HTML, pause=0.02)],
    ids=["silence", "drip"],
)
async def test_a_page_that_does_not_arrive_in_the_budget_is_a_timeout(
    reply: Reply, no_children: Callable[[], bool]
) -> None:
    with trio.fail_after(60):
        async with open_site(reply) as site:
            done, model = await turn(site, "/", deep=1.5)
            (late,) = done.outcomes
            assert (late.status, late.limit) == (Status.TIMEOUT, Limit.TURN)
            assert "no answer" in model.told()[-1][1]
            assert done.text == "So it is written."
            # On a busy machine the time may be up before it was even asked for.
            await site.http.wait(lambda: site.http.hangups == len(site.asked))
    assert no_children()  # no process is still reading it
