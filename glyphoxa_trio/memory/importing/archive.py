"""A campaign's memory as plain data for JSON, and back. Pure.

    {"format": "glyphoxa.memory/1", "campaign": "Saltmarsh", "tenant": "",
     "evenings": [...], "lines": [...],
     "entities": [...], "relationships": [...], "facts": [...]}

Each entry has the fields of its class: `Evening`, `Line`, `Entity`, `Relationship`,
`Fact`. A reach is ``{"npcs": null, "topics": [], "secret": false}``, where null is
every NPC. Embeddings are not in it: they are made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

import attrs

from glyphoxa_trio.memory.entries import Evening, Line
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import Entity, Fact, Provenance, Relationship
from glyphoxa_trio.memory.visibility import Reach

from .data import ImportRefused
from .files import MEMORY_FORMAT

T = TypeVar("T")

FORMAT: Final = MEMORY_FORMAT


@attrs.frozen(kw_only=True)
class ArchivedLine:
    """A line, with its session, its number there, and its time."""

    session: str
    n: int
    at: float
    line: Line


@attrs.frozen(kw_only=True)
class ArchivedEvening:
    """An evening, with the summaries of each reach."""

    evening: Evening
    summaries: tuple[tuple[Reach, str], ...] = ()


@attrs.frozen(kw_only=True)
class Archive:
    """Everything of a campaign."""

    campaign: str
    tenant: str = ""
    evenings: tuple[ArchivedEvening, ...] = ()
    lines: tuple[ArchivedLine, ...] = ()
    entities: tuple[Entity, ...] = ()
    relationships: tuple[Relationship, ...] = ()
    facts: tuple[Fact, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "format": FORMAT,
            "campaign": self.campaign,
            "tenant": self.tenant,
            "evenings": [
                {
                    **_plain(x.evening, without=("summary", "reach")),
                    "summaries": [
                        {"text": text, "reach": _plain(reach)}
                        for reach, text in x.summaries
                    ],
                }
                for x in self.evenings
            ],
            "lines": [
                {"session": x.session, "n": x.n, "at": x.at, **_plain(x.line)}
                for x in self.lines
            ],
            "entities": [_plain(x) for x in self.entities],
            "relationships": [_plain(x) for x in self.relationships],
            "facts": [_plain(x) for x in self.facts],
        }


def _plain(value: Any, without: tuple[str, ...] = ()) -> Any:
    if attrs.has(type(value)):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.name not in without
        }
    match value:
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(x) for key, x in value.items()}
        case frozenset():
            return sorted(value)
        case list() | tuple():
            return [_plain(x) for x in value]
        case _:
            return value


def archive_of(data: Any, name: str) -> Archive:
    """Return the archive in parsed JSON.

    Args:
      name: the name of its file, for messages.

    Raises:
      ImportRefused: it is no archive, of a newer format, or damaged; with the place.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, Mapping) else None
        raise ImportRefused(f"{name}: its format is {str(found)[:40]!r}, not {FORMAT}")
    return Archive(
        campaign=_text(data, "campaign", name),
        tenant=_text(data, "tenant", name),
        evenings=_each(data, "evenings", name, _evening),
        lines=_answering(_each(data, "lines", name, _line)),
        entities=_each(data, "entities", name, lambda x: _known(Entity, x)),
        relationships=_each(data, "relationships", name, _edge),
        facts=_each(data, "facts", name, _fact),
    )


def _each(
    data: Mapping[str, Any], key: str, name: str, make: Callable[[Any], T]
) -> tuple[T, ...]:
    given = data.get(key, [])
    if not isinstance(given, list):
        raise ImportRefused(f"expected a list @ {name}.{key}")
    made: list[T] = []
    for number, one in enumerate(given):
        place = f"{name}.{key}[{number}]"
        if not isinstance(one, Mapping):
            raise ImportRefused(f"expected an object @ {place}")
        try:
            made.append(make(one))
        except KeyError as error:
            raise ImportRefused(f"{error.args[0]} is missing @ {place}") from None
        except (ValueError, TypeError, KnowledgeRefused) as error:
            raise ImportRefused(f"{str(error)[:300]} @ {place}") from None
    return tuple(made)


