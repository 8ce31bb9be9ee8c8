"""A worker with a server that counts its calls, as a process of its own:
``python -m tests.cluster.counting_process NATS MEMORY LEDGER``.

It prints its name once it serves, and is ended by a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

import attrs

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import serve
from glyphoxa_trio.config import Config, McpConfig, ServerSpec
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.secret import Secret

from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent

SERVER = Path(__file__).with_name("counting_server.py")


def counting_config(ledger: Path) -> Config:
    """Return a configuration with the server."""
    config = silent(with_room(10))
    command = (sys.executable, str(SERVER), str(ledger))
    env = {"PYTHONPATH": Secret(str(SERVER.parents[2]))}
    spec = ServerSpec(name="shop", command=command, env=env)
    return attrs.evolve(config, mcp=McpConfig(servers=(spec,), remember=False))


async def main(nats_url: str, memory: str, ledger: str) -> None:
    async with (
        open_runtime(
            counting_config(Path(ledger)),
            llm=ScriptedLLM(lambda request: ["Hm."]),
            memory=Path(memory),
        ) as runtime,
        open_nats(nats_url) as nats,
    ):
        assert await runtime.wait_ready(within=60)
        async with serve(runtime, nats) as worker:
            sys.stdout.write(f"{worker.name}\n")
            sys.stdout.flush()
            await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
