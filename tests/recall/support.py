"""A campaign to remember: its names, and a store that is as slow as a test says."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC
from functools import partial
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import Memory, Named
from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    Standing,
    slug,
)
from glyphoxa_trio.memory.visibility import EVERYONE, CampaignKey, Reach, Viewer
from glyphoxa_trio.npc.hot_context import Moment
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.names import NameIndex

KEY: Final = CampaignKey("embers")
DAY: Final = 86400.0
NOW: Final = 1_795_176_000.0  # 20 November 2026, midday, UTC
K = EntityKind
CAST: Final = (
    ("Bartok the Barkeep", K.NPC),
    ("Greymantle the Sage", K.NPC),
    ("Ysolde the Seer", K.NPC),
    ("Captain Mira Voss", K.NPC),
    ("Old Fenn", K.NPC),
    ("Karthagash", K.NPC),
    ("Elara Moonwhisper", K.PLAYER),
    ("Thorin Ironfist", K.PLAYER),
    ("Seraphina", K.NPC),
    ("Drogan Blacktooth", K.NPC),
    ("Vaelithra", K.NPC),
    ("Grimbold", K.NPC),
    ("Lirael", K.NPC),
    ("Xanathos", K.NPC),
    ("Morwenna", K.NPC),
    ("Will", K.NPC),
    ("Hollow Hill", K.LOCATION),
    ("Emberfall", K.LOCATION),
    ("Silverford", K.LOCATION),
    ("Black Peak", K.LOCATION),
    ("The Gilded Heron", K.LOCATION),
    ("Ravenscar Keep", K.LOCATION),
    ("Thornwick", K.LOCATION),
    ("Ashen Crown", K.ITEM),
    ("Sunblade of Aramil", K.ITEM),
    ("Red Wyrm", K.NPC),
    ("Zhentar Guild", K.FACTION),
    ("Order of the Gauntlet", K.FACTION),
)
_BEGIN: Final = re.findall(
    r"\w+", "b br c ch d dr f g gr h j k kr l m n p r s sh st t th tr v w z"
)
_VOWEL: Final = ("a", "e", "i", "o", "u", "ae", "ia")
_END: Final = ("l", "n", "r", "s", "th", "m", "d", "k", "x", "rn", "ld", "nd")


def named(name: str, kind: EntityKind = K.NPC, reach: Reach = EVERYONE) -> Named:
    return Named(name=name, entity=slug(name), kind=kind, reach=reach)


def a_thousand() -> list[Named]:
    """The cast, and other names of a fantasy world."""
    rng = random.Random(7)
    names = [named(*each) for each in CAST]
    names += (named(*each) for each in _others(rng, 1000 - len(names)))
    return names


def _others(rng: random.Random, count: int) -> Iterator[tuple[str, EntityKind]]:
    def word() -> str:
        parts = (
            rng.choice(_BEGIN)
            + rng.choice(_VOWEL)
            + (rng.choice(_END) if rng.random() < 0.6 else "")
            for _ in range(rng.choice((2, 2, 3)))
        )
        return "".join(parts).title()

    for _ in range(count):
        name, more = word(), rng.random()
        if more < 0.4:
            name += " " + word()
        elif more < 0.55:
            name += " the " + rng.choice(("Bold", "Grey", "Sly", "Tall"))
        elif more < 0.7:
            name = rng.choice(["Captain", "Lord", "Mother", "Old"]) + " " + name
        yield name, rng.choice(list(K))


# A store.


def person(name: str, summary: str = "", **more: Any) -> Entity:
    return Entity(id=slug(name), kind=K.NPC, name=name, summary=summary, **more)


def claimed(text: str, by: str, *about: str, at: float = NOW - 2 * DAY) -> Fact:
    return Fact(
        text=text,
        about=about,
        standing=Standing.CLAIMED,
        provenance=Provenance(basis=Basis.CLAIMED, by=by, player=by.lower(), at=at),
    )


async def populate(memory: Memory) -> None:
    """Bartok's world: three NPCs, a player, two places, and what is known of them."""
    await memory.graph.put(
        KEY,
        entities=[
            person("Bartok", "The keeper of the Heron.", aliases=("Bart",)),
            person("Greymantle the Sage", "An old scholar.", attributes={"age": 80}),
            person("Ysolde", "A seer.", reach=Reach.of("Ysolde")),
            Entity(id="aria", kind=K.PLAYER, name="Aria", summary="A young thief."),
            Entity(id="black-peak", kind=K.LOCATION, name="Black Peak"),
        ],
        relationships=[
            Relationship(source="bartok", type="brother_of", target="aria"),
            Relationship(source="greymantle-the-sage", type="owes", target="bartok"),
            Relationship(source="bartok", type="fears", target="black-peak"),
            Relationship(
                source="bartok", type="loves", target="ysolde", reach=Reach.of("Ysolde")
            ),
        ],
        facts=[
            Fact(text="The sage fears fire.", about=("greymantle-the-sage",)),
            Fact(text="Bartok waters his ale.", about=("bartok",)),
            Fact(
                text="The sage is a lich.",
                about=("greymantle-the-sage",),
                reach=Reach(secret=True),
            ),
            claimed("The sage has a silver key.", "Aria", "greymantle-the-sage"),
        ],
    )


