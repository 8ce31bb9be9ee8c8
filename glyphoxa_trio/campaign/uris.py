"""The URIs of the resources, parsed strictly."""

from __future__ import annotations

import re
from typing import Final

import attrs

from . import checks
from .errors import InvalidArgument, NotFound
from .model import LISTS, Campaign, CampaignMember

CAMPAIGNS: Final = "campaigns://list"
CONTEXT: Final = "context://current"
_MOST: Final = 300  # characters
_SCHEME: Final = re.compile(r"([a-z]+)://(.*)", re.DOTALL)


@attrs.frozen
class OfCampaign:
    """The parsed URI of a campaign, or of one of its lists."""

    campaign_id: str
    kind: type[CampaignMember] | None = None


def campaign(campaign_id: str) -> str:
    return f"campaign://{campaign_id}"


def every(campaign_id: str) -> list[str]:
    """Return the URIs of all resources of a campaign."""
    return [
        campaign(campaign_id),
        *(f"{campaign(campaign_id)}/{word}" for word in LISTS),
    ]


def of_list(campaign_id: str, kind: type[CampaignMember]) -> str:
    word = next(word for word, of in LISTS.items() if of is kind)
    return f"{campaign(campaign_id)}/{word}"


def parsed(uri: str) -> OfCampaign | None:
    """Parse a URI; None for `CAMPAIGNS`. `CONTEXT` is not parsed here.

    Raises:
      InvalidArgument: for more than a campaign and one of its lists, or for an id that
        cannot be one, such as a placeholder.
      NotFound: if there is no such resource.
    """
    shown = uri[:_MOST]
    match = _SCHEME.fullmatch(uri)
    scheme, rest = match.groups() if match else ("", "")
    if scheme not in ("campaigns", "campaign", "context"):
        raise NotFound(f"there is no resource {shown}")
    if len(uri) > _MOST or "?" in rest or "#" in rest:
        raise InvalidArgument(f"{shown}: a query or a fragment is not allowed")
    if scheme != "campaign":
        if uri == CAMPAIGNS:
            return None
        raise NotFound(f"there is no resource {shown}")
    campaign_id, *words = rest.split("/")
    checks.identifier(Campaign, campaign_id)
    if not words:
        return OfCampaign(campaign_id)
    if len(words) == 1 and words[0] in LISTS:
        return OfCampaign(campaign_id, LISTS[words[0]])
    raise InvalidArgument(f"{shown}: after the id: {', '.join(LISTS)}, or nothing")
