"""Everything that `Ownership` wants done, as frozen data.

Actions are carried out in their order. Those on a session name its epoch, and have an
outcome, which is passed back: see each.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from glyphoxa_trio.npc.identity import SessionKey

from .messages import (
    AnswerMessage,
    AnyMessage,
    AskMessage,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)

Answer: TypeAlias = AnswerMessage | RefusedMessage


@attrs.frozen
class ToClient:
    """Send a message to the inbox of a client."""

    to: str
    message: AnyMessage


@attrs.frozen
class ClaimSession:
    """Claim a session for this worker in a journal, and load it; then `claimed` or
    `claim_failed`.

    ``silent``: take it from that worker, but only in that epoch. It is never taken from
    another. A claim that the journal says is this worker's own is made anew.
    ``joined``: the request that it is claimed for, if that says how it begins.
    """

    key: SessionKey
    silent: SilentOwner | None = None
    joined: AskMessage | None = None


@attrs.frozen
class RunTurn:
    """Run an utterance; `ended` when its turn is written and sent, `fenced` if it could
    not be written.

    ``remaining``: seconds for it, from now on.
    """

    key: SessionKey
    epoch: int
    turn: int
    say: SayMessage
    to: str
    remaining: float


@attrs.frozen
class CarryOut:
    """Carry out a request; `answered` with what comes of it.

    ``remaining``: seconds for it, from now on.
    """

    key: SessionKey
    epoch: int
    ask: AskMessage
    remaining: float


@attrs.frozen
class StopTurn:
    """Interrupt a turn; it still ends as every turn does."""

    key: SessionKey
    epoch: int
    id: str


@attrs.frozen
class CloseSession:
    """Drop a session and cancel its turns: nothing more is written or sent of it."""

    key: SessionKey
    epoch: int


@attrs.frozen
class ReleaseSession:
    """Write what is left of a session and give its claim back; then `released`."""

    key: SessionKey
    epoch: int


WorkerAction: TypeAlias = (
    ToClient
    | ClaimSession
    | RunTurn
    | CarryOut
    | StopTurn
    | CloseSession
    | ReleaseSession
)
