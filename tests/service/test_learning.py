"""World data that clients of the gateway have the memory learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options

from .support import TOKENS, RawClient, raw_client, serving, token_file

MASTER = TOKENS[ClientRole.GAME_MASTER]
CAMPAIGN = CampaignKey("one")
BO = Viewer("Bo")


def journal(*texts: str, level: int = 2) -> dict[str, Any]:
    html = "".join(f"<p>{text}</p>" for text in texts)
    page = {"_id": "p", "name": "Pier", "type": "text", "text": {"content": html}}
    return {"_id": "j", "name": "Harbour", "ownership": {"default": level}} | {
        "pages": [page | {"ownership": {"default": -1}}]
    }


async def learn(client: RawClient, data: Any, name: str = "Harbour") -> dict[str, Any]:
    """The numbers, or the error."""
    await client.send(type="learn", id="1", session="one", name=name, data=data)
    while True:
        answer = await client.receive()
        assert isinstance(answer, dict)
        if answer.get("id") == "1":
            return answer.get("result") or answer


async def test_what_is_learnt_again_takes_the_place_of_what_was(tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options, memory=tmp_path / "memory") as served:
        memory = served.runtime.memory
        assert memory is not None

        async def known(viewer: Viewer = BO) -> set[str]:
            found = await memory.graph.facts(CAMPAIGN, viewer, "")
            return {x.fact.text for x in found}

        async with raw_client(served, token=MASTER) as client:
            first = await learn(client, journal("It is old.", "It is long."))
            assert (first["facts_new"], first["skipped"]) == (2, 0)
            assert await known() == {"It is old.", "It is long."}
            again = await learn(client, journal("It is old.", "It is short."))
            assert (again["facts_new"], again["facts_removed"]) == (1, 1)
            assert await known() == {"It is old.", "It is short."}
            await learn(client, journal("It burns.", level=0), "Secrets")
            assert "It burns." in await known(GAME_MASTER) - await known()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"odd": 1}, "kind"),
        ([], "kind"),
        ("text", "data"),
        ({"format": "glyphoxa.memory/1"}, "by itself"),
    ],
)
async def test_what_is_no_world_data_is_refused(
    data: Any, why: str, tmp_path: Path
) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options, memory=tmp_path / "memory") as served:
        async with raw_client(served, token=MASTER) as client:
            refused = await learn(client, data)
    assert refused["type"] == "error"
    assert why in refused["message"]


async def test_only_who_directs_may_teach_and_only_a_memory_learns(
    tmp_path: Path,
) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options) as served:
        async with raw_client(served, token=TOKENS[ClientRole.PLAYER]) as client:
            assert (await learn(client, journal("x")))["code"] == "forbidden"
        async with raw_client(served, token=MASTER) as client:
            refused = await learn(client, journal("x"))
    assert (refused["code"], "memory" in refused["message"]) == ("refused", True)
