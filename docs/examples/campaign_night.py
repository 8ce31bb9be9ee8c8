"""An evening at the table: our campaign server, used as any MCP server is.

python docs/examples/campaign_night.py
"""

import json
from typing import Any

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec

# With a path in place of :memory: the campaign is there on the next evening, too.
SERVER = ("glyphoxa", "serve", "campaign", "--db", ":memory:")


async def main() -> None:
    config = Config(
        mcp=McpConfig(servers=(ServerSpec(name="table", command=SERVER),)),
        calibration=CalibrationConfig(at_start=False),
    )

    async def call(tool: str, /, **arguments: object) -> dict[str, Any]:
        outcome = await runtime.host.execute(f"table.{tool}", arguments)
        if not outcome.ok:
            print(f"{tool}: {outcome.message}")
            return {}
        answer: dict[str, Any] = outcome.data
        return answer

    async with open_runtime(config, wait_for_servers=30) as runtime:
        campaign = await call(
            "campaign_create", name="The Lost Expedition", gm_mode="HUMAN"
        )
        await call("set_context", campaign_id=campaign["id"])
        alice = await call("participant_create", display_name="Alice", role="PLAYER")
        thorin = await call("actor_create", name="Thorin Ironforge", kind="PC")
        await call("actor_control_set", actor_id=thorin["id"], controller=alice["id"])
        await call("session_start", name="Session 1: The Journey Begins")
        await call("session_start", name="Session 2")  # refused: one at a time

        roll = await call("duality_outcome", hope=8, fear=5, modifier=2, difficulty=15)
        print(f"{thorin['name']}: {roll['outcome']}")
        ended = await call("session_end")
        print(json.dumps({key: ended[key] for key in ("name", "status")}))


if __name__ == "__main__":
    trio.run(main)
