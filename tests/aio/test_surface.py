"""The native interface is there from asyncio, with the same names and arguments."""

from __future__ import annotations

import inspect

import pytest

from glyphoxa_trio import aio, npc, runtime

# What only trio's side can use, or what belongs to it; `Runtime.run` reaches all of it.
INSTEAD: dict[str, set[str]] = {
    "Npc": {
        "grant",
        "become",
        "dismiss",
        "end",
        "idle",
        "attach_microphone",
        "untouched",
    },
    "Runtime": {
        "costs_limited",
        "host",
        "llm",
        "memory",
        "overload",
        "player_of",
        "speculation",
        "s2s_label",
        "words_kept",
    },
    "Scene": {"name", "dismiss", "idle"},  # the name for ears, as the next two
    "SceneTurn": {"spoken_text"},
    "Session": set(),
    "Turn": set(),
    "Voice": set(),
}


def public(kind: type) -> set[str]:
    """Methods, properties and fields."""
    fields = {field.name for field in getattr(kind, "__attrs_attrs__", ())}
    return {name for name in {*dir(kind), *fields} if not name.startswith("_")}


@pytest.mark.parametrize(
    ("native", "ours"),
    [
        (npc.Npc, aio.Npc),
        (npc.Scene, aio.Scene),
        (npc.SceneTurn, aio.SceneTurn),
        (npc.Turn, aio.Turn),
        (npc.Voice, aio.Voice),
        (runtime.Runtime, aio.Runtime),
        (runtime.Session, aio.Session),
    ],
    ids=lambda kind: kind.__module__,
)
def test_names_and_arguments_are_the_same(native: type, ours: type) -> None:
    assert public(native) - public(ours) == INSTEAD[ours.__name__]
    for name in sorted(public(native) & public(ours)):
        theirs, here = getattr(native, name), getattr(ours, name)
        if inspect.isfunction(theirs):
            expected = inspect.signature(theirs).parameters
            assert inspect.signature(here).parameters == expected, name


def test_open_runtime_takes_what_it_takes_natively() -> None:
    natively = dict(inspect.signature(runtime.open_runtime).parameters)
    here = dict(inspect.signature(aio.open_runtime).parameters)
    assert here.pop("mode").default == "guest"
    assert list(here) == list(natively)
    for name, parameter in here.items():
        assert parameter.default == natively[name].default, name
        assert parameter.kind == natively[name].kind, name
