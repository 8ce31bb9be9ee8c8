"""Tables at which players speak, and what each of their utterances must find.

The scripted model answers with the numbers of all utterances that it was shown. So each
answer tells if the conversation has everything that was acknowledged before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.cluster import ClusterRefused, RemoteRuntime
from glyphoxa_trio.cluster.messages import DoneMessage, SayMessage
from glyphoxa_trio.cluster.wire import InvalidMessage, read
from glyphoxa_trio.nats import NatsLink, NatsMessage, NatsMessages
from glyphoxa_trio.npc import Sentence, TurnDone
from glyphoxa_trio.npc.events import TurnEnd

HANGS: Final = 5.0  # seconds after an utterance's time in which its end has to come
HISTORY: Final = 40  # turns that a model is shown
KINDS: Final = ("hail", "hail", "hail", "pay", "story")
_NUMBERS: Final = re.compile(r"(?:Heard|Paid\.|Refused\.) ((?:\d+ ?)+)\.")


@attrs.define(eq=False)
class Tally:
    """What was said, and what was broken: each with a sentence."""

    ends: Counter[str] = attrs.field(factory=Counter)
    unkept: int = 0  # completed, and not acknowledged as written
    # Utterances that a model was not told, or twice, and what it was told at first.
    lost: dict[str, str] = attrs.field(factory=dict)
    again: dict[str, str] = attrs.field(factory=dict)
    wrong_ends: list[str] = attrs.field(factory=list)
    hanging: list[str] = attrs.field(factory=list)
    silent: list[str] = attrs.field(factory=list)  # tables, in the end


@attrs.define(eq=False)
class Table:
    """A session, and the utterances that were acknowledged in it: ``kept``.

    Utterances are numbered from 1. ``payments`` are those that were said to be made.
    """

    name: str
    runtime: RemoteRuntime
    tally: Tally
    random: Random
    last: int = 0
    kept: set[int] = attrs.field(factory=set)
    payments: set[str] = attrs.field(factory=set)
    # The end of each utterance, as its worker told it.
    ended: dict[int, str] = attrs.field(factory=dict)
    speaking: trio.Lock = attrs.field(factory=trio.Lock)
    sentences: int = 0  # of the utterance that is open

    async def talk(self, over: trio.Event) -> None:
        """Speak until it is over, with pauses."""
        while not over.is_set():
            await trio.sleep(self.random.choice((0.1, 0.3, 0.6, 1.0, 4.0)))
            await self.say(self.random.choice(KINDS))

    async def say(self, kind: str, within: float | None = None) -> TurnEnd | str:
        """Say something, and judge the answer. It ends in time, whatever happens."""
        async with self.speaking:
            self.last += 1
            within = self.random.uniform(2.0, 8.0) if within is None else within
            try:
                with trio.move_on_after(within + HANGS):
                    end = await self._say(kind, self.last, within)
                    self.tally.ends[str(end)] += 1
                    return end
            finally:
                self.sentences = 0
            self.tally.hanging.append(f"{self.name} #{self.last}: {kind}")
            return "hangs"

    async def _say(self, kind: str, number: int, within: float) -> TurnEnd | str:
        before, whom = frozenset(self.kept), f"{self.name}/{number}"
        npc = self.runtime.session(self.name).npc("Bo")
        done: list[TurnDone] = []
        try:
            async with npc.say(f"{kind} #{number} {whom}", within=within) as turn:
                async for event in turn:
                    if done:
                        self.tally.wrong_ends.append(f"{whom}: {event} after its end")
                    if isinstance(event, TurnDone):
                        done.append(event)
                    elif isinstance(event, Sentence):
                        self.sentences += 1
        except ClusterRefused as refused:
            if done:
                self.tally.wrong_ends.append(f"{whom}: refused after its end")
            return f"refused: {refused.reason}"
        if len(done) != 1:
            self.tally.wrong_ends.append(f"{whom}: {len(done)} ends")
            return "no end"
        if done[0].end is TurnEnd.COMPLETED:
            self._judge(whom, number, before, done[0].text)
        return done[0].end

    def _judge(self, whom: str, number: int, before: frozenset[int], text: str) -> None:
        if number not in self.kept:
            self.tally.unkept += 1
        found = _NUMBERS.search(text)
        if found is None:
            self.tally.wrong_ends.append(f"{whom}: answered {text[:100]!r}")
            return
        if "Paid." in text:
            self.payments.add(whom)
        told = [int(x) for x in found[1].split()]
        if told[-1] != number:
            self.tally.wrong_ends.append(f"{whom}: answered after {told}")
        for n in {x for x in told if told.count(x) > 1}:
            self.tally.again.setdefault(f"{self.name} #{n}", f"in #{number}: {told}")
        oldest = min(told) if len(told) >= HISTORY else 0
        for n in sorted(x for x in before if x >= oldest and x not in told):
            ends = self.ended.get(n), self.ended.get(number)
            why = f"({ends[0]}) in #{number} ({ends[1]}): {told}"
            self.tally.lost.setdefault(f"{self.name} #{n}", why)


@attrs.define(eq=False)
class WatchedLink:
    """The link of a client, which notes what was acknowledged at ``tables``."""

    link: NatsLink
    tables: dict[str, Table]
    _said: dict[str, tuple[Table, int]] = attrs.field(factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.link, name)

    def publish_nowait(self, subject: str, payload: bytes, *, reply: str = "") -> None:
        said = read(payload)
        if isinstance(said, SayMessage):
            _, number, _ = said.text.split()
            self._said[said.id] = self.tables[said.session], int(number[1:])
        self.link.publish_nowait(subject, payload, reply=reply)

    @asynccontextmanager
    async def subscribe(
        self, pattern: str, **bounds: int
    ) -> AsyncGenerator[AsyncIterator[NatsMessage]]:
        async with self.link.subscribe(pattern, **bounds) as messages:  # type: ignore[arg-type]
            yield self._noted(messages)

    async def _noted(self, messages: NatsMessages) -> AsyncIterator[NatsMessage]:
        async for message in messages:
            self._note(message)
            yield message

    def _note(self, message: NatsMessage) -> None:
        try:
            done = read(message.payload)
        except InvalidMessage:
            return
        if isinstance(done, DoneMessage) and done.id in self._said:
            table, number = self._said[done.id]
            kept = "kept" if done.kept else "not kept"
            table.ended[number] = f"{done.end} in epoch {done.epoch}, {kept}"
            if done.kept and done.n and done.end == TurnEnd.COMPLETED:
                table.kept.add(number)
