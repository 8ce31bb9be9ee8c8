"""A scene on virtual time: one NPC speaks at a time, and everybody hears it."""

from __future__ import annotations

from functools import partial

import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.model import SpeculationConfig
from glyphoxa_trio.npc import (
    Addressed,
    NobodyAddressed,
    NotHere,
    NpcMuted,
    Queued,
    SceneFull,
    Scripted,
    Sentence,
    TierSelected,
    TurnDone,
    TurnEnd,
    Why,
)
from glyphoxa_trio.npc.events import TurnEvent
from glyphoxa_trio.runtime import UnknownNpc
from glyphoxa_trio.tools.tier import Tier
from tests.npc.support import HANG, Heard, Reply

from .support import BARTOK, GREYMANTLE, YSOLDE, listen, open_stage, started, who

DONE, CUT, FAILED, SHED, *_ = TurnEnd


def end(heard: Heard) -> tuple[TurnEnd, float]:
    (at,) = heard.when(TurnDone)
    return heard.done.end, at


def speaker(heard: Heard) -> str:
    return heard.events[-1][1].npc


# Who is meant.


async def test_whoever_is_named_answers_and_then_goes_on(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        heard = await listen(scene.say("Greymantle, what is blinded?"))
        assert [x.npc for x in heard.of(Sentence)] == [GREYMANTLE, GREYMANTLE]
        assert speaker(await listen(scene.say("And deafened?"))) == GREYMANTLE
        # Another player has spoken to nobody yet: it is for whoever spoke last.
        other = partial(scene.say, speaker="Cole")
        assert speaker(await listen(other("Really?"))) == GREYMANTLE
        assert speaker(await listen(other("Ask the barkeep."))) == BARTOK
        # Each of them goes on with theirs.
        assert speaker(await listen(scene.say("I see."))) == GREYMANTLE
        assert speaker(await listen(other("I see."))) == BARTOK


async def test_nobody_answers_where_nobody_is_meant(autojump_clock: object) -> None:
    async with open_stage() as stage:
        heard = await listen(stage.scene.say("Hello, the three of you"))
        assert isinstance(heard.error, NobodyAddressed)
        assert heard.events == []
        assert stage.llm.requests == []
        look = await stage.scene.look()
        assert (look.speaking, look.waiting, look.said) == (None, (), 0)


async def test_a_caller_can_say_who_is_meant(autojump_clock: object) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        await scene.puppet("Ysolde")
        heard = await listen(scene.say("Bartok?", to="grey"))
        assert speaker(heard) == GREYMANTLE
        with pytest.raises(UnknownNpc):
            async with scene.say("Hello", to="Nobody"):
                pass


async def test_everything_goes_to_a_puppet_until_it_is_released(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        assert await scene.puppet("ysolde") == YSOLDE
        assert speaker(await listen(scene.say("Bartok, a beer!"))) == YSOLDE
        assert await scene.addressed("Bartok!") == Addressed(YSOLDE, Why.PUPPET)
        assert await scene.puppet(None) is None
        assert speaker(await listen(scene.say("Bartok, a beer!"))) == BARTOK


async def test_asking_who_is_meant_leaves_no_trace(autojump_clock: object) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        assert await scene.addressed("Bartok?") == Addressed(BARTOK, Why.NAMED)
        with pytest.raises(NobodyAddressed):
            await scene.addressed("Hm?")
        assert await scene.turn_to("barto") == BARTOK
        assert await scene.addressed("Hm?") == Addressed(BARTOK, Why.LAST)
        with pytest.raises(NobodyAddressed):
            await scene.addressed("Hm?", speaker="Cole")


async def test_a_scene_of_some_knows_only_them(autojump_clock: object) -> None:
    async with open_stage(only=("Bartok", "ysolde")) as stage:
        scene = stage.scene
        assert scene is stage.runtime.scene(YSOLDE, BARTOK)
        assert scene is not stage.runtime.scene()
        with pytest.raises(NobodyAddressed):
            await scene.addressed("Greymantle?")
        with pytest.raises(NotHere, match="Greymantle the Sage is not in"):
            await scene.mute("Greymantle")
        with pytest.raises(UnknownNpc):
            stage.runtime.scene("Nobody")
        await scene.mute(BARTOK)
        heard = await listen(scene.say("Hello"))  # the only one left
        assert speaker(heard) == YSOLDE


# One at a time.


async def test_two_npcs_never_speak_at_once(autojump_clock: object) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        one = started(nursery, say("Bartok, hello", speaker="a"))
        two = started(nursery, say("Ysolde, hello", speaker="b"), after=0.1)
        three = started(nursery, say("Bartok, hey", speaker="c"), after=0.2)
    assert end(one) == (DONE, 1.0)
    assert end(two) == (DONE, 2.0)
    assert end(three) == (DONE, 3.0)
    assert two.only(Queued) == Queued(npc=YSOLDE, turn=0, position=1)
    assert three.only(Queued) == Queued(npc=BARTOK, turn=0, position=2)
    assert two.when(Queued) == [0.1]
    assert one.kinds()[0] == "TierSelected"


async def test_the_floor_is_free_when_the_listener_has_heard_it_all(
    autojump_clock: object,
) -> None:
    """Not when the model is done: that voice is still to be listened to."""
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        slow = started(nursery, say("Bartok, hello", speaker="a"), pace=1.0)
        next_ = started(nursery, say("Ysolde, hello", speaker="b"), after=0.1)
    (at,) = slow.when(TurnDone)
    assert at == 6.0
    assert next_.when(TierSelected) == [6.0]


async def test_a_listener_who_leaves_leaves_the_floor(autojump_clock: object) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        gone = started(nursery, say("Bartok, hello", speaker="a"), leave_at=0.5)
        next_ = started(nursery, say("Ysolde, hello", speaker="b"), after=0.1)
    assert gone.of(TurnDone) == []
    assert end(next_) == (DONE, 1.5)
    assert stage.llm.open == 0


async def test_one_who_waits_and_leaves_is_forgotten(autojump_clock: object) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        started(nursery, say("Bartok, hello", speaker="a"))
        await wait_all_tasks_blocked()
        gone = started(nursery, say("Ysolde, hi", speaker="b"), leave_at=0.5)
        last = started(nursery, say("Bartok, bye", speaker="c"), after=0.1)
    assert gone.kinds() == ["Queued"]
    assert end(last) == (DONE, 2.0)
    assert {who(x) for x in stage.llm.requests} == {BARTOK}


async def test_a_listener_who_stops_listening_holds_the_floor_only_so_long(
    autojump_clock: object,
) -> None:
    async with (
        open_stage(listener=5.0) as stage,
        trio.open_nursery() as nursery,
    ):
        async with stage.scene.say("Bartok, hello", speaker="a"):
            next_ = started(nursery, stage.scene.say("Ysolde?", speaker="b"))
            await trio.sleep(20)
        nursery.cancel_scope.deadline = 30
    assert next_.when(TierSelected) == [6.0]


async def test_the_dm_is_next_whoever_waits(autojump_clock: object) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        started(nursery, say("Bartok, hello", speaker="a"))
        player = started(nursery, say("Ysolde, hello", speaker="b"), after=0.1)
        dm = started(nursery, say("Ysolde, go", speaker="DM", dm=True), after=0.2)
    assert end(dm) == (DONE, 2.0)
    assert end(player) == (DONE, 3.0)


async def test_no_more_players_wait_than_are_allowed(autojump_clock: object) -> None:
    async with (
        open_stage(scene={"players": 2}) as stage,
        trio.open_nursery() as nursery,
    ):
        say = stage.scene.say
        for name in "abc":
            started(nursery, say("Bartok, hello", speaker=name))
            await wait_all_tasks_blocked()
        full = await listen(say("Bartok, hello", speaker="d"))
        assert isinstance(full.error, SceneFull)
        assert len((await stage.scene.look()).waiting) == 2


async def test_who_waits_in_the_scene_counts_for_the_tier(
    autojump_clock: object,
) -> None:
    # G18: three players wait, though none of them for this NPC.
    deep = [NpcConfig(name=x, budget_tier=Tier.DEEP) for x in ("Ada", "Bea")]
    async with open_stage({}, *deep) as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        started(nursery, say("Ada, hello", speaker="a"))
        await wait_all_tasks_blocked()
        text = "Bea, what do you remember of the quest?"
        heard = [
            started(nursery, say(text, speaker=name), after=at / 10)
            for at, name in enumerate("bcde")
        ]
    reasons = [(x.only(TierSelected).tier, x.only(TierSelected).reason) for x in heard]
    assert reasons == [
        (Tier.FAST, "3 are waiting"),
        (Tier.STANDARD, "'remember'"),
        (Tier.STANDARD, "'remember'"),
        (Tier.STANDARD, "'remember'"),
    ]


# Who interrupts whom.


async def test_a_player_who_goes_on_interrupts_whoever_answers_them(
    autojump_clock: object,
) -> None:
    # D12a: also when it is for another NPC.
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        first = started(nursery, say("Bartok, hello", speaker="a"))
        other = started(nursery, say("Bartok, hey", speaker="b"), after=0.1)
        second = started(nursery, say("Ysolde, tell me", speaker="a"), after=0.5)
    assert end(first) == (CUT, 0.5)
    assert end(second) == (DONE, 1.5)  # before the others, as at one NPC
    assert end(other) == (DONE, 2.5)


async def test_one_who_waits_and_goes_on_is_answered_once_in_their_place(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        started(nursery, say("Bartok, hello", speaker="a"))
        old = started(nursery, say("Bartok, an ale", speaker="b"), after=0.1)
        third = started(nursery, say("Bartok, me too", speaker="c"), after=0.2)
        new = started(nursery, say("No, Ysolde, wait", speaker="b"), after=0.3)
    assert end(old) == (CUT, 0.3)
    assert old.done.error == "the speaker went on"
    assert old.done.turn == 0
    assert end(new) == (DONE, 2.0)
    assert end(third) == (DONE, 3.0)


async def test_others_do_not_interrupt(autojump_clock: object) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        first = started(nursery, stage.scene.say("Bartok?", speaker="a"))
        started(nursery, stage.scene.say("Bartok!", speaker="b"), after=0.5)
    assert end(first) == (DONE, 1.0)


# Muted.


async def test_a_muted_npc_falls_silent_and_cannot_be_spoken_to(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        scene = stage.scene
        running = started(nursery, scene.say("Bartok, hello", speaker="a"))
        waits = started(nursery, scene.say("Bartok, hey", speaker="b"), after=0.1)
        other = started(nursery, scene.say("Ysolde?", speaker="c"), after=0.2)
        await trio.sleep(0.5)
        assert await scene.mute("bartok") == BARTOK
        refused = await listen(scene.say("Bartok, come on", speaker="a"))
        assert isinstance(refused.error, NpcMuted)
    assert end(running) == (CUT, 0.5)
    assert end(waits) == (CUT, 0.5)
    assert waits.done.error == f"{BARTOK} is muted"
    assert end(other) == (DONE, 1.5)
    assert stage.llm.open == 0


async def test_it_answers_again_when_it_may(autojump_clock: object) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        await scene.mute(BARTOK)
        assert (await scene.look()).muted == {BARTOK}
        assert await scene.unmute("bartok") == BARTOK
        assert speaker(await listen(scene.say("Bartok?"))) == BARTOK


async def test_with_everybody_muted_nobody_answers(autojump_clock: object) -> None:
    async with open_stage() as stage:
        for name in (BARTOK, GREYMANTLE, YSOLDE):
            await stage.scene.mute(name)
        heard = await listen(stage.scene.say("Bartok? Anybody?"))
        assert isinstance(heard.error, NpcMuted)
        assert stage.llm.requests == []


# Spoken as.


async def test_the_dm_speaks_as_an_npc_and_everybody_hears_it(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        heard = await listen(scene.speak_as("bartok", "We are closed. Go home!"))
        assert [x.text for x in heard.of(Sentence)] == ["We are closed.", "Go home!"]
        assert heard.only(Scripted).speaker == "DM"
        assert stage.llm.requests == []
        await listen(scene.say("Ysolde, did you hear?"))
        assert stage.overheard(YSOLDE) == [f"{BARTOK}: We are closed. Go home!"]
        # It is his own: he knows it as what he said.
        await listen(scene.say("Bartok, why?"))
        assert stage.told(BARTOK)[0] == "We are closed. Go home!"


async def test_it_takes_the_npc_s_own_words_from_its_mouth_and_nobody_else_s(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        scene = stage.scene
        own = started(nursery, scene.say("Bartok, hello", speaker="a"))
        dm = started(nursery, scene.speak_as(BARTOK, "Silence!"), after=0.5)
        next_ = started(nursery, scene.say("Ysolde?", speaker="b"), after=0.6)
        as_other = started(nursery, scene.speak_as(BARTOK, "Aye."), after=0.7)
    assert end(own) == (CUT, 0.5)
    assert end(dm) == (DONE, 0.5)
    assert end(next_) == (DONE, 1.6)
    assert end(as_other) == (DONE, 1.6)


async def test_a_dialogue_of_the_dm_is_said_in_its_order(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        order: list[TurnEvent] = []
        with stage.runtime.events.tap(order.append):
            for npc, words in (
                (BARTOK, "Who goes there?"),
                (YSOLDE, "Death."),
                (BARTOK, "Come in."),
            ):
                started(nursery, stage.scene.speak_as(npc, words))
                await wait_all_tasks_blocked()
    said = [x.text for x in order if isinstance(x, Sentence)]
    assert said == ["Who goes there?", "Death.", "Come in."]


async def test_a_muted_npc_can_be_spoken_as(autojump_clock: object) -> None:
    async with open_stage() as stage:
        await stage.scene.mute(BARTOK)
        heard = await listen(stage.scene.speak_as(BARTOK, "Hm."))
        assert end(heard) == (DONE, 0.0)


async def test_muting_does_not_interrupt_the_dm(autojump_clock: object) -> None:
    async with open_stage() as stage:
        words = "Hark. " * 100  # it waits for its listener
        async with stage.scene.speak_as(BARTOK, words) as turn:
            await turn.__anext__()
            await stage.scene.mute(BARTOK)
            done = await turn.finish()
        assert done.end is DONE


async def test_a_greeting_is_said_in_its_turn(autojump_clock: object) -> None:
    bo = NpcConfig(name="Bo", greeting="Hail, {caller_name}!")
    async with open_stage({}, bo, YSOLDE) as stage, trio.open_nursery() as nursery:
        started(nursery, stage.scene.say("Ysolde?", speaker="a"))
        greeting = started(nursery, stage.scene.greet("bo"), after=0.1)
    assert greeting.when(Sentence) == [1.0]
    assert greeting.only(Sentence).text == "Hail, there!"


# What everybody hears.


async def test_everybody_hears_what_was_said_and_what_was_heard_of_the_answer(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        await listen(scene.say("Bartok, an ale", speaker="Aria"))
        turn = scene.say("Bartok, and bread", speaker="Aria")
        async with turn:
            async for event in turn:
                if isinstance(event, Sentence) and event.text.startswith("I am"):
                    break  # only the first sentence was heard
        await listen(scene.say("Ysolde?", speaker="Cole"))
        assert stage.overheard(YSOLDE) == [
            f"Aria to {BARTOK}: Bartok, an ale",
            f"{BARTOK} to Aria: Well. I am Bartok.",
            f"Aria to {BARTOK}: Bartok, and bread",
            f"{BARTOK} to Aria: Well.",
        ]
        # Nobody is told what they were told, or said, themselves.
        await listen(scene.say("Bartok?", speaker="Cole"))
        assert stage.overheard(BARTOK) == [
            "Cole to Ysolde the Seer: Ysolde?",
            "Ysolde the Seer to Cole: Well. I am Ysolde.",
        ]


async def test_a_whisper_and_its_answer_are_heard_by_nobody_else(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        scene = stage.scene
        await listen(scene.say("An ale", speaker="Aria", to="Bartok"))
        await listen(
            scene.say("I am the heir", speaker="Aria", to="Bartok", whisper=True)
        )
        await listen(scene.say("Ysolde?", speaker="Cole"))
        assert stage.overheard(YSOLDE) == [
            f"Aria to {BARTOK}: An ale",
            f"{BARTOK} to Aria: Well. I am Bartok.",
        ]
        await listen(scene.say("Go on, Bartok", speaker="Aria"))
        assert "I am the heir" in str(stage.llm.requests[-1].messages)


async def test_nobody_hears_more_than_so_many_lines(autojump_clock: object) -> None:
    async with open_stage(scene={"overheard": 3}) as stage:
        for number in range(4):
            await listen(stage.scene.say(f"Bartok, {number}", speaker="a"))
        await listen(stage.scene.say("Ysolde?", speaker="a"))
        assert stage.overheard(YSOLDE) == [
            f"{BARTOK} to a: Well. I am Bartok.",
            f"a to {BARTOK}: Bartok, 3",
            f"{BARTOK} to a: Well. I am Bartok.",
        ]


async def test_what_was_never_answered_was_said_all_the_same(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage, trio.open_nursery() as nursery:
        say = stage.scene.say
        started(nursery, say("Bartok, hello", speaker="a"))
        await wait_all_tasks_blocked()
        started(nursery, say("Ysolde, fire!", speaker="b"), leave_at=0.5)
        await wait_all_tasks_blocked()
        await listen(say("Ysolde, what is it?", speaker="c"))
    assert f"b to {YSOLDE}: Ysolde, fire!" in stage.overheard(YSOLDE)


async def test_players_among_themselves_are_heard_by_all(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        await stage.scene.overhear("Aria", "Do we trust him?", to="Cole")
        assert stage.llm.requests == []
        for name in ("Bartok", "Ysolde"):
            await listen(stage.scene.say(f"{name}?"))
        assert stage.overheard(BARTOK)[0] == "Aria to Cole: Do we trust him?"
        assert stage.overheard(YSOLDE)[0] == "Aria to Cole: Do we trust him?"


async def test_the_scene_is_told_to_all(autojump_clock: object) -> None:
    async with open_stage(scene={"context": ("The bridge is out.",)}) as stage:
        prompts: list[str] = []

        async def prompt(name: str) -> str:
            await listen(stage.scene.say(f"{name}?"))
            return stage.llm.requests[-1].messages[0].content

        prompts.append(await prompt("Bartok"))
        await stage.scene.tell("Night falls.", "It rains.")
        prompts += [await prompt("Bartok"), await prompt("Ysolde")]
        await stage.scene.tell()
        prompts.append(await prompt("Bartok"))
        scene = [text.partition("The scene:\n")[2] for text in prompts]
        assert scene == [
            "- The bridge is out.",
            "- Night falls.\n- It rains.",
            "- Night falls.\n- It rains.",
            "",
        ]


# What the DM decides.


async def test_the_dm_s_tier_is_for_one_utterance(autojump_clock: object) -> None:
    # D2, G31
    deep = NpcConfig(name="Ada", budget_tier=Tier.DEEP)
    async with open_stage({}, deep, "Bea") as stage:
        heard = await listen(stage.scene.say("Ada?", tier=Tier.DEEP))
        assert heard.only(TierSelected).tier is Tier.DEEP
        heard = await listen(stage.scene.say("Ada?"))
        assert heard.only(TierSelected).tier is Tier.FAST


# Whatever goes wrong ends the turn.


async def test_a_model_that_hangs_ends_and_the_next_one_speaks(
    autojump_clock: object,
) -> None:
    replies: dict[str, Reply] = {"Bartok": [HANG]}
    async with open_stage(replies, first_token=2.0) as stage:
        async with trio.open_nursery() as nursery:
            hung = started(nursery, stage.scene.say("Bartok?", speaker="a"))
            next_ = started(nursery, stage.scene.say("Ysolde?", speaker="b"), after=0.1)
        assert end(hung) == (FAILED, 2.0)
        assert end(next_) == (DONE, 3.0)


async def test_a_session_that_takes_no_more_ends_the_turn_with_its_reason(
    autojump_clock: object,
) -> None:
    async with open_stage(queue=1) as stage, trio.open_nursery() as nursery:
        npc = stage.runtime.npc("Bartok")
        for name in "xy":  # past the scene
            nursery.start_soon(listen, npc.say("Hello", speaker=name))
            await wait_all_tasks_blocked()
        heard = await listen(stage.scene.say("Bartok?", speaker="a"))
        assert heard.done.end is FAILED
        assert heard.done.error.startswith("the queue of Bartok the Barkeep is full")
        assert end(await listen(stage.scene.say("Ysolde?", speaker="a")))[0] is DONE


async def test_a_closed_runtime_ends_every_turn(autojump_clock: object) -> None:
    heard: list[Heard] = []
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with open_stage() as stage:
                for name in "abc":
                    text = f"{('Bartok', 'Ysolde')[name == 'b']}?"
                    turn = stage.scene.say(text, speaker=name)
                    heard.append(started(nursery, turn))
                await wait_all_tasks_blocked()
    assert all(x.error is None for x in heard)
    assert trio.current_time() < 1.0


async def test_partial_transcripts_go_to_whoever_is_meant(
    autojump_clock: object,
) -> None:
    ahead = SpeculationConfig(enabled=True, after=0.1)
    async with open_stage(speculation=ahead) as stage:
        scene = stage.scene
        await scene.hearing("so, what is the price")  # nobody yet
        await scene.hearing("so, what is the price, Ysolde")
        await trio.sleep(0.5)
        assert [who(x) for x in stage.llm.requests] == [YSOLDE]
        heard = await listen(scene.say("So, what is the price, Ysolde?"))
        assert end(heard) == (DONE, 1.1)  # it had begun by then
        assert len(stage.llm.requests) == 1
        async with scene.say("Bartok?") as turn:
            await scene.hearing("Ysolde, what is the price", speaker="b")
            await turn.finish()
        assert [who(x) for x in stage.llm.requests] == [YSOLDE, BARTOK]


async def test_an_error_of_a_scene_says_who_there_is(autojump_clock: object) -> None:
    async with open_stage() as stage:
        with pytest.raises(NobodyAddressed, match=f"{BARTOK}, {GREYMANTLE}, {YSOLDE}"):
            async with stage.scene.say("Hm."):
                pass


async def test_a_turn_knows_who_is_meant_and_is_entered_once(
    autojump_clock: object,
) -> None:
    async with open_stage() as stage:
        turn = stage.scene.say("Bartok?")
        assert turn.npc == ""
        with pytest.raises(RuntimeError, match="enter the turn first"):
            await turn.__anext__()
        async with turn:
            assert turn.npc == BARTOK
        with pytest.raises(RuntimeError, match="entered once"):
            async with turn:
                pass
