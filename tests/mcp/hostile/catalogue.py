"""Every hostile behaviour that the harness puts beside a good server.

A case is one server: a behaviour with its options, over a pipe or over HTTP, and the
arguments with which its tool ``bad`` is called. Its name says all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from glyphoxa_trio.testing.hostile import BEHAVIOURS, PACKINGS
from glyphoxa_trio.testing.hostile.family import _CHOICES
from glyphoxa_trio.testing.hostile.hard import SCHEMAS, value_of


@attrs.frozen
class Case:
    """One server and what its tool ``bad`` is called with.

    ``http`` is how its answers are packed; empty for a server on pipes.
    """

    behaviour: str
    options: Mapping[str, Any] = attrs.field(factory=dict)
    http: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        said = [self.behaviour, *map(str, self.options.values())]
        return ":".join([*said, *(["http", self.http] if self.http else [])])


def _kinds(behaviour: str) -> tuple[str, ...]:
    return _CHOICES[behaviour, "kind"]


def _cases() -> Iterator[Case]:
    for kind in SCHEMAS:
        value = value_of(kind)
        yield Case("asks_for_hard_arguments", {"kind": kind}, arguments=value)
        yield Case("promises_hard_results", {"kind": kind})
    for behaviour in (
        "answers_heavily",
        "lists_heavily",
        "floods_heavily",
        "renames_its_tools",
        "never_ends_an_answer",
    ):
        for kind in _kinds(behaviour):
            yield Case(behaviour, {"kind": kind})
    for behaviour in ("lists_with_large_cursors", "answers_out_of_every_shape"):
        yield Case(behaviour)
    # What is read on another way over HTTP, or by somebody else.
    for kind in ("text", "escapes", "some_blocks", "lists", "deep", "names", "error"):
        yield Case("answers_heavily", {"kind": kind}, http="plain")
    for kind in ("text", "some_blocks", "lists", "deep"):
        yield Case("answers_heavily", {"kind": kind}, http="events")
    for kind in ("text", "lists"):
        yield Case("answers_heavily", {"kind": kind}, http="gzipped")
    for kind in _kinds("lists_heavily"):
        yield Case("lists_heavily", {"kind": kind}, http="plain")
    for kind in ("notices", "large_notices", "huge_notices", "samplings", "answers"):
        yield Case("floods_heavily", {"kind": kind}, http="plain")
    for kind in ("all_of", "pattern", "properties", "large"):
        yield Case("promises_hard_results", {"kind": kind}, http="plain")
    yield Case("answers_out_of_every_shape", http="plain")
    yield Case("renames_its_tools", {"kind": "all"}, http="plain")
    for packing in PACKINGS:
        if packing != "plain":
            yield Case("good", http=packing)
    # Those that were there before.
    for name in BEHAVIOURS:
        if name not in _NEW and name not in ("good", "stops_itself"):
            yield Case(name)


_NEW = (
    "asks_for_hard_arguments",
    "promises_hard_results",
    "answers_heavily",
    "answers_out_of_shape",
    "answers_out_of_every_shape",
    "floods_heavily",
    "lists_heavily",
    "lists_with_large_cursors",
    "renames_its_tools",
    "never_ends_an_answer",
)

CASES: Mapping[str, Case] = {case.name: case for case in _cases()}
IDLE = Case("good")
