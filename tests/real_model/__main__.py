"""Play with a real, small model: ``make model``. Prints what it did; status 1 if a
promise was broken.

The model is SmolLM2 with 135 million parameters, on its usual server. It is not clever:
it may call a tool or not, with arguments that fit or not. So what is checked is what
must hold for every model: each turn ends, within its limits, with words for the player;
each call has one outcome; what was said before a failure or an interruption does not
make the next turn fail; a conversation that is longer than the model's context goes on.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio import Runtime, load_config, open_runtime
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    ModelFailed,
    Sentence,
    TextDelta,
    ToolFinished,
    TurnDone,
)

from .serving import CONTEXT, PYTHON, ModelServer, serving

CEILING: Final = 1.5  # seconds of tools in a STANDARD turn
_LATE: Final = 0.25  # seconds that a busy machine may be late
_TURN: Final = 150.0  # seconds; no turn of these takes as long

_CONFIG: Final = """
llm:
  provider: llamacpp
  base_url: {base_url}
  model: smollm2
  context_tokens: {context}
  max_tokens: 60
  temperature: 0.9
turn: {{model_total_ms: 120000, first_token_ms: 30000}}
npcs:
  - name: Mara
    personality: You keep an inn. You answer in one short sentence.
    budget_tier: standard
    tools: [roll]
  - name: Odo
    personality: You are a smith. You answer in one short sentence.
    tools: []
    greeting: Welcome to the forge!
"""

_ASKED: Final = (
    "Roll 2d6 for me, with the tool roll.",
    "Who are you?",
    "Please call the function roll with the expression 1d20.",
    "What is there to eat?",
    "Roll a d100!",
)


@attrs.define(eq=False)
class Played:
    """What became of some turns."""

    first: list[float] = attrs.field(factory=list)  # seconds to the first text
    whole: list[float] = attrs.field(factory=list)
    sentences: int = 0
    outcomes: Counter[str] = attrs.field(factory=Counter)
    failures: list[str] = attrs.field(factory=list)
    fallbacks: int = 0
    slowest_tools: float = 0.0

    def note(self, event: Any, begun: float) -> None:
        match event:
            case Sentence():
                self.sentences += 1
            case ToolFinished(outcome=outcome):
                self.outcomes[outcome.status.value] += 1
            case FanOutDone(elapsed=elapsed):
                self.slowest_tools = max(self.slowest_tools, elapsed)
            case ModelFailed(kind=kind, detail=detail):
                self.failures.append(f"{kind.value}: {detail}")
            case FellBack():
                self.fallbacks += 1
            case TurnDone():
                self.whole.append(trio.current_time() - begun)

    def __str__(self) -> str:
        said = f"{len(self.whole)} turns, {self.sentences} sentences"
        if self.first:
            middle = statistics.median(self.first)
            said += f", first text after {middle:.2f} s (median)"
        if self.whole:
            said += f", whole {statistics.median(self.whole):.2f} s"
        if self.outcomes:
            calls = ", ".join(f"{n} {name}" for name, n in self.outcomes.items())
            most = 1000 * self.slowest_tools
            said += f"; calls: {calls}, tools at most {most:.1f} ms"
        if self.failures:
            said += f"; {len(self.failures)} failed, e.g. {self.failures[0]}"
        return said


@attrs.define(eq=False)
class Play:
    """Turns of one runtime, and what was broken."""

    runtime: Runtime
    wrong: list[str] = attrs.field(factory=list)

    def hold(self, promise: bool, said: str) -> None:
        if not promise:
            self.wrong.append(said)
            print(f"  BROKEN: {said}")

    async def turn(
        self,
        played: Played,
        npc: str,
        text: str,
        *,
        leave: Callable[[Any], bool] = lambda event: False,
    ) -> bool:
        """One turn; false if it was left early."""
        begun = trio.current_time()
        heard = False
        with trio.move_on_after(_TURN) as limit:
            async with self.runtime.npc(npc).say(text) as turn:
                async for event in turn:
                    if isinstance(event, TextDelta) and not heard:
                        heard = True
                        played.first.append(trio.current_time() - begun)
                    played.note(event, begun)
                    if leave(event):
                        return False
        self.hold(not limit.cancelled_caught, f"{text!r} did not end in {_TURN:g} s")
        return True


async def talk(play: Play) -> None:
    """Plain turns and tool calls, until one has gone well: it calls when it likes."""
    played = Played()
    for number, text in enumerate(_ASKED * 8):
        if number >= 2 * len(_ASKED) and played.outcomes["ok"]:
            break
        await play.turn(played, "Mara", text)
    print(f"talk and tools: {played}")
    play.hold(not played.failures, f"the model failed: {played.failures[:1]}")
    play.hold(bool(played.outcomes["ok"]), "no tool was called with success")
    play.hold(played.slowest_tools <= CEILING + _LATE, "tools took longer than 1.5 s")


async def interrupt(play: Play) -> None:
    """Leave before a sentence was heard, and while one is said, and ask again."""
    left, after = Played(), Played()
    for text in ("Tell me a long story.", "Tell me of the war, at length."):
        for kind in (TextDelta, Sentence):

            def leave(event: Any, kind: type = kind) -> bool:
                return isinstance(event, kind)

            await play.turn(left, "Mara", text, leave=leave)
            await play.turn(after, "Mara", "And your name?")
    print(f"after interruptions: {after}")
    play.hold(not after.failures, f"a turn after one failed: {after.failures[:1]}")
    play.hold(after.sentences > 0, "nothing was said after interruptions")


async def overhear(play: Play) -> None:
    """What the DM adds and what others say to each other, before a turn."""
    played = Played()
    mara = play.runtime.npc("Mara")
    await mara.set_scene("It rains, and the bridge is closed.")
    await mara.overhear("Odo", "A rider has come in from the north.")
    await mara.overhear("Tess", "He asks for a smith.", to="Odo")
    await play.turn(played, "Mara", "What is new?")
    print(f"after lines overheard: {played}")
    failed = played.failures[:1]
    play.hold(not failed, f"a line overheard made a turn fail: {failed}")


async def go_on_for_long(play: Play) -> None:
    """Say more than the model's context holds."""
    played = Played()
    story = "The road was long and the rain was cold, and nobody spoke a word. " * 6
    for index in range(20):
        await play.turn(played, "Odo", f"{index}. {story} What do you say?")
    print(f"a conversation of over {CONTEXT} tokens: {played}")
    play.hold(not played.failures, f"a long conversation failed: {played.failures[:1]}")


