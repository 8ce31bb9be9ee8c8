"""What goes into an actor is data: all messages survive a round trip through bytes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cattrs.preconf.json import make_converter
from hypothesis import assume, given
from hypothesis import strategies as st

import glyphoxa_trio
from glyphoxa_trio.actors import Request
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.host.calibrator import (
    Disregard,
    MeasuredElsewhere,
    Missed,
    Observe,
)
from glyphoxa_trio.mcp import CallTool
from glyphoxa_trio.mcp.messages import AskServer
from glyphoxa_trio.npc.selection import Vocabulary
from glyphoxa_trio.npc.selector import Learn
from glyphoxa_trio.npc.session.messages import Configure, Elevate
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.gate import Grant, TrustMode
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

CONVERTER = make_converter()


def messages() -> Iterator[type[Any]]:
    """All of the package, in whatever room they are."""
    root = Path(glyphoxa_trio.__file__).parent
    for path in root.rglob("*.py"):
        if "(Request[" in path.read_text():
            place = path.relative_to(root.parent).with_suffix("")
            importlib.import_module(".".join(place.parts))
    found = list(Request.__subclasses__())
    for kind in found:
        found += kind.__subclasses__()
        if kind.__module__.startswith("glyphoxa_trio."):
            yield kind


KINDS = {kind.__name__: kind for kind in messages()}

SECONDS = st.floats(0, 1e9)
NPCS = st.builds(
    NpcConfig,
    name=st.text(min_size=1).filter(str.strip),
    budget_tier=st.sampled_from(Tier),
    tools=st.lists(st.text(max_size=3)).map(tuple),
    knowledge_scope=st.lists(st.text(max_size=3)).map(tuple),
)
GRANTS = st.builds(
    Grant,
    npc=st.text(),
    tools=st.lists(st.text(max_size=3)).map(tuple),
    trust=st.sampled_from(TrustMode),
    also=st.none() | st.builds(Grant, npc=st.text(max_size=3)),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | SECONDS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
SAMPLES = st.builds(
    Sample, kind=st.sampled_from(SampleKind), seconds=SECONDS, at=SECONDS
)
# What is not made of plain fields.
SPECIAL: Mapping[str, st.SearchStrategy[Any]] = {
    "CallTool": st.builds(
        CallTool,
        tool=st.text(),
        arguments=st.dictionaries(st.text(max_size=3), JSON, max_size=3),
        deadline=SECONDS,
        awaited_until=SECONDS,
        attempt=st.text(),
    ),
    "AskServer": st.builds(
        AskServer,
        method=st.text(),
        params=st.dictionaries(st.text(max_size=3), JSON, max_size=3),
        until=SECONDS,
    ),
    "Configure": st.builds(
        Configure,
        st.builds(
            SessionSettings,
            npc=NPCS,
            grant=GRANTS,
            scene=st.lists(st.text(max_size=5)).map(tuple),
            template_defaults=st.dictionaries(st.text(), st.text()),
        ),
    ),
    "Disregard": st.builds(Disregard, since=SECONDS, until=SECONDS),
    "Observe": st.builds(
        Observe,
        key=st.text(),
        sample=SAMPLES,
    ),
    "MeasuredElsewhere": st.builds(
        MeasuredElsewhere,
        samples=st.lists(st.tuples(st.text(max_size=3), SAMPLES)).map(tuple),
    ),
    "Learn": st.builds(
        Learn,
        vocabulary=st.builds(
            Vocabulary,
            names=st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3))).map(
                tuple
            ),
            min_deep_interval=SECONDS,
        ),
    ),
    "Elevate": st.builds(Elevate, st.sampled_from(Tier), SECONDS),
    "Missed": st.builds(
        Missed, keys=st.lists(st.text(max_size=3)).map(tuple), seconds=SECONDS
    ),
}


@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data())
def test_a_message_survives_a_round_trip_through_bytes(
    name: str, data: st.DataObject
) -> None:
    kind = KINDS[name]
    message = data.draw(SPECIAL[name] if name in SPECIAL else st.from_type(kind))
    assume("nan" not in repr(message))  # which is never equal to itself
    sent = CONVERTER.dumps(message).encode()
    assert CONVERTER.loads(sent, kind) == message
