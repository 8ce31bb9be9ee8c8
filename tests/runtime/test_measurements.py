"""Measurements of a runtime: where they are kept, and by environment. G25, D10."""

from __future__ import annotations

from pathlib import Path

import pytest

import trio
import trio.testing

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.mcp.tool_cache import identity
from glyphoxa_trio.runtime.plans import servers_of
from glyphoxa_trio.storage.measurements import MeasurementFile, read_latencies

from .test_runtime import LIMIT, seer

FAR = ServerSpec(name="far", url="https://tools.example:8443/mcp")


def test_an_environment_is_the_servers_the_configured_or_derived() -> None:
    # G25, D10
    named = ServerSpec(name="named", command=("x",), environment="attic")
    servers = (named, FAR, ServerSpec(name="near", command=("x",)))

    def environments(environment: str | None) -> list[str | None]:
        config = Config(
            mcp=McpConfig(servers=servers),
            calibration=CalibrationConfig(environment=environment),
        )
        return [spec.environment for spec in servers_of(config)]

    assert environments(None) == ["attic", None, None]  # so it is derived, see metadata
    assert environments("laptop") == ["attic", "laptop", "laptop"]


@pytest.mark.border
@pytest.mark.parametrize("added", [False, True])
async def test_servers_are_measured_where_they_are_and_as_who_they_are(
    added: bool, tmp_path: Path
) -> None:
    # G21, G25, D10
    spec = seer()
    config = Config(
        mcp=McpConfig(servers=() if added else (spec,), state_dir=tmp_path),
        calibration=CalibrationConfig(at_start=False, environment="laptop"),
    )
    with trio.fail_after(LIMIT):
        async with open_runtime(config) as runtime:
            if added:
                runtime.add_server(spec)
            await runtime.wait_ready(within=LIMIT)
            keys = ["seer.whisper", "dice.roll"]
            await runtime.host.calibrate(within=LIMIT, keys=keys, unsafe=True)
        kept = read_latencies(tmp_path / "measurements.db")
        assert {place: len(found.ended) for place, found in kept.items()} == {
            ("laptop", "seer.whisper"): 5,
            ("laptop", "dice.roll"): 5,
        }
        file = MeasurementFile.open(tmp_path / "measurements.db")
        origins = {
            row.place.key: row.place.origin for row in file.load(0, float("inf"))
        }
        file.close()
        assert origins["seer.whisper"] == identity(spec)
        assert origins["dice.roll"] == ""


async def test_a_server_that_is_added_is_in_the_configured_environment_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # D10
    config = Config(
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False, environment="laptop"),
    )
    nowhere = ServerSpec(name="far", url="http://127.0.0.1:9/mcp", lazy=True)
    async with open_runtime(config) as runtime:
        runtime.add_server(nowhere)
        (spec,) = runtime._fleet.specs()
        assert spec.environment == "laptop"


@pytest.mark.parametrize(
    ("all_of_it", "measurements", "kept"),
    [
        (True, None, True),
        (True, False, False),
        (False, None, False),
        (False, True, True),
    ],
)
async def test_measurements_are_remembered_as_said_or_like_everything_else(
    all_of_it: bool, measurements: bool | None, kept: bool, tmp_path: Path
) -> None:
    config = Config(
        mcp=McpConfig(remember=all_of_it, state_dir=tmp_path),
        calibration=CalibrationConfig(at_start=False, remember=measurements),
    )
    with trio.fail_after(LIMIT):
        async with open_runtime(config):
            pass
    assert (tmp_path / "measurements.db").exists() is kept


async def test_all_tools_are_measured_again_while_the_runtime_is_open(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # G21
    config = Config(
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False, every=600.0),
    )
    async with open_runtime(config) as runtime:
        assert (await runtime.host.report())["dice.roll"].samples == 0
        await trio.sleep(661)
        assert (await runtime.host.report())["dice.roll"].samples == 5