async def evening(
    memory: Memory,
    days_ago: float,
    *lines: Line,
    session: str = "table",
    over: bool = True,
    step: float = 60,
) -> str:
    """Have an evening with these lines, a minute apart."""
    began = NOW - days_ago * DAY
    journal = memory.journal
    claim = await journal.claim("", session, KEY)
    made = await memory.transcripts.begin_evening(claim, began)
    for n, line in enumerate(lines, 1):
        line = attrs.evolve(line, evening=made.id)
        await journal.append(
            claim, [Entry(kind=EntryKind.LINE, at=began + step * n, line=line)]
        )
    if over:
        await memory.transcripts.end_evening(KEY, made.id, began + 3600)
    return made.id


def says(speaker: str, text: str, to: str = "", reach: Reach = EVERYONE) -> Line:
    return Line(text=text, speaker=speaker, to=to, reach=reach)


@attrs.define(eq=False)
class SlowPart:
    """One part of a store. ``asked`` are the calls: (method, virtual time)."""

    part: Any
    slow: dict[str, float]
    failing: dict[str, Exception]
    asked: list[tuple[str, float]]

    def __getattr__(self, method: str) -> Any:
        return partial(self._call, method)

    async def _call(self, method: str, *args: Any, **more: Any) -> Any:
        self.asked.append((method, trio.current_time()))
        await trio.sleep(self.slow.get(method, 0.0))
        if (error := self.failing.get(method)) is not None:
            raise error
        return await getattr(self.part, method)(*args, **more)


@attrs.define(eq=False)
class SlowMemory:
    """A store whose methods take as many seconds as ``slow`` says, or fail."""

    store: InMemory = attrs.field(factory=InMemory)
    slow: dict[str, float] = attrs.field(factory=dict)
    failing: dict[str, Exception] = attrs.field(factory=dict)
    asked: list[tuple[str, float]] = attrs.field(factory=list)

    def _part(self, part: Any) -> Any:
        return SlowPart(part, self.slow, self.failing, self.asked)

    @property
    def graph(self) -> Any:
        return self._part(self.store.graph)

    @property
    def transcripts(self) -> Any:
        return self._part(self.store.transcripts)

    def calls(self, method: str) -> int:
        return sum(name == method for name, _ in self.asked)


@attrs.define(eq=False)
class Recalling:
    memory: SlowMemory
    recall: MemoryContext

    async def told(self, text: str, **more: Any) -> list[str]:
        gathered = await self.recall.provide(moment(text, **more))
        assert gathered is not None
        assert gathered.missed == ()
        return list(gathered.lines)


def moment(
    text: str, speaker: str = "Aria", npc: str = "Bartok", **more: Any
) -> Moment:
    fields: dict[str, Any] = {"turn": 1, "session": "table"} | more
    return Moment(npc=npc, speaker=speaker, text=text, **fields)


@asynccontextmanager
async def open_recall(
    config: RecallConfig | None = None, *, clock: float = NOW, **more: Any
) -> AsyncIterator[Recalling]:
    memory = SlowMemory()
    await populate(memory.store)

    async def names(campaign: CampaignKey) -> NameIndex:
        return NameIndex.of(await memory.graph.names(campaign))

    async with trio.open_nursery() as nursery:
        fields: dict[str, Any] = {
            "campaign_of": lambda _: KEY,
            "viewer_of": Viewer,
            "names": names,
            "nursery": nursery,
            "clock": lambda: clock,
            "zone": UTC,
        }
        recall = MemoryContext(
            memory,  # type: ignore[arg-type]
            config or RecallConfig(),
            **fields | more,
        )
        yield Recalling(memory, recall)
        nursery.cancel_scope.cancel()
