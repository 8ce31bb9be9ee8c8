"""Ways in which a request about campaigns is refused, one code for each.

The codes are those of gRPC, as far as seed 002 has them and a client can act on them.
"""

from __future__ import annotations

from typing import ClassVar

from glyphoxa_trio.tools.definition import ToolError


class CampaignError(ToolError):
    """Nothing was changed. The text says what to do instead."""

    code: ClassVar[str]


class NotFound(CampaignError):
    """What the request names does not exist."""

    code = "NotFound"


class InvalidArgument(CampaignError):
    """Wrong whatever there is: an empty text, or somebody else's participant."""

    code = "InvalidArgument"


class FailedPrecondition(CampaignError):
    """Right in itself, and not as things are now."""

    code = "FailedPrecondition"


class AlreadyExists(CampaignError):
    """There is one already, and it is another one."""

    code = "AlreadyExists"


class Unavailable(CampaignError):
    """The store cannot be used now; later it may be."""

    code = "Unavailable"


class ResourceExhausted(CampaignError):
    """A bound is reached: a disk, or a number of things."""

    code = "ResourceExhausted"
