"""The server's answers as a client gets them, in this process. Virtual time, exact."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.servers.atis.cache import FeedFailure, Fetched
from glyphoxa_trio.servers.atis.config_file import ConfigFile
from glyphoxa_trio.servers.atis.keeper import COLD_PATIENCE, open_keeper
from glyphoxa_trio.servers.atis.resources import AtisResources
from glyphoxa_trio.servers.atis.settings import Aerodrome, AtisConfig
from glyphoxa_trio.servers.atis.tools import MARGIN, Atis, tools
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.speech import present

from ..support import LineClient, served
from .support import ScriptedFeed, report, wall

CONFIG = AtisConfig(
    aerodromes={
        "ENGM": Aerodrome(name="Oslo Gardermoen", runways=("01L",), language="nb"),
        "ENBR": Aerodrome(name="Bergen", information="Q"),
    }
)


@attrs.define(eq=False)
class Table:
    client: LineClient
    feed: ScriptedFeed
    settings: ConfigFile
    idents: int = 0

    async def call(
        self, icao: Any = "ENGM", remaining_ms: float | None = None
    ) -> dict[str, Any]:
        self.idents += 1
        meta = {} if remaining_ms is None else {"glyphoxa/remaining_ms": remaining_ms}
        answer = await self.client.ask(
            "tools/call",
            self.idents,
            name="get_atis",
            arguments={"icao": icao},
            _meta=meta,
        )
        result: dict[str, Any] = answer["result"]
        return result

    async def told(self, icao: str = "ENGM") -> dict[str, Any]:
        answer = await self.call(icao)
        assert "isError" not in answer, answer
        structured: dict[str, Any] = answer["structuredContent"]
        return structured

    async def refused(self, icao: Any = "ENGM", **more: Any) -> tuple[str, str]:
        answer = await self.call(icao, **more)
        assert answer["isError"]
        error = answer["structuredContent"]["error"]
        assert answer["content"][0]["text"] == error["message"]
        return error["code"], error["message"]


@asynccontextmanager
async def table(feed: ScriptedFeed | None = None) -> AsyncGenerator[Table]:
    feed = feed or ScriptedFeed()
    settings = ConfigFile(None, lambda what, why: None)
    settings.config = CONFIG
    async with open_keeper(feed, ttl=300, rng=random.Random(1)) as keeper:
        atis = Atis(settings=settings, keeper=keeper, now=wall)
        resources = AtisResources(atis)
        with keeper.news.tap(resources.tell):
            offer = ServerDefinition(
                name="atis", tools=tools(atis, "ENGM"), resources=resources
            )
            async with served(offer) as client:
                await client.shake_hands()
                yield Table(client, feed, settings)


async def test_an_answer_is_text_to_speak_and_data(
    autojump_clock: MockClock,
) -> None:  # A53
    async with table() as at:
        await trio.sleep(600)
        told = await at.told()
    assert told == {
        "icao": "ENGM",
        "name": "Oslo Gardermoen",
        "information": "Y",
        "atis_text": (
            "Oslo Gardermoen information Yankee. Observed at one two zero zero Zulu."
            " Runway in use zero one left. Wind three two zero degrees niner knots."
            " Ceiling and visibility okay. Temperature niner, dew point minus four."
            " Q N H one zero two five hectopascals."
        ),
        "language": "nb",
        "issued_at": "2026-11-22T12:00:00Z",
        "age_seconds": 600,
        "stale": False,
        "raw": "ENGM 221200Z 32009KT CAVOK 09/M04 Q1025",
        "runways": ["01L"],
        "frequency": None,
        "advisories": [],
        "temperature_celsius": 9,
        "dew_point_celsius": -4,
        "qnh_hectopascals": 1025,
        "altimeter_inches": 30.26,
        "not_readable": [],
        "not_spoken": [],
        "warnings": [],
    }


async def test_its_speech_field_is_the_text(autojump_clock: MockClock) -> None:  # A15
    async with table() as at:
        told = await at.told()
        definition = tools(Atis(settings=at.settings, keeper=None, now=wall), None)[0]  # type: ignore[arg-type]
    presented = present(ToolResult(structured=told), definition.definition)
    assert presented.message == told["atis_text"]
    assert presented.data == told


async def test_the_tool_says_what_it_costs(autojump_clock: MockClock) -> None:  # G20
    async with table() as at:
        listed = (await at.client.ask("tools/list"))["result"]["tools"]
    atis, aerodromes = listed
    assert [atis["name"], aerodromes["name"]] == ["get_atis", "list_aerodromes"]
    assert atis["_meta"]["glyphoxa/estimated_duration_ms"] == 20  # what is at hand
    assert atis["_meta"]["glyphoxa/max_duration_ms"] >= COLD_PATIENCE * 1000
    assert atis["annotations"]["readOnlyHint"]
    assert atis["annotations"]["openWorldHint"]
    assert atis["inputSchema"]["examples"] == [{"icao": "ENGM"}]


@pytest.mark.parametrize(
    "asked", ["engm", " ENGM ", "Oslo Gardermoen", "oslo GARDERMOEN"]
)
async def test_an_aerodrome_is_a_code_or_a_name(
    autojump_clock: MockClock, asked: str
) -> None:
    async with table() as at:
        assert (await at.told(asked))["icao"] == "ENGM"


@pytest.mark.parametrize(
    "asked",
    ["", " ", "OSL", "ENGMX", "1NGM", "EN GM", "\u0395NGM", "../..", "x" * 5000],
)
async def test_what_is_no_aerodrome_is_said_so(
    autojump_clock: MockClock, asked: str
) -> None:
    async with table() as at:
        code, words = await at.refused(asked)
        assert at.feed.asked == []
    assert code == "InvalidArgument"
    assert "is not an aerodrome: give the four letters of its ICAO code" in words
    assert len(words) < 150


async def test_arguments_are_checked(autojump_clock: MockClock) -> None:
    async with table() as at:
        code, words = await at.refused(["ENGM"])
    assert code == "InvalidArgument"
    assert "$.icao" in words


async def test_an_aerodrome_without_reports(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed(finally_=lambda icao: Fetched(report=None))
    async with table(feed) as at:
        assert await at.refused("ENZZ") == (
            "NotFound",
            "There are no weather reports for ENZZ.",
        )


async def test_stale_weather_is_told_with_its_age_until_it_is_useless(
    autojump_clock: MockClock,
) -> None:  # A53
    feed = ScriptedFeed(
        [Fetched(report=report())],
        finally_=lambda icao: FeedFailure(
            problem="the weather service cannot be reached"
        ),
    )
    async with table(feed) as at:
        assert not (await at.told())["stale"]
        await trio.sleep(40 * 60)
        told = await at.told()
        assert told["stale"]
        assert told["age_seconds"] == 2400
        assert (
            "This report is old: it was observed forty minutes ago."
            in told["atis_text"]
        )
        assert told["warnings"] == ["the weather service cannot be reached"]
        await trio.sleep(140 * 60)  # three hours
        assert "three hours ago" in (await at.told())["atis_text"]
        await trio.sleep(1)
        assert await at.refused() == (
            "Unavailable",
            (
                "The last weather report for ENGM was observed three hours ago, which"
                " is too old to be used."
            ),
        )


async def test_a_feed_that_only_has_old_reports(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed(finally_=lambda icao: Fetched(report=report(minutes=-75)))
    async with table(feed) as at:
        assert not (await at.told())["stale"]
        await trio.sleep(1)
        told = await at.told()
        assert told["stale"]
        assert "observed one hour and fifteen minutes ago" in told["atis_text"]
        assert told["warnings"] == []


async def test_a_clock_that_is_behind_makes_no_report_from_the_future(
    autojump_clock: MockClock,
) -> None:
    feed = ScriptedFeed(finally_=lambda icao: Fetched(report=report(minutes=10)))
    async with table(feed) as at:
        assert (await at.told())["age_seconds"] == 0


async def test_a_feed_that_is_down_is_told_in_words(autojump_clock: MockClock) -> None:
    feed = ScriptedFeed(
        finally_=lambda icao: FeedFailure(
            problem="the weather service cannot be reached"
        )
    )
    async with table(feed) as at:
        assert await at.refused() == (
            "Unavailable",
            "There is no weather for ENGM: the weather service cannot be reached.",
        )


async def test_an_answer_comes_within_the_budget_of_the_caller(
    autojump_clock: MockClock,
) -> None:
    async with table(ScriptedFeed([2.0])) as at:
        before = trio.current_time()
        code, words = await at.refused(remaining_ms=500)
        # 20 ms of the dispatcher's for the way, and ours to write it.
        assert trio.current_time() - before == pytest.approx(0.48 - MARGIN)
        assert (code, words) == (
            "Unavailable",
            "There is no weather for ENGM: the weather service has not answered yet.",
        )
        await trio.sleep(2)
        assert (await at.told())["icao"] == "ENGM"  # it went on for the next one
        assert len(at.feed.asked) == 1


async def test_a_problem_of_the_configuration_is_in_the_answer(
    autojump_clock: MockClock,
) -> None:
    async with table() as at:
        at.settings.problem = "unknown key 'x' @ atis.yaml"
        told = await at.told()
    assert told["warnings"] == ["configuration: unknown key 'x' @ atis.yaml"]
    assert "unknown key" not in told["atis_text"]


async def test_the_configured_aerodromes_are_listed(autojump_clock: MockClock) -> None:
    async with table() as at:
        answer = await at.client.ask("tools/call", name="list_aerodromes", arguments={})
    assert answer["result"]["structuredContent"] == {
        "aerodromes": [
            {"icao": "ENGM", "name": "Oslo Gardermoen", "runways": ["01L"]},
            {"icao": "ENBR", "name": "Bergen", "runways": []},
        ],
        "count": 2,
    }


async def test_an_aerodrome_is_a_resource_too(autojump_clock: MockClock) -> None:
    async with table() as at:
        listed = await at.client.ask("resources/list")
        assert [one["uri"] for one in listed["result"]["resources"]] == [
            "atis://ENBR",
            "atis://ENGM",
        ]
        read = await at.client.ask("resources/read", uri="atis://ENGM")
        (content,) = read["result"]["contents"]
        assert content["mimeType"] == "application/json"
        assert json.loads(content["text"]) == await at.told()
        for uri, code in (("atis://x", -32602), ("https://x", -32002)):
            answer = await at.client.ask("resources/read", uri=uri)
            assert answer["error"]["code"] == code
        at.feed.finally_ = lambda icao: FeedFailure(problem="it is down")
        answer = await at.client.ask("resources/read", uri="atis://ENVA")
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"] == {"code": "Unavailable", "uri": "atis://ENVA"}


async def test_who_subscribed_hears_of_another_report(
    autojump_clock: MockClock,
) -> None:
    async with table() as at:
        await at.told()
        await at.client.ask("resources/subscribe", uri="atis://ENGM")
        at.feed.finally_ = lambda icao: Fetched(report=report(minutes=20))
        assert await at.client.read() == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "atis://ENGM"},
        }
        assert 240 <= trio.current_time() <= 285


async def test_many_aerodromes_are_many_pages(autojump_clock: MockClock) -> None:
    async with table() as at:
        codes = [f"E{number:03}" for number in range(250)]
        at.settings.config = AtisConfig(
            aerodromes={code: Aerodrome() for code in codes}
        )
        seen: list[str] = []
        cursor: dict[str, Any] = {}
        for _ in range(3):
            page = (await at.client.ask("resources/list", **cursor))["result"]
            seen += [one["name"] for one in page["resources"]]
            cursor = {"cursor": page.get("nextCursor")}
        assert (seen, cursor) == (codes, {"cursor": None})
        answer = await at.client.ask("resources/list", cursor="nowhere")
        assert answer["error"]["code"] == -32602
