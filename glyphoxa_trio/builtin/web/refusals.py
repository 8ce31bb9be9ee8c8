"""The reasons why there is no page or no result: sentences that an NPC can say.

All are `ToolError`: one page or one question is wrong, and the tools themselves work.
"""

from __future__ import annotations

from glyphoxa_trio.tools.definition import ToolError


class BadAddress(ToolError):
    """The text cannot be the address of a page."""

    code = "InvalidArgument"


class PageRefused(ToolError):
    """The page may exist, but we must not go there or are not let in."""

    code = "PermissionDenied"


class PageNotFound(ToolError):
    """The site says that it has no such page."""

    code = "NotFound"


class Unreadable(ToolError):
    """The page arrived, but holds nothing that can be read out."""

    code = "FailedPrecondition"


class SiteFails(ToolError):
    """The site is down, or sends an answer that is no page."""

    code = "Unavailable"


class TooOften(ToolError):
    """The site asks us to wait before the next request."""

    code = "ResourceExhausted"
