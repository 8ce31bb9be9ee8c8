"""The refusals of requests about campaigns, one code for each.

The codes are those of gRPC, as far as the original design has them and a client can act
on them.
"""

from __future__ import annotations

from typing import ClassVar

from glyphoxa_trio.tools.definition import ToolError


class CampaignError(ToolError):
    """A refusal. Nothing was changed, and the text says what to do instead."""

    code: ClassVar[str]


class NotFound(CampaignError):
    """The record that the request names does not exist."""

    code = "NotFound"


class InvalidArgument(CampaignError):
    """The request is wrong in itself.

    An example is an empty text, or a participant of another campaign.
    """

    code = "InvalidArgument"


class FailedPrecondition(CampaignError):
    """The request is right in itself, but not possible in the present state."""

    code = "FailedPrecondition"


class AlreadyExists(CampaignError):
    """Another record with this key or id exists already."""

    code = "AlreadyExists"


class Unavailable(CampaignError):
    """The store cannot be used now, but perhaps later."""

    code = "Unavailable"


class ResourceExhausted(CampaignError):
    """A limit is reached: of the disk, or of a number of records."""

    code = "ResourceExhausted"
