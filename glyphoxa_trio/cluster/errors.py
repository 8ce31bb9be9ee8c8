"""The errors of this room, by what the caller can do about them."""

from __future__ import annotations

from glyphoxa_trio.errors import GlyphoxaError


class ClusterError(GlyphoxaError):
    """A worker or a client cannot begin."""


class ClusterRefused(GlyphoxaError):
    """An utterance, or another request, is refused, and was not carried out.

    ``reason`` is a `RefusalReason`.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(
            f"the cluster refuses it ({reason}){message and f': {message}'}"
        )
        self.reason = reason

    @property
    def code(self) -> str:
        """The code of the gateway for it: "busy" if it may be tried again later."""
        if self.reason == "not_found":
            return self.reason
        return "refused" if self.reason in ("failed", "invalid") else "busy"
