"""The player on virtual time: what is heard, when and how loud. G12.

Tracks are made up: opening one takes 50 ms, and it notes its volumes.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import Ref
from glyphoxa_trio.builtin.music.events import (
    Announcer,
    MusicEvent,
    PlayMusic,
    StopMusic,
)
from glyphoxa_trio.builtin.music.handlers import tools
from glyphoxa_trio.builtin.music.library import Library
from glyphoxa_trio.builtin.music.mixer import Mixer
from glyphoxa_trio.builtin.music.player import Play, Prepare, StopPlaying, open_player
from glyphoxa_trio.errors import DeadlineExceeded, GlyphoxaError
from glyphoxa_trio.tools.definition import CallContext, ToolError, ToolUnavailable
from glyphoxa_trio.tools.outcome import ToolResult

OPENING = 0.05  # seconds
FADE = 1.0
FULL = 80.0


@attrs.define(eq=False)
class Heard:
    """One track that is heard, and each of its volumes with the time."""

    path: Path
    volumes: list[tuple[float, float]]
    died: trio.Event = attrs.field(factory=trio.Event)
    hangs: bool = False

    async def set_volume(self, volume: float) -> None:
        if self.hangs:
            await trio.sleep(0.3)
            raise ToolUnavailable("mpv does not answer")
        await trio.lowlevel.checkpoint()
        self.volumes.append((round(trio.current_time(), 3), volume))

    async def over(self) -> str:
        await self.died.wait()
        return "it died"


@attrs.define(eq=False)
class Room:
    """Everything that is heard in it."""

    now: list[Heard] = attrs.field(factory=list)
    opened: list[Heard] = attrs.field(factory=list)
    broken: set[str] = attrs.field(factory=set)
    down: bool = False
    stuck: bool = False
    most: int = 0

    @asynccontextmanager
    async def open_track(self, path: Path, volume: float) -> AsyncIterator[Heard]:
        await trio.sleep(10 if self.stuck else OPENING)
        if self.down:
            raise ToolUnavailable("mpv does not answer")
        if path.name in self.broken:
            raise ToolError("it cannot be played")
        heard = Heard(path, [(round(trio.current_time(), 3), volume)])
        self.now.append(heard)
        self.opened.append(heard)
        self.most = max(self.most, len(self.now))
        try:
            yield heard
        finally:
            self.now.remove(heard)

    @property
    def names(self) -> list[str]:
        return [heard.path.name for heard in self.now]


@attrs.define(eq=False)
class Table:
    room: Room
    player: Ref[Any]
    warnings: list[str]

    async def play(self, mood: str, within: float = 0.45) -> Any:
        return await self.player.ask(Play(mood), within=within)

    async def stop(self) -> Path | None:
        return await self.player.ask(StopPlaying(), within=0.45)


def shelf(**tracks: str) -> Library:
    moods = {
        m: tuple(Path("/m") / x for x in names.split()) for m, names in tracks.items()
    }
    return Library(moods=moods)


@asynccontextmanager
async def table(
    library: Library | Callable[[Library | None], Library],
    *,
    crossfade: float = FADE,
    looking: float = 0.0,
    seed: int = 0,
) -> AsyncIterator[Table]:
    room, warnings = Room(), list[str]()

    async def look(known: Library | None) -> Library:
        await trio.sleep(looking)
        return library(known) if callable(library) else library

    def output(nursery: trio.Nursery) -> Mixer:
        return Mixer(
            nursery=nursery,
            open_track=room.open_track,
            volume=FULL,
            crossfade=crossfade,
            warn=warnings.append,
        )

    async with open_player(
        look, output, rng=random.Random(seed), warn=warnings.append
    ) as player:
        yield Table(room, player, warnings)
    assert room.now == []


async def test_a_track_fades_in_and_the_one_before_out(
    autojump_clock: MockClock,
) -> None:  # G12
    async with table(shelf(calm="a", battle="b")) as here:
        heard = await here.play("calm")
        assert (heard.track.name, heard.already, trio.current_time()) == (
            "a",
            False,
            0.05,
        )
        await trio.sleep(5)
        (first,) = here.room.now
        assert first.volumes[0] == (0.05, 0.0)
        assert first.volumes[10] == (0.55, FULL / 2)
        assert first.volumes[-1] == (1.05, FULL)
        await here.play("battle")  # answers before it has faded in
        began = trio.current_time()
        assert began == pytest.approx(5.1)
        await trio.sleep(FADE / 2 + 0.001)
        assert here.room.names == ["a", "b"]
        assert [x.volumes[-1][1] for x in here.room.now] == [FULL / 2, FULL / 2]
        await trio.sleep(FADE)
        assert here.room.names == ["b"]
        assert first.volumes[-1] == (round(began + FADE, 3), 0.0)


async def test_a_third_one_cuts_the_one_that_still_fades_out(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a", battle="b", sad="c")) as here:
        for mood in ("calm", "battle", "sad"):
            await here.play(mood)
            await trio.sleep(FADE / 2)
        assert here.room.names == ["b", "c"]
        assert here.room.most == 3  # while the third one began
        await here.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert here.room.names == ["c"]


async def test_without_a_crossfade_it_is_loud_at_once(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a", battle="b"), crossfade=0) as here:
        await here.play("calm")
        assert here.room.now[0].volumes == [(0.05, FULL)]
        await here.play("battle")
        await trio.testing.wait_all_tasks_blocked()
        assert here.room.names == ["b"]
        assert await here.stop() == Path("/m/b")
        await trio.testing.wait_all_tasks_blocked()
        assert here.room.names == []


async def test_of_several_tracks_none_comes_twice_in_a_row(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a b c", battle="d")) as here:
        names = []
        for _ in range(30):
            names.append((await here.play("calm")).track.name)
            if len(names) % 7 == 0:
                await here.play("battle")
            await trio.sleep(3)
        assert all(x != y for x, y in pairwise(names))
        assert set(names) == {"a", "b", "c"}


async def test_the_only_track_of_a_mood_that_plays_goes_on(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a")) as here:
        await here.play("calm")
        again = await here.play("peaceful")
        assert again.already
        assert len(here.room.opened) == 1
        await here.stop()
        assert not (await here.play("calm")).already
        assert len(here.room.opened) == 2


async def test_broken_tracks_are_left_out_with_a_warning(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a b", sad="c")) as here:
        here.room.broken = {"a", "c"}
        for _ in range(4):
            assert (await here.play("calm")).track.name == "b"
            await trio.sleep(3)
        assert here.warnings.count("a: it cannot be played") <= 1
        with pytest.raises(ToolError, match="no track for sad can be played"):
            await here.play("sad")
        assert here.room.names == ["b"]  # what played goes on


async def test_a_broken_track_is_tried_again_when_the_library_has_changed(
    autojump_clock: MockClock,
) -> None:
    now = shelf(calm="a")
    async with table(lambda known: now) as here:
        here.room.broken = {"a"}
        with pytest.raises(ToolError, match="no track for calm"):
            await here.play("calm")
        here.room.broken = set()
        with pytest.raises(ToolError, match="no track for calm"):
            await here.play("calm")
        now = shelf(calm="a", sad="b")
        assert (await here.play("calm")).track.name == "a"


async def test_what_hangs_or_dies_is_a_warning_and_the_next_call_plays(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a", battle="b")) as here:
        await here.play("calm")
        here.room.now[0].died.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (here.room.names, here.warnings) == ([], ["a: it died"])
        await here.play("calm")
        await trio.sleep(3)
        here.room.now[0].hangs = True
        await here.play("battle")
        await trio.sleep(3)
        assert here.room.names == ["b"]
        assert here.warnings[1:] == ["a: mpv does not answer"]
        here.room.down = True
        with pytest.raises(ToolUnavailable, match="does not answer"):
            await here.play("calm")
        assert here.room.names == ["b"]
        here.room.down = False
        assert (await here.play("calm")).track.name == "a"


async def test_who_leaves_while_it_begins_changes_nothing(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a", battle="b")) as here:
        await here.play("calm")
        with pytest.raises(DeadlineExceeded):
            await here.play("battle", within=0.02)
        await trio.sleep(3)
        assert here.room.names == ["a"]
        assert here.room.now[0].volumes[-1][1] == FULL


async def test_a_library_that_takes_long_is_waited_for_briefly_and_then_used(
    autojump_clock: MockClock,
) -> None:
    now = shelf(calm="a")
    async with table(lambda known: now, looking=2.0) as here:
        with pytest.raises(ToolUnavailable, match="is being read"):
            await here.play("calm")
        assert trio.current_time() == 0.35
        await trio.sleep(2)
        assert (await here.play("calm")).track.name == "a"  # as it was known
        now = shelf(calm="b")
        await trio.sleep(1)
        assert (await here.play("calm")).already
        await trio.sleep(5)
        assert (await here.play("calm")).track.name == "b"


async def test_prepared_it_is_looked_through_before_anybody_asks(
    autojump_clock: MockClock,
) -> None:
    looks = 0

    def library(known: Library | None) -> Library:
        nonlocal looks
        looks += 1
        return known or attrs.evolve(shelf(calm="a"), warnings=("odd",))

    async with table(library, looking=0.05) as here:
        assert here.player.tell(Prepare())
        await trio.sleep(1)
        assert (looks, here.warnings) == (1, ["odd"])
        await here.play("calm")
        assert (looks, here.warnings) == (2, ["odd"])  # said once


async def test_what_is_not_there_is_answered_with_what_there_is(
    autojump_clock: MockClock,
) -> None:
    many = {f"m{n:02}": "a" for n in range(45)}
    async with table(shelf(calm="a", battle="b")) as here:
        with pytest.raises(
            ToolError, match="no music for 'disco'; there is calm, battle"
        ):
            await here.play("disco")
    async with table(shelf(**many)) as here:
        with pytest.raises(ToolError, match="m39 and 5 more"):
            await here.play("disco")
    empty = Library(warnings=("music: cannot be read: No such file",))
    async with table(empty) as here:
        with pytest.raises(ToolError, match="no music in the library: music: cannot"):
            await here.play("calm")


async def test_by_events_somebody_else_plays(autojump_clock: MockClock) -> None:
    told: list[MusicEvent] = []

    async def look(known: Library | None) -> Library:
        return shelf(calm="a", battle="b")

    def output(nursery: trio.Nursery) -> Announcer:
        return Announcer(tell=told.append, volume=FULL, crossfade=FADE)

    async with open_player(look, output) as player:
        for mood in ("calm", "battle"):
            await player.ask(Play(mood), within=1)
        for _ in range(2):
            await player.ask(StopPlaying(), within=1)
    a, b = Path("/m/a"), Path("/m/b")
    assert told == [
        PlayMusic(path=a, mood="calm", volume=FULL, fade=FADE),
        PlayMusic(path=b, mood="battle", volume=FULL, fade=FADE),
        StopMusic(fade=FADE),
    ]


# The tools.


async def called(player: Ref[Any], name: str, **arguments: Any) -> ToolResult:
    (tool,) = (x for x in tools(player) if x.definition.name == name)
    context = CallContext(deadline=trio.current_time() + 0.48)
    result = tool.handler(arguments, context)
    assert not isinstance(result, ToolResult)
    return await result


async def test_the_tools_say_what_is_heard(autojump_clock: MockClock) -> None:
    async with table(shelf(calm="quiet.ogg", battle="drums.ogg")) as here:
        play = await called(here.player, "play_track", mood="Battle")
        assert play.structured == {
            "mood": "battle",
            "track": "drums",
            "path": "/m/drums.ogg",
            "message": "Now playing drums, for battle.",
        }
        near = await called(here.player, "play_track", mood="something peaceful")
        assert near.structured["asked_for"] == "something peaceful"
        assert near.structured["moods"] == ["calm", "battle"]
        again = await called(here.player, "play_track", mood="calm")
        assert again.structured["message"] == "quiet is playing already."
        stopped = await called(here.player, "stop_music")
        assert stopped.structured == {
            "stopped": "quiet",
            "message": "The music fades out.",
        }
        nothing = await called(here.player, "stop_music")
        assert nothing.structured["message"] == "No music was playing."
        for mood in ("  ", "x" * 300):
            with pytest.raises(ToolError, match="in a word or two"):
                await called(here.player, "play_track", mood=mood)


async def test_a_player_that_does_not_answer_is_an_outcome_in_words(
    autojump_clock: MockClock,
) -> None:
    async with table(shelf(calm="a b c")) as here:
        here.room.stuck = True
        with pytest.raises(ToolUnavailable, match="did not answer in time"):
            await called(here.player, "play_track", mood="calm")
    async with table(shelf(calm="a"), looking=5) as here:
        with pytest.raises(ToolUnavailable, match="is being read"):
            await called(here.player, "play_track", mood="calm")


def test_they_are_fast_and_never_probed() -> None:  # A probe would be heard.
    for tool in tools(None):  # type: ignore[arg-type]
        definition = tool.definition
        assert definition.max_duration is not None
        assert definition.max_duration <= 0.5
        assert not definition.repeatable
        assert not definition.destructive


# Whatever is asked in whatever order.

MOODS = {"calm": "a b c", "battle": "d", "sad": "e f"}
OPS = st.one_of(
    st.tuples(st.just("play"), st.sampled_from([*MOODS, "disco"])),
    st.tuples(st.just("leave"), st.sampled_from([*MOODS])),
    st.tuples(st.just("stop"), st.none()),
    st.tuples(st.just("wait"), st.sampled_from([0.02, 0.3, 1.2, 3.0])),
    st.tuples(st.just("die"), st.none()),
    st.tuples(st.just("hang"), st.none()),
    st.tuples(st.just("down"), st.booleans()),
    st.tuples(st.just("break"), st.sampled_from("abdef")),
)


@given(st.lists(OPS, max_size=25), st.sampled_from([0.0, 0.2, FADE]), st.integers())
def test_the_player_against_a_simple_model(
    ops: list[tuple[str, Any]], crossfade: float, seed: int
) -> None:
    async def run() -> None:
        async with table(shelf(**MOODS), crossfade=crossfade, seed=seed) as here:
            room = here.room
            now: str | None = None  # the model: the name of what plays
            last: dict[str, str] = {}
            for op, value in ops:
                if op in ("play", "leave"):
                    before = now
                    try:
                        heard = await here.play(value, 0.03 if op == "leave" else 0.45)
                    except GlyphoxaError:
                        # It failed for a reason, and what played goes on.
                        good = set(MOODS.get(value, "").split()) - room.broken
                        assert op == "leave" or room.down or not good
                    else:
                        now = heard.track.name
                        names = MOODS[value].split()
                        assert now in names
                        if heard.already:
                            assert now == before
                        else:
                            assert now not in room.broken
                            good = set(names) - room.broken
                            assert (
                                now not in (last.get(value), before) or len(good) == 1
                            )
                        last[value] = now
                elif op == "stop":
                    stopped = await here.stop()
                    assert (stopped and stopped.name) == now
                    now = None
                elif op == "wait":
                    await trio.sleep(value)
                elif op == "down":
                    room.down = value
                elif op == "break":
                    room.broken.add(value)
                elif room.now and op == "die":
                    room.now[-1].died.set()
                    now = None if room.now[-1].path.name == now else now
                elif room.now:
                    room.now[-1].hangs = True
                    # Noticed when its volume changes; then it is over.
                    if room.now[-1].volumes[-1][1] < FULL:
                        await trio.sleep(0.5)
                        now = None if now not in room.names else now
                await trio.testing.wait_all_tasks_blocked()
                if now is not None and now not in room.names:
                    # What hung was noticed meanwhile.
                    assert any(x.hangs for x in room.opened)
                    now = None
                assert len(room.now) <= 2
            await trio.sleep(crossfade + 2)
            alive = [x for x in room.now if not x.hangs]
            assert room.names in ([now], []) if now else room.names == []
            assert all(x.volumes[-1][1] == FULL for x in alive)
            for heard in room.opened:
                levels = [volume for _, volume in heard.volumes]
                top = levels.index(max(levels))
                assert levels[: top + 1] == sorted(levels[: top + 1])
                assert levels[top:] == sorted(levels[top:], reverse=True)
            assert room.most <= 3  # one comes while one goes, and one is cut

    trio.run(run, clock=MockClock(autojump_threshold=0))
