"""The gateway on real sockets: what clients say, hear and remember, and bad clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.npc import TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.limits import ServiceLimits
from glyphoxa_trio.service.options import service_options

from ..npc.support import HANG
from .support import TOKENS, raw_client, serving, token_file, until


def slow_second(request: LLMRequest) -> list[Any]:
    """The first sentence comes at once, the second one never."""
    return ["One.\n", HANG]


async def test_an_answer_comes_as_numbered_events_and_is_remembered() -> None:
    async with serving() as served, raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Hail", session="one")
        assert await client.until("accepted") == {"type": "accepted", "id": "a"}
        done = await client.until_event("TurnDone")
        assert [x["n"] for x in client.events] == [*range(1, len(client.events) + 1)]
        assert {x["id"] for x in client.events} == {"a"}
        assert {x["session"] for x in client.events} == {"one"}
        assert done["end"] == "completed"
        assert done["text"] == "You said Hail. So it is."
        await client.send(type="ack", id="a", n=done["n"])
        await client.send(type="say", id="b", npc="Bo", text="And?", session="one")
        await client.until("accepted", id="b")
        await client.until("events")
        past = [x.content for x in served.llm.requests[-1].messages]
        assert "You said Hail. So it is." in past


@pytest.mark.alone
@pytest.mark.border
async def test_what_is_not_acknowledged_is_not_remembered() -> None:
    limits = ServiceLimits(ack_within=2.0)
    async with serving(limits=limits) as served, raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Hail")
        await client.until_event("TurnDone")
        first = next(x for x in client.events if x["event"] == "Sentence")
        await client.send(type="ack", id="a", n=first["n"])
        await trio.sleep(2.5)
        await client.send(type="ack", id="a", n=99)  # too late
        await client.send(type="say", id="b", npc="Bo", text="And?")
        await client.until("accepted", id="b")
        await client.until("events")
        past = [x.content for x in served.llm.requests[-1].messages]
        assert "You said Hail." in past
        assert not any("So it is" in text for text in past)


async def test_a_client_that_leaves_interrupts_its_turn() -> None:
    ended: list[TurnEvent] = []
    async with serving(slow_second) as served:
        with served.runtime.events.tap(ended.append):
            async with raw_client(served) as client:
                await client.send(type="say", id="a", npc="Bo", text="Hail")
                await client.until_event("Sentence")
                await trio.aclose_forcefully(client.socket._stream)
            await until(lambda: isinstance(ended[-1], TurnDone))
        (done,) = (x for x in ended if isinstance(x, TurnDone))
        assert done.end is TurnEnd.INTERRUPTED
        await until(lambda: not served.service.connections)


async def test_leave_interrupts_and_the_last_events_still_come() -> None:
    async with serving(slow_second) as served, raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Hail")
        await client.until_event("Sentence")
        await client.send(type="leave", id="a")
        done = await client.until_event("TurnDone")
        assert done["end"] == "interrupted"
        assert [x["event"] for x in client.events[-2:]] == ["Flush", "TurnDone"]


async def test_what_is_left_before_it_is_accepted_is_interrupted() -> None:
    async with serving(slow_second) as served, raw_client(served) as client:
        # Both are read before the turn begins.
        await client.send(type="say", id="a", npc="Bo", text="Hail")
        await client.send(type="leave", id="a")
        done = await client.until_event("TurnDone")
        assert done["end"] == "interrupted"


@pytest.mark.border
async def test_a_turn_ends_with_the_time_of_its_caller() -> None:
    async with serving(slow_second) as served, raw_client(served) as client:
        began = trio.current_time()
        await client.send(type="say", id="a", npc="Bo", text="Hail", remaining_ms=300)
        done = await client.until_event("TurnDone")
        assert done["end"] == "interrupted"
        assert trio.current_time() - began > 0.25


@pytest.mark.border
async def test_a_client_that_does_not_acknowledge_is_told_and_slows_no_turn() -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return [f"Sentence {n}. " for n in range(200)]

    done: list[TurnDone] = []

    def note(event: TurnEvent) -> None:
        if isinstance(event, TurnDone):
            done.append(event)

    async with serving(talk) as served, raw_client(served) as client:
        with served.runtime.events.tap(note):
            await client.send(type="say", id="a", npc="Bo", text="Talk")
            lagging = await client.until("lagging")
            assert lagging["id"] == "a"
            await until(lambda: bool(done))
        assert len(client.events) <= 64
        while not any(x["event"] == "TurnDone" for x in client.events):
            await client.send(type="ack", id="a", n=client.events[-1]["n"])
            await client.until("events")
        said = [x["text"] for x in client.events if x["event"] == "Sentence"]
        assert said == [f"Sentence {n}." for n in range(200)]


async def test_a_client_for_whom_too_much_waits_is_closed() -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return [f"Sentence {n}. " for n in range(1500)]

    async with serving(talk) as served, raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Talk")
        code, reason = await client.closed()
        assert code == 4008
        assert "acknowledged" in reason


async def test_a_scene_answers_and_the_addressed_one_is_named() -> None:
    async with serving() as served, raw_client(served) as client:
        await client.send(type="say", id="a", text="Ann, hail!", speaker="Eve")
        done = await client.until_event("TurnDone")
        assert done["npc"] == "Ann"
        await client.send(type="say", id="b", text="hail", to="Bo", speaker="Eve")
        await client.until("accepted", id="b")
        await client.until("events")
        assert client.events[-1]["npc"] == "Bo"


@pytest.mark.parametrize(
    ("message", "code", "told"),
    [
        ("nonsense", "bad_message", "JSON"),
        ("[" * 100_000, "bad_message", "JSON"),
        ({"type": "sing", "id": "x"}, "bad_message", "type"),
        ({"type": "say", "id": "x", "npc": "Bo"}, "bad_message", "text"),
        ({"type": "say", "id": "x", "text": 3}, "bad_message", "text"),
        ({"type": "say", "id": "x", "text": "a", "mood": 1}, "bad_message", "mood"),
        ({"type": "say", "id": "x", "text": "a", "npc": "Zed"}, "not_found", "Bo"),
        (
            {"type": "say", "id": "x", "text": "a", "tier": "slow"},
            "bad_message",
            "tier",
        ),
        ({"type": "listen", "id": "x", "npc": "Bo", "rate": 16000}, "refused", "hear"),
        (b"\0\0", "bad_message", "microphone"),
    ],
)
async def test_a_bad_message_is_answered_and_the_next_one_served(
    message: Any, code: str, told: str
) -> None:
    async with serving() as served, raw_client(served) as client:
        sent = json.dumps(message) if isinstance(message, dict) else message
        await client.socket.send_message(sent)
        error = await client.until("error")
        assert error["code"] == code
        assert told in error["message"]
        assert error.get("id") == ("x" if isinstance(message, dict) else None)
        await client.send(type="ping", id="p")
        await client.until("pong", id="p")


async def test_without_an_id_only_a_failure_is_answered() -> None:
    async with serving() as served, raw_client(served) as client:
        await client.send(type="hearing", npc="Bo", text="Hai")
        await client.send(type="hearing", npc="Zed", text="Hai")
        await client.send(type="hearing", npc="Bo", text="Hail", id="h")
        assert (await client.receive()) == {
            "type": "error",
            "code": "not_found",
            "message": "no NPC 'Zed', there is Bo, Ann",
        }
        assert (await client.receive()) == {"type": "done", "id": "h"}


async def test_an_id_that_is_in_use_is_refused() -> None:
    async with serving(slow_second) as served, raw_client(served) as client:
        for _ in range(2):
            await client.send(type="say", id="a", npc="Bo", text="Hail")
        error = await client.until("error")
        assert "in use" in error["message"]


async def test_a_connection_has_a_bounded_number_of_utterances() -> None:
    limits = ServiceLimits(turns=2)
    async with serving(slow_second, limits=limits) as served:
        async with raw_client(served) as client:
            for n in range(3):
                await client.send(
                    type="say", id=f"{n}", npc="Bo", text="Hail", session=f"{n}"
                )
            error = await client.until("error")
            assert (error["id"], error["code"]) == ("2", "too_many")


@pytest.mark.border
@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"type": "ping"}', 4000),
        ("\0", 4000),
        (b"audio", 4000),
        ('{"type": "hello", "protocol": 2}', 4002),
        ('{"type": "hello", "protocol": 1, "token": "wrong"}', 4001),
        (None, 4000),
    ],
)
async def test_whoever_does_not_say_hello_is_closed(
    first: str | bytes | None, code: int
) -> None:
    limits = ServiceLimits(hello_within=0.3 if first is None else 10.0)
    async with serving(limits=limits) as served:
        async with raw_client(served, hello=False) as client:
            if first is not None:
                await client.socket.send_message(first)
            assert (await client.closed())[0] == code


@pytest.mark.alone
@pytest.mark.border
async def test_a_client_that_is_silent_is_closed() -> None:
    async with serving(limits=ServiceLimits(heartbeat=2.0)) as served:
        async with raw_client(served) as client:
            for _ in range(6):
                await trio.sleep(0.4)
                await client.send(type="ping")
            assert (await client.closed())[0] == 4003


async def test_a_client_that_sends_nothing_but_nonsense_is_closed() -> None:
    async with serving(limits=ServiceLimits(bad=5)) as served:
        async with raw_client(served) as client:
            for _ in range(6):
                await client.socket.send_message("nonsense")
            assert (await client.closed())[0] == 1008


async def test_a_message_that_is_too_long_closes_the_connection() -> None:
    async with serving() as served, raw_client(served) as client:
        await client.socket.send_message("x" * (256 * 1024 + 1))
        assert (await client.closed())[0] == 1009


@pytest.mark.border
async def test_a_service_that_stops_lets_turns_end_and_begins_no_other() -> None:
    going = trio.Event()

    def answer(request: LLMRequest) -> list[Any]:
        return ["One. ", 0.5, "Two."]

    async with serving(answer) as served, raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Hail")
        await client.until_event("Sentence")

        async def drain() -> None:
            assert await served.service.drain(5)
            going.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await trio.sleep(0.05)
            await client.send(type="say", id="b", npc="Ann", text="Hail")
            assert (await client.until("error"))["code"] == "busy"
            done = await client.until_event("TurnDone")
            assert done["text"] == "One. Two."
            await client.send(type="ack", id="a", n=done["n"])
        assert going.is_set()


async def test_the_rate_of_a_token_is_limited(tmp_path: Path) -> None:
    options = service_options(
        http="127.0.0.1:0", token_file=token_file(tmp_path), rate=0.01
    )
    async with serving(options=options) as served:
        token = TOKENS[ClientRole.OPERATOR]
        async with (
            raw_client(served, token=token) as one,
            raw_client(served, token=token) as two,
        ):
            await one.send(type="join", id="j")
            await one.until("joined")
            await two.send(type="join", id="j")
            assert (await two.until("error"))["code"] == "too_many"


async def test_interrupt_ends_all_answers_of_a_session_and_no_others() -> None:
    async with serving(lambda _: ["Long ago, ", HANG]) as served:
        token = served.service.token
        assert token is not None
        async with raw_client(served, token=token.reveal()) as client:
            told = [
                {"id": "bo", "session": "one", "npc": "Bo"},
                {"id": "all", "session": "one", "to": "Ann"},
                {"id": "two", "session": "two", "npc": "Bo"},
            ]
            for one in told:
                await client.send(type="say", text="Tell me a story.", **one)

            def said(kind: str) -> set[str]:
                return {x["id"] for x in client.events if x["event"] == kind}

            while said("TextDelta") != {"bo", "all", "two"}:
                await client.until("events")
            await client.send(type="interrupt", id="i", session="one")
            assert (await client.until("done", id="i"))["result"] is True
            while said("TurnDone") != {"bo", "all"}:
                await client.until("events")
            ends = {x["end"] for x in client.events if x["event"] == "TurnDone"}
            assert ends == {"interrupted"}
