"""What a speech-to-speech NPC knows that its model did not hear: as text, in time."""

from __future__ import annotations

import pytest

import trio

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.npc import Scripted
from glyphoxa_trio.npc.hot_context import HotContext
from glyphoxa_trio.providers.s2s import (
    Capabilities,
    SendText,
    SetInstructions,
    TranscriptLine,
)

from ..support import ask
from .support import Links, lost
from .test_turns import BOTH, Model, open_voice


def told(links: Links) -> list[TranscriptLine]:
    """What the model was told on its last socket without having to answer."""
    return [x.line for x in links.last.all(SendText) if not x.reply]


@BOTH
async def test_what_others_said_is_told_at_once(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:
    model = Model((["One."], []), (["Two."], []))
    async with open_voice(wire, model) as (table, links):
        await ask(table.npc)
        await table.npc.overhear("Aria", "Is it safe?", to="Ysolde")
        await table.npc.overhear("Ysolde", "No.")
        lines = [TranscriptLine("user", "(Aria to Ysolde: Is it safe?)")]
        lines += [TranscriptLine("user", "(Ysolde: No.)")]
        assert told(links) == lines
        # It is part of what a later socket begins with, too.
        links.last.push(lost())
        await ask(table.npc, "And now?")
        assert links.last is not links.opened[0]
        assert [x for x in links.last.setup.history if x in lines] == lines


@BOTH
async def test_words_of_the_dm_become_the_model_s_own(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:
    model = Model((["One."], []), (["Two."], []))
    async with open_voice(wire, model) as (table, links):
        await ask(table.npc)
        async with table.npc.speak_as("We are closed.") as turn:
            kinds = [type(event) async for event in turn]
        assert kinds[0] is Scripted
        await ask(table.npc, "Why?")
        assert told(links) == [TranscriptLine("assistant", "We are closed.")]


@BOTH
async def test_what_hooks_know_is_told_before_the_words(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        context = HotContext(SharedTasks(nursery))
        context.add(lambda moment: f"It rains on {moment.npc}.")
        model = Model((["One."], []))
        async with open_voice(wire, model, context=context) as (table, links):
            await ask(table.npc, "Hm?")
            texts = [x.line.text for x in links.last.all(SendText)]
            assert texts == [
                "(What you know of this moment:\n- It rains on Bob.)",
                "Hm?",
            ]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("running", [False, True])
@BOTH
async def test_the_scene_and_the_player_are_instructions_from_the_next_turn_on(
    wire: Capabilities, running: bool, autojump_clock: trio.testing.MockClock
) -> None:
    model = Model((["One."], []), (["Two."], []))
    async with open_voice(wire, model) as (table, links):
        async with table.npc.say("Hello") as turn:
            if not running:
                await turn.finish()
            await table.npc.set_scene("Night falls.")
            if running:
                await turn.finish()
        await ask(table.npc, "And now?")
        instructions = [x.text for x in links.last.all(SetInstructions)]
        assert any(x.endswith("The scene:\n- Night falls.") for x in instructions)