def _text(data: Mapping[str, Any], key: str, name: str) -> str:
    value = data.get(key, "")
    if not isinstance(value, str):
        raise ImportRefused(f"expected text @ {name}.{key}")
    return value


def _fields(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the class that are there, and refuse others."""
    known = {field.name: field for field in attrs.fields(kind)}
    unknown = sorted(str(x) for x in data.keys() - known.keys())
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    for field in known.values():
        if field.default is attrs.NOTHING and field.name not in data:
            raise KeyError(field.name)
    return dict(data)


def _known(kind: type[T], data: Mapping[str, Any]) -> T:
    made = _fields(kind, data)
    if "reach" in made:
        made["reach"] = _reach(made["reach"])
    if "provenance" in made:
        if not isinstance(made["provenance"], Mapping):
            raise ValueError("provenance: expected an object")
        made["provenance"] = Provenance(**_fields(Provenance, made["provenance"]))
    for name in ("aliases", "about", "lines", "keywords"):
        if name in made:
            if not isinstance(made[name], list):
                raise ValueError(f"{name}: expected a list")
            made[name] = tuple(tuple(x) if name == "lines" else x for x in made[name])
    return kind(**made)


def _edge(data: Mapping[str, Any]) -> Relationship:
    return _known(Relationship, data)


def _fact(data: Mapping[str, Any]) -> Fact:
    return attrs.evolve(_known(Fact, data), id=0)  # the store gives it one


def _reach(data: Any) -> Reach:
    if not isinstance(data, Mapping):
        raise ValueError("reach: expected an object")
    given = _fields(Reach, data)
    npcs, topics = given.get("npcs"), given.get("topics", [])
    if npcs is not None and not _texts(npcs):
        raise ValueError("reach.npcs: expected null or a list of names")
    if not _texts(topics):
        raise ValueError("reach.topics: expected a list of texts")
    secret = given.get("secret", False)
    if not isinstance(secret, bool):
        raise ValueError("reach.secret: expected true or false")
    return Reach(None if npcs is None else frozenset(npcs), frozenset(topics), secret)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{key}: expected a number")
    return float(value)


def _string(data: Mapping[str, Any], key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected text")
    return value


def _evening(data: Mapping[str, Any]) -> ArchivedEvening:
    summaries = data.get("summaries", [])
    if not isinstance(summaries, list) or not all(
        isinstance(x, Mapping) for x in summaries
    ):
        raise ValueError("summaries: expected a list of objects")
    return ArchivedEvening(
        evening=Evening(
            id=_string(data, "id"),
            session=_string(data, "session"),
            began=_number(data, "began"),
            ended=None if data.get("ended") is None else _number(data, "ended"),
        ),
        summaries=tuple((_reach(x["reach"]), _string(x, "text")) for x in summaries),
    )


def _line(data: Mapping[str, Any]) -> ArchivedLine:
    rest = {key: x for key, x in data.items() if key not in ("session", "n", "at")}
    made = _fields(Line, rest)
    for field in ("text", "speaker", "player", "to", "corrected", "evening"):
        if field in made:
            _string(made, field)
    if "seconds" in made:
        made["seconds"] = _number(made, "seconds")
    if not _texts(made.get("answers", [])):
        raise ValueError("answers: expected a list of texts")
    made["reach"] = _reach(made["reach"])
    return ArchivedLine(
        session=_string(data, "session"),
        n=int(_number(data, "n")),
        at=_number(data, "at"),
        line=Line(**made),
    )


def _answering(lines: tuple[ArchivedLine, ...]) -> tuple[ArchivedLine, ...]:
    """Return lines with the players whom they answer: older archives only have the name
    by which a line addresses one."""
    called: dict[tuple[str, str], dict[str, None]] = {}
    for x in lines:
        if x.line.player:
            called.setdefault((x.session, x.line.speaker), {})[x.line.player] = None
    return tuple(
        x
        if x.line.player or x.line.answers or (x.session, x.line.to) not in called
        else attrs.evolve(
            x, line=attrs.evolve(x.line, answers=called[x.session, x.line.to])
        )
        for x in lines
    )
