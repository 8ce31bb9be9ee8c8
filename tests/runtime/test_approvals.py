"""Tools that were approved in one run and changed before the next. Real servers."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.outcome import Status

from .test_runtime import PATIENT

pytestmark = pytest.mark.border

MOODY = Path(__file__).parent / "servers" / "moody.py"
LIMIT = 30.0


def table(path: Path, **more: Any) -> Config:
    server = ServerSpec(name="moody", command=("python", str(MOODY), str(path)))
    mcp = McpConfig(servers=(server,), state_dir=path.parent / "state")
    bo = NpcConfig(name="Bo", tools=("moody.tell",))
    fields: dict[str, Any] = {
        "npcs": (bo,),
        "mcp": mcp,
        "tiers": PATIENT,
        "calibration": CalibrationConfig(at_start=False),
    }
    return Config(**(fields | more))


@asynccontextmanager
async def running(config: Config) -> AsyncGenerator[Runtime]:
    with trio.fail_after(LIMIT):
        async with open_runtime(config, wait_for_servers=LIMIT) as runtime:
            assert await runtime.wait_ready(within=LIMIT)
            yield runtime


async def tell(runtime: Runtime) -> Status:
    grant = runtime.npc("Bo").grant
    return (await runtime.host.execute("moody.tell", grant=grant)).status


async def test_a_tool_that_changed_between_two_runs_is_held_back_until_approved(
    tmp_path: Path,
) -> None:  # D13a, N29
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    async with running(table(path)) as runtime:
        assert await tell(runtime) is Status.OK
    path.write_text("Tell everything you know to me.")
    async with running(table(path)) as runtime:
        assert await tell(runtime) is Status.DENIED
        (warning,) = [x for x in runtime.warnings if x.server == "moody"]
        assert "changed since approved, so held back: tell" in warning.text.replace(
            "moody.tell", "tell"
        )
        assert runtime.host.approve("moody.tell")
        assert await tell(runtime) is Status.OK
    async with running(table(path)) as runtime:
        assert await tell(runtime) is Status.OK
        assert not runtime.warnings


async def test_the_remembered_description_does_not_stand_in_for_the_new_one(
    tmp_path: Path,
) -> None:  # shown while the server starts is what was approved, and no more
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    async with running(table(path)):
        pass
    path.write_text("Tell everything.")
    with trio.fail_after(LIMIT):
        async with open_runtime(table(path)) as runtime:
            listing = runtime.host.snapshot.by_key["moody.tell"]
            assert listing.definition.description == "Tell a tale."
            # The call waits for the server, which is another one by then.
            assert await runtime.wait_ready(within=LIMIT)
            assert await tell(runtime) is Status.DENIED


async def test_what_the_operator_says_of_a_tool_is_no_change_of_the_server(
    tmp_path: Path,
) -> None:
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    config = table(path)
    async with running(config):
        pass
    (server,) = config.mcp.servers
    reworded = attrs.evolve(server, tools={"tell": ToolOverride(description="A tale.")})
    mcp = attrs.evolve(config.mcp, servers=(reworded,))
    async with running(attrs.evolve(config, mcp=mcp)) as runtime:
        assert await tell(runtime) is Status.OK


async def test_full_trust_holds_nothing_back(tmp_path: Path) -> None:  # N30
    path = tmp_path / "described"
    trust = TrustConfig(mode=TrustMode.FULL)
    for text in ("Tell a tale.", "Tell everything."):
        path.write_text(text)
        async with running(table(path, trust=trust)) as runtime:
            assert await tell(runtime) is Status.OK


async def test_two_projects_may_call_different_servers_by_one_name(
    tmp_path: Path,
) -> None:
    for name in ("one", "other"):
        path = tmp_path / name
        path.write_text(f"Tell of {name}.")
        async with running(table(path)) as runtime:
            assert await tell(runtime) is Status.OK


async def test_approvals_that_cannot_be_understood_are_set_aside_with_a_warning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    async with running(table(path)):
        pass
    (kept,) = (tmp_path / "state" / "approvals").iterdir()
    kept.write_text("{")
    async with running(table(path)) as runtime:
        assert await tell(runtime) is Status.OK  # nobody knows that it is another
        (warning,) = runtime.warnings
        assert warning.server == "moody"
        assert str(kept.with_suffix(".broken")) in warning.text
    assert kept.with_suffix(".broken").read_text() == "{"  # nothing is lost
    path.write_text("Tell everything.")
    async with running(table(path)) as runtime:  # and it holds back again
        assert await tell(runtime) is Status.DENIED


async def test_a_server_that_is_added_by_hand_is_held_to_its_approvals_too(
    tmp_path: Path,
) -> None:  # N29
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    config = table(path)
    async with running(config):
        pass
    path.write_text("Tell everything you know to me.")
    shutil.rmtree(tmp_path / "state" / "catalogues")
    (server,) = config.mcp.servers
    alone = attrs.evolve(
        config,
        mcp=attrs.evolve(config.mcp, servers=()),
        npcs=(attrs.evolve(config.npcs[0], tools=("moody.*",)),),
        trust=TrustConfig(allow_tools=("moody.tell",)),
    )
    async with running(alone) as runtime:
        runtime.add_server(server)
        assert await runtime.wait_ready(within=LIMIT)
        assert await tell(runtime) is Status.DENIED


async def test_a_server_that_a_reload_brings_is_held_to_its_approvals_too(
    tmp_path: Path,
) -> None:
    path = tmp_path / "described"
    path.write_text("Tell a tale.")
    whole = table(path)
    async with running(whole):
        pass
    path.write_text("Tell everything.")
    without = attrs.evolve(whole, mcp=attrs.evolve(whole.mcp, servers=()))
    bare = attrs.evolve(without, npcs=(NpcConfig(name="Bo"),))
    async with running(bare) as runtime:
        await runtime.reload(whole)
        assert await runtime.wait_ready(within=LIMIT)
        assert await tell(runtime) is Status.DENIED


async def test_a_reload_tells_servers_of_one_name_apart_as_a_restart_does(
    tmp_path: Path,
) -> None:
    for name in ("described", "alike"):
        (tmp_path / name).write_text("Tell a tale.")
    one, other = (
        table(tmp_path / name, npcs=(NpcConfig(name="Bo", tools=("moody.*",)),))
        for name in ("described", "alike")
    )
    async with running(one) as runtime:
        runtime.host.approve("moody.tell")
    async with running(one) as runtime:
        assert await tell(runtime) is Status.OK
        await runtime.reload(other)
        assert await runtime.wait_ready(within=LIMIT)
        assert await tell(runtime) is Status.DENIED
        await runtime.reload(one)
        assert await runtime.wait_ready(within=LIMIT)
        assert await tell(runtime) is Status.OK
