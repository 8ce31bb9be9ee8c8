"""Why there is no page or no result: sentences that an NPC can say.

All are `ToolError`: what is wrong is one page or one question, and the tools are well.
"""

from __future__ import annotations

from glyphoxa_trio.tools.definition import ToolError


class BadAddress(ToolError):
    """This can be the address of no page."""

    code = "InvalidArgument"


class PageRefused(ToolError):
    """It is there, perhaps, and we do not go there or are not let in."""

    code = "PermissionDenied"


class PageNotFound(ToolError):
    """The site says that it has no such page."""

    code = "NotFound"


class Unreadable(ToolError):
    """It came, and there is nothing in it that can be read out."""

    code = "FailedPrecondition"


class SiteFails(ToolError):
    """The site is down, or answers with what is no answer."""

    code = "Unavailable"


class TooOften(ToolError):
    """We are to wait before we ask again."""

    code = "ResourceExhausted"
