"""Convert the server's errors, and decide which of them end a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.providers.failures import excerpt, stream_error
from glyphoxa_trio.providers.live_wire import RETRYABLE
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.payloads import string
from glyphoxa_trio.providers.s2s import Complaint, LinkClosed
from glyphoxa_trio.secret import Secret

_FATAL: Final[Mapping[str, ErrorKind]] = {
    "session_expired": ErrorKind.INTERRUPTED,  # a new session may begin
    "beta_api_shape_disabled": ErrorKind.BAD_REQUEST,
    "model_not_found": ErrorKind.NOT_FOUND,
}


def complaint(error: object, code: str, secret: Secret | None) -> Complaint:
    """Convert an error object of the server; ``code`` is used if it has none."""
    fields: Mapping[str, Any] = error if isinstance(error, dict) else {}
    found = stream_error(error, secret)
    kind = found.kind
    if fields.get("type") == "server_error" and kind is ErrorKind.INTERRUPTED:
        kind = ErrorKind.OVERLOADED
    code = excerpt(string(fields.get("code")) or code, secret)
    return Complaint(kind=kind, code=code, detail=found.detail)


def end_of(complaint: Complaint, *, setting_up: bool) -> LinkClosed | None:
    """Return the end of the session, if the complaint means that; otherwise None.

    Any error during the setup ends the session.
    """
    kind = _FATAL.get(complaint.code)
    if setting_up or complaint.kind is ErrorKind.AUTHENTICATION:
        kind = kind or complaint.kind
    if kind is None:
        return None
    detail = f"{complaint.code}: {complaint.detail}"
    return LinkClosed(kind, detail, retryable=kind in RETRYABLE)