async def all_at_once(play: Play) -> None:
    """Both NPCs at once, on a server that serves one request at a time."""
    played = Played()
    async with trio.open_nursery() as nursery:
        for npc in ("Mara", "Odo"):
            nursery.start_soon(play.turn, played, npc, "What do you think of elves?")
    print(f"two at once: {played}")
    play.hold(not played.failures, f"a turn beside another failed: {played.failures}")


async def crash(play: Play, server: ModelServer) -> None:
    """Kill the server while it streams; start it anew."""
    cut = Played()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(play.turn, cut, "Odo", "Tell me all you know of iron.")
        while not (cut.first or cut.whole):  # noqa: ASYNC110 a turn has no event for it
            await trio.sleep(0.01)
        await server.kill()
    down = Played()
    await play.turn(down, "Odo", "Are you there?")
    print(f"the server is killed: {cut}\n  and while it is down: {down}")
    play.hold(down.fallbacks == 1, "a turn without a model had no line to say")
    print(f"  started again in {await server.start():.1f} s")
    back = Played()
    await play.turn(back, "Odo", "Are you there now?")
    print(f"  and back: {back}")
    play.hold(not back.failures, f"not back: {back.failures[:1]}")


async def main() -> int:
    if not PYTHON.exists():
        print("the model is not installed: make model", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        async with serving(log) as server:
            print(f"the model's server is up after {await server.start():.1f} s")
            path = trio.Path(folder, "model.yaml")
            config = _CONFIG.format(base_url=server.base_url, context=CONTEXT)
            await path.write_text(config)
            async with open_runtime(load_config(Path(path))) as runtime:
                play = Play(runtime)
                await talk(play)
                await interrupt(play)
                await overhear(play)
                await go_on_for_long(play)
                await all_at_once(play)
                await crash(play, server)
    print(f"{len(play.wrong)} promises broken")
    return 1 if play.wrong else 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
