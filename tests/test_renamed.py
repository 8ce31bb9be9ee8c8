"""Old names of what embedders import work for one version, and say what to write."""

import re
from importlib import import_module

import pytest

from glyphoxa_trio import aio
from glyphoxa_trio.npc import Npc
from glyphoxa_trio.renamed import renamed
from glyphoxa_trio.runtime import Session

OLD = [
    ("actors", "Flight", "SharedTask"),
    ("actors", "Flights", "SharedTasks"),
    ("errors", "NotUnderstood", "MessageNotUnderstood"),
    ("host", "Listing", "CatalogueEntry"),
    ("host", "Shelf", "LoadedTools"),
    ("observability", "Output", "LogOutput"),
    ("providers.s2s", "Line", "TranscriptLine"),
    ("providers.speech", "Voice", "VoiceStyle"),
    ("runtime", "World", "Environment"),
    ("testing.gemini_server", "Turn", "ModelTurn"),
    ("testing.http_server", "Status", "StatusReply"),
    ("testing.image_server", "ImageServer", "FakeImageServer"),
    ("testing.model_server", "Say", "SayText"),
    ("testing.realtime_server", "CallTools", "SpokenCallTools"),
    ("testing.search_server", "Entry", "SearchEntry"),
    ("testing.token_server", "Grant", "TokenRequest"),
]


@pytest.mark.parametrize(
    ("room", "old", "new"), OLD, ids=[f"{r}.{o}" for r, o, _ in OLD]
)
def test_an_old_name_is_the_new_object_and_warns(room: str, old: str, new: str) -> None:
    module = import_module(f"glyphoxa_trio.{room}")
    words = re.escape(
        f"glyphoxa_trio.{room}.{old} is called glyphoxa_trio.{room}.{new}"
    )
    with pytest.warns(DeprecationWarning, match=words) as told:
        assert getattr(module, old) is getattr(module, new)
    assert [warning.filename for warning in told] == [__file__]


def test_a_name_that_never_was_is_refused_as_usual() -> None:
    get = renamed("glyphoxa_trio.errors", Old="GlyphoxaError")
    with pytest.raises(AttributeError, match="has no attribute 'Older'"):
        get("Older")


@pytest.mark.parametrize("kind", [Npc, aio.Npc, Session, aio.Session])
async def test_an_old_method_calls_the_new_one(kind: type) -> None:
    class Told(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        async def set_variables(self, values: object) -> object:
            return values

    words = r"introduce is called .*set_variables"
    with pytest.warns(DeprecationWarning, match=words) as told:
        assert await Told().introduce({"caller": "Ann"}) == {"caller": "Ann"}
    assert [warning.filename for warning in told] == [__file__]
