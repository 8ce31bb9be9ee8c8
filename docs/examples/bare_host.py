"""The tool host without NPCs: for an application with a round loop of its own.

    python docs/examples/bare_host.py

Eight calls at once, one of them hung: the others' results are there when the
tier's ceiling is.
"""

import trio

from glyphoxa_trio import Tier, open_host, tool
from glyphoxa_trio.builtin import dice
from glyphoxa_trio.host import Caller
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import ToolCall


@tool(estimated_duration_ms=100, read_only=True)
async def gaze(into: str) -> str:
    """Look into something and, as it turns out, never look away."""
    await trio.sleep_forever()
    return into


async def main() -> None:
    async with open_host() as host:
        host.register(gaze, *dice.tools())
        await host.calibrate(within=10, keys=["dice.roll"])
        print("shown in a FAST turn:", *(x.exposed for x in host.tools(Tier.FAST)))
        calls = [ToolCall(f"c{n}", "roll", '{"expression": "1d20"}') for n in range(7)]
        calls.append(ToolCall("c7", "gaze", '{"into": "the abyss"}'))
        began = trio.current_time()
        outcomes = await host.fan_out(
            calls, Caller(grant=EVERYTHING, tier=Tier.FAST), deadline=began + 0.5
        )
        for outcome in outcomes:
            print(outcome.status, outcome.message)
        print(f"{(trio.current_time() - began) * 1000:.0f} ms")


if __name__ == "__main__":
    trio.run(main)
