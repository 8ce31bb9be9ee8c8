"""URIs are read strictly: what is not exactly one of ours is refused (F46, F50)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.campaign.errors import InvalidArgument, NotFound
from glyphoxa_trio.campaign.model import LISTS, Character, GameSession, Participant
from glyphoxa_trio.campaign.uris import CAMPAIGNS, OfCampaign, every, of_list, parsed
from glyphoxa_trio.servers.dispatch import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)

from .table import served

ID = "camp_abc123"


def test_each_uri_names_what_it_says() -> None:
    assert parsed(CAMPAIGNS) is None
    assert parsed(f"campaign://{ID}") == OfCampaign(ID)
    assert parsed(f"campaign://{ID}/participants") == OfCampaign(ID, Participant)
    assert parsed(f"campaign://{ID}/actors") == OfCampaign(ID, Character)
    assert parsed(f"campaign://{ID}/sessions") == OfCampaign(ID, GameSession)
    assert every(ID) == [
        f"campaign://{ID}",
        *(of_list(ID, kind) for kind in LISTS.values()),
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "campaign://{campaign_id}",  # F50
        "campaign://{campaign_id}/actors",
        "campaign://",
        "campaign:///",
        "campaign:///actors",
        f"campaign://{ID}/",
        f"campaign://{ID}/actors/",
        f"campaign://{ID}/actors/x",
        f"campaign://{ID}//actors",
        f"campaign://{ID}/Actors",
        f"campaign://{ID}/actor",
        f"campaign://{ID}?x=1",
        f"campaign://{ID}/actors?limit=1",
        f"campaign://{ID}#top",
        f"campaign://{ID}/actors#top",
        f"campaign://{ID}?",
        f"campaign://{ID}#",
        "campaign://camp%5Fabc",
        "campaign://../actors",
        f"campaign://{ID}\n",
        f"campaign:// {ID}",
        f"campaign://user@{ID}",
        f"campaign://{ID}:80",
        f"campaign://{'a' * 65}",
        f"campaign://{'a' * 100_000}",
        "campaigns://list?x=1",
        "campaigns://list#",
        "context://current?x",
        "campaign://\uff43amp",
    ],
)
def test_more_than_that_is_an_invalid_argument(uri: str) -> None:
    # F46, F50
    with pytest.raises(InvalidArgument) as refused:
        parsed(uri)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "x",
        "campaign",
        f"campaign:{ID}",
        f"CAMPAIGN://{ID}",
        f"http://{ID}",
        "campaigns://",
        "campaigns://other",
        "campaigns://list/",
        "context://",
        "context://other",
        "file:///etc/passwd",
        "x" * 100_000,
    ],
)
def test_what_is_nowhere_is_not_found(uri: str) -> None:
    with pytest.raises(NotFound) as refused:
        parsed(uri)
    assert len(str(refused.value)) < 500


@given(
    st.text(max_size=60)
    | st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["campaign://", "campaigns://", "context://", "campaign:/"]),
        st.sampled_from([ID, "list", "current", "{campaign_id}", ""]) | st.text(),
        st.sampled_from(["", "/", "/actors", "/sessions/", "?", "#"]),
        st.text(max_size=5),
    )
)
def test_whatever_is_read_is_written_the_same(uri: str) -> None:
    try:
        found = parsed(uri)
    except (InvalidArgument, NotFound):
        return
    if found is None:
        assert uri == CAMPAIGNS
    elif found.kind is None:
        assert uri == every(found.campaign_id)[0]
    else:
        assert uri == of_list(found.campaign_id, found.kind)


async def test_errors_of_resources_have_their_code() -> None:
    async with served() as server:
        ann = server.guest()
        for uri, code, number in (
            ("campaign://camp_nobody", "NotFound", RESOURCE_NOT_FOUND),
            ("campaign://camp_nobody/actors", "NotFound", RESOURCE_NOT_FOUND),
            ("dream://x", "NotFound", RESOURCE_NOT_FOUND),
            ("campaign://{campaign_id}", "InvalidArgument", INVALID_PARAMS),
        ):
            with pytest.raises(RpcError) as refused:
                await ann.read(uri)
            assert refused.value.code == number
            assert refused.value.data == {"code": code, "uri": uri}
