"""A scene goes on while NPCs come and go with the configuration."""

from __future__ import annotations

import attrs
import pytest

import trio

from glyphoxa_trio.npc import NobodyAddressed, TurnEnd
from glyphoxa_trio.runtime import RuntimeClosed, UnknownNpc
from tests.npc.scene.support import (
    BARTOK,
    GREYMANTLE,
    YSOLDE,
    config,
    listen,
    open_stage,
    started,
)


async def test_newcomers_are_spoken_to_and_know_the_scene(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        await stage.scene.tell("Night falls.")
        await stage.runtime.reload(config(BARTOK, "Mira Stonefoot"))
        heard = await listen(stage.scene.say("Mira, who are you?"))
        assert heard.done.end is TurnEnd.COMPLETED
        prompt = stage.llm.requests[-1].messages[0].content
        assert prompt.endswith("The scene:\n- Night falls.")
        await listen(stage.scene.say("Bartok?"))
        said = stage.overheard(BARTOK)
        assert said[0] == "player to Mira Stonefoot: Mira, who are you?"
        assert (await stage.scene.look()).npcs == (BARTOK, "Mira Stonefoot")


async def test_whoever_is_gone_is_not_meant_any_more(autojump_clock: object) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        await listen(scene.say("Bartok?"))
        await scene.puppet(BARTOK)
        await stage.runtime.reload(config(GREYMANTLE, YSOLDE))
        with pytest.raises(NobodyAddressed):
            await scene.addressed("And then, Bartok?")
        with pytest.raises(UnknownNpc):
            await scene.puppet(BARTOK)
        # Whoever is there goes on; who returns, too.
        assert (await scene.addressed("Ysolde?")).npc == YSOLDE
        await stage.runtime.reload(config())
        assert (await scene.addressed("Hm?")).npc == BARTOK


async def test_one_who_waits_for_somebody_who_goes_is_told(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        scene = stage.scene
        started(nursery, scene.say("Ysolde, hello", speaker="a"))
        waits = started(nursery, scene.say("Bartok, hello", speaker="b"), after=0.1)
        next_ = started(nursery, scene.say("Ysolde, hi", speaker="c"), after=0.2)
        await trio.sleep(0.5)
        nursery.start_soon(stage.runtime.reload, config(GREYMANTLE, YSOLDE))
    assert waits.done.end is TurnEnd.FAILED
    assert "Bartok" in waits.done.error
    assert next_.done.end is TurnEnd.COMPLETED


async def test_a_muted_npc_is_muted_when_it_returns(autojump_clock: object) -> None:
    async with open_stage() as stage:
        await stage.scene.mute(BARTOK)
        await stage.runtime.reload(config(YSOLDE))
        assert (await stage.scene.addressed("Hm?")).npc == YSOLDE
        await stage.runtime.reload(config())
        assert (await stage.scene.look()).muted == {BARTOK}


async def test_the_limits_are_those_of_the_configuration_in_force(
    autojump_clock: object,
) -> None:
    async with open_stage(scene={"players": 1, "context": ("Rain.",)}) as stage:
        other = config(scene={"players": 2, "context": ("Snow.",)})
        await listen(stage.scene.say("Bartok?"))
        assert "- Rain." in stage.llm.requests[-1].messages[0].content
        await stage.runtime.reload(other)
        await listen(stage.scene.say("Bartok?"))
        assert "- Snow." in stage.llm.requests[-1].messages[0].content
        async with trio.open_nursery() as nursery:
            for name in "abc":
                started(nursery, stage.scene.say("Bartok?", speaker=name))
            await trio.testing.wait_all_tasks_blocked()
            assert len((await stage.scene.look()).waiting) == 2
            nursery.cancel_scope.cancel()


async def test_what_was_told_last_holds_also_after_a_reload_of_something_else(
    autojump_clock: object,
) -> None:
    async with open_stage(scene={"context": ("Rain.",)}) as stage:
        await stage.scene.tell("Night.")
        other = attrs.evolve(stage.runtime.config, template_defaults={"x": "y"})
        await stage.runtime.reload(other)
        await listen(stage.scene.say("Bartok?"))
        assert stage.llm.requests[-1].messages[0].content.endswith("\n- Night.")


async def test_a_closed_runtime_has_no_scenes(autojump_clock: object) -> None:
    async with open_stage() as stage:
        pass
    with pytest.raises(RuntimeClosed):
        stage.runtime.scene()
