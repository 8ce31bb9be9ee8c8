"""Servers that never get as far as serving, and what the operator reads of them."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.tools.outcome import Status

from .support import FAILED, ONCE, READY, RESTARTING, beside, restarts

pytestmark = pytest.mark.border

STARTS = 10.0  # seconds in which Python itself has started, on a busy machine


async def test_a_server_that_never_initializes_fails_within_its_start_timeout() -> None:
    # N23: a warning that names the limit, and the others are there
    async with beside("never_initializes", start_timeout=0.2, restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0] == "no handshake within 200 ms"
        assert table.row().last_error == "no handshake within 200 ms"
        assert table.tools == set()
        outcome = await table.call("echo")
        assert outcome.status is Status.DENIED  # nobody knows of such a tool
        assert "there is no tool" in outcome.message


async def test_a_server_that_never_reads_fails_within_its_start_timeout() -> None:
    async with beside("never_reads", start_timeout=0.2, restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0] == "no handshake within 200 ms"


async def test_a_server_that_is_slow_to_initialize_is_waited_for() -> None:
    async with beside("initializes_late", ms=200) as table:
        assert table.row().state is READY
        assert (await table.call("echo")).ok
        assert table.warnings == []


async def test_a_server_that_exits_at_once_is_a_warning_with_its_last_words() -> None:
    # N23, A41, A42: its quick restarts are used up, then it has failed
    restart = {"backoff": 0.001, "max_restarts": 2}
    async with beside("exits_at_once", restart=restarts(**restart)) as table:
        await table.until(lambda: table.row().state is FAILED)
        first, last = table.warnings
        assert first == "exited with status 3\n  the cellar is flooded"
        assert last == (
            "has failed, and is retried once a minute: exited with status 3"
            "\n  the cellar is flooded"
        )
        assert table.row().restarts == 2


async def test_a_server_that_refuses_to_initialize_is_quoted() -> None:
    async with beside("refuses_to_initialize", restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert "not today" in table.warnings[0]


async def test_a_server_of_another_protocol_version_is_refused_by_that_name() -> None:
    async with beside("speaks_another_version", restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert "1999-12-31" in table.warnings[0]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("empty", "answer to initialize is not usable: protocolVersion: is missing"),
        # What is no JSON-RPC at all is no answer either; but it is shown.
        ("list", '"result": [1, 2]'),
        ("text", '"result": "hello"'),
    ],
)
async def test_a_handshake_that_is_none_is_shown_to_the_operator(
    kind: str, why: str
) -> None:
    options: dict[str, Any] = {"kind": kind, "start_timeout": STARTS, "restart": ONCE}
    async with beside("initializes_wrongly", **options) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert why in table.warnings[0]


@pytest.mark.long
async def test_a_server_that_never_lists_fails_within_its_start_timeout() -> None:
    async with beside("never_lists", start_timeout=STARTS, restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0] == "no list of tools within 10000 ms"


async def test_a_server_that_is_stopped_before_it_starts_fails_in_time() -> None:
    options: dict[str, Any] = {"when": "start", "start_timeout": 0.2, "restart": ONCE}
    async with beside("stops_itself", **options) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0] == "no handshake within 200 ms"


async def test_a_server_that_fails_is_tried_again_and_holds_up_nobody() -> None:
    # While it is between two attempts, everything else goes on (N23).
    async with beside("exits_at_once", restart=restarts(backoff=30)) as table:
        assert table.row().state is RESTARTING
        for _ in range(20):
            await table.good()
