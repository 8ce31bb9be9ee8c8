"""The semantic index of a memory in this process."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from glyphoxa_trio.memory.contract import Chunk, FoundChunk
from glyphoxa_trio.memory.entries import KeptEntry, Line
from glyphoxa_trio.memory.errors import QueryRefused
from glyphoxa_trio.memory.knowledge import Standing
from glyphoxa_trio.memory.passages import in_passage, passages
from glyphoxa_trio.memory.similarity import unit
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer, common

from .rows import EveningData, Rows, SessionData


@attrs.frozen(eq=False)
class InMemoryIndex:
    """The `SemanticIndex` of the rows."""

    rows: Rows

    async def pending(
        self, model: str, *, limit: int = 64
    ) -> tuple[tuple[CampaignKey, Chunk], ...]:
        self._cut()
        open_ = [
            x
            for id_, x in self.rows.chunks.items()
            if (model, id_) not in self.rows.vectors
        ]
        return tuple(open_[: max(0, limit)])

    def _cut(self) -> None:
        done = {
            (owner, *line)
            for owner, chunk in self.rows.chunks.values()
            for line in chunk.lines
        }

        def reach(line: _Said) -> Reach | None:
            session, kept, said = line
            known = (session.campaign, session.name, kept.n) in done
            return None if known else said.reach

        for one in self.rows.evenings:
            if one.ended is not None:
                lines = [
                    (row, kept, kept.entry.line)
                    for row, kept in self.rows.lines(one.campaign)
                    if kept.entry.line and kept.entry.line.evening == one.name
                ]
                for passage in passages(lines, reach, _text):
                    self._add(one, passage)
        facts = {x.fact for _, x in self.rows.chunks.values()}
        for campaign, fact in self.rows.facts.values():
            if fact.standing is Standing.ACCEPTED and fact.id not in facts:
                id_ = self.rows.ids()
                chunk = Chunk(
                    text=fact.text,
                    reach=fact.reach,
                    at=fact.provenance.at,
                    fact=fact.id,
                    id=id_,
                )
                self.rows.chunks[id_] = campaign, chunk

    def _add(self, one: EveningData, lines: list[_Said]) -> None:
        id_ = self.rows.ids()
        chunk = Chunk(
            text="\n".join(map(_text, lines)),
            reach=common(said.reach for _, _, said in lines),
            evening=one.name,
            at=lines[0][1].entry.at,
            lines=tuple((row.name, kept.n) for row, kept, _ in lines),
            id=id_,
        )
        self.rows.chunks[id_] = one.campaign, chunk

    async def add(
        self, model: str, vectors: Sequence[tuple[int, Sequence[float]]]
    ) -> None:
        self._check_size(model, *(len(x) for _, x in vectors))
        units = [(id_, unit(vector)) for id_, vector in vectors]
        for id_, vector in units:
            if id_ in self.rows.chunks:
                self.rows.vectors[model, id_] = tuple(vector)

    def _check_size(self, model: str, *given: int) -> None:
        sizes = {len(x) for (name, _), x in self.rows.vectors.items() if name == model}
        if len(sizes | set(given)) > 1:
            raise QueryRefused(f"the vectors of {model} differ in length")

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        model: str,
        vector: Sequence[float],
        *,
        limit: int = 10,
    ) -> tuple[FoundChunk, ...]:
        self._check_size(model, len(vector))
        asked = unit(vector)
        found = []
        for (name, id_), other in self.rows.vectors.items():
            owner, chunk = self.rows.chunks[id_]
            if name == model and owner == campaign and chunk.reach.reaches(viewer):
                score = sum(x * y for x, y in zip(asked, other, strict=True))
                found.append(FoundChunk(chunk=chunk, score=score))
        found.sort(key=lambda x: (-x.score, x.chunk.id))
        return tuple(found[: max(0, limit)])

    async def progress(self, model: str) -> tuple[int, int]:
        self._cut()
        done = sum(name == model for name, _ in self.rows.vectors)
        return done, len(self.rows.chunks)

    async def drop_other_models(self, model: str) -> None:
        for key in [x for x in self.rows.vectors if x[0] != model]:
            del self.rows.vectors[key]


_Said = tuple[SessionData, KeptEntry, Line]


def _text(line: _Said) -> str:
    _, _, said = line
    return in_passage(said.speaker, said.text, said.corrected)
