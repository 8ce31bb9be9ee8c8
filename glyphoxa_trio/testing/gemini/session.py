"""One socket of the fake Gemini Live server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

import trio

from ..voice.shapes import ShapeMismatch
from ..voice.steps import (
    Close,
    Drop,
    Expire,
    Freeze,
    GoAway,
    ResponseStep,
    Send,
    UserSpeaks,
)
from ..voice.wire import Message
from .calls import SocketCalls
from .hearing import Hearing
from .history import FakeHistory, text_of
from .profiles import profile_of
from .refused import INVALID, POLICY, SocketRefused
from .shapes import client
from .state import GeminiState
from .turns import FakeTurns


@attrs.define(eq=False)
class GeminiSession(GeminiState):
    """One socket: its state, and the parts that act on it."""

    hearing: Hearing = attrs.field(init=False, repr=False)
    turns: FakeTurns = attrs.field(init=False, repr=False)
    calls: SocketCalls = attrs.field(init=False, repr=False)
    resumed: bool = False
    ready: bool = False
    _seeding: bool = False  # the first history is not complete yet
    # the conversation has begun, so that there is no first history
    _begun: bool = False

    def __attrs_post_init__(self) -> None:
        self.calls = SocketCalls(self)
        self.turns = FakeTurns(self, self.calls)
        self.hearing = Hearing(self, self.turns)

    async def run(self) -> None:
        if self.service.lifetime is not None:
            self.nursery.start_soon(self._expire_after, self.service.lifetime)
        await self.wire.run(self._handle, self.happen)

    async def _expire_after(self, seconds: float) -> None:
        notice = min(self.service.notice, seconds)
        await trio.sleep(seconds - notice)
        self.happen(GoAway(notice))
        await trio.sleep(notice)
        self.happen(Expire())

    def happen(self, event: ResponseStep) -> None:
        """Do a step that the script wants to happen on this socket."""
        match event:
            case UserSpeaks():
                self.hearing.user_speaks(event)
            case Send(message):
                self.wire.emit(dict(message))
            case GoAway(seconds):
                self.wire.emit({"goAway": {"timeLeft": f"{seconds:g}s"}})
            case Expire():
                self.wire.end(Close(1001, "Session duration limit reached."))
            case Close() | Drop() | Freeze():
                self.wire.end(event)
            case _:
                raise ValueError(f"{event} cannot happen to a Gemini socket")

    # Messages of the client

    def _handle(self, message: Any) -> None:
        shown = message if isinstance(message, dict) else {}
        try:
            kind, content = client(message)
            self._take(kind, content, shown)
        except ShapeMismatch as error:
            detail = f"Invalid JSON payload received. {error}"
            if error.kind == "unknown":
                where, _, name = error.path.rpartition(".")
                detail = (
                    f'Invalid JSON payload received. Unknown name "{name}" at'
                    f" '{where}': Cannot find field."
                )
            self._refuse(SocketRefused(INVALID, error.kind, detail), shown)
        except SocketRefused as error:
            self._refuse(error, shown)

    def _refuse(self, error: SocketRefused, message: Message) -> None:
        self.violate(error.word, error.detail, message)
        reason = error.detail.encode()[:120].decode(errors="ignore")
        self.wire.end(Close(error.code, reason))

    def _take(self, kind: str, content: Message, message: Message) -> None:
        if kind == "setup":
            self._set_up(content)
            return
        if not self.ready:
            detail = "Nothing may be sent before setupComplete."
            raise SocketRefused(INVALID, "not_ready", detail)
        match kind:
            case "clientContent":
                self._content(content)
            case "realtimeInput":
                if self._seeding:
                    self.violate("history_unfinished", "no turnComplete yet", message)
                    self._seeding = False
                self._begun = True
                self.hearing.take(content, message)
            case "toolResponse":
                answers = content["functionResponses"]
                self.turns.answered(self.calls.answer(answers, message))
            case _:
                self._update(content)

    def _set_up(self, setup: Message) -> None:
        if self.setup:
            raise SocketRefused(
                INVALID, "second_setup", "setup is sent once, and first."
            )
        profile = self.service.profile or profile_of(setup["model"])
        if profile is None or not setup["model"].startswith("models/"):
            detail = f"{setup['model']} is not found for bidiGenerateContent."
            raise SocketRefused(POLICY, "no_such_model", detail)
        self.profile = profile
        self.setup = setup
        self._declare(setup.get("tools", []))
        self._check_thinking(setup)
        self.instructions = text_of(setup.get("systemInstruction"))
        self.history = FakeHistory(setup["model"])
        handle = setup.get("sessionResumption", {}).get("handle")
        if handle:
            self._resume(handle)
        config = setup.get("historyConfig", {})
        seeds = config.get("initialHistoryInClientContent", False)
        self._seeding = seeds and not self.resumed
        if self.service.opens_after:
            self.nursery.start_soon(self._complete_after, self.service.opens_after)
        else:
            self._complete()

    async def _complete_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        self._complete()

    def _complete(self) -> None:
        self.ready = True
        self.wire.emit({"setupComplete": {"sessionId": self.new_id("session")}})

    def _resume(self, handle: str) -> None:
        found = self.service.handles.get(handle)
        if found is None:
            detail = "BidiGenerateContent session not found"
            raise SocketRefused(POLICY, "no_such_handle", detail)
        if found.model != self.history.model:
            detail = "A session cannot be resumed with another model."
            raise SocketRefused(INVALID, "other_model", detail)
        self.history = found
        self.resumed = self._begun = True

    def _check_thinking(self, setup: Message) -> None:
        config = setup.get("generationConfig", {}).get("thinkingConfig", {})
        for key in config.keys() - self.profile.thinking:
            detail = f"{key} is not supported by {setup['model']}."
            raise SocketRefused(INVALID, "thinking", detail)
        generation = setup.get("generationConfig", {})
        switched = "enableAffectiveDialog" in generation or "proactivity" in setup
        if switched and not self.profile.switches:
            detail = f"Not supported by {setup['model']}."
            raise SocketRefused(INVALID, "switches", detail)

    def _declare(self, tools: Sequence[Message]) -> None:
        declared: dict[str, str] = {}
        for tool in tools:
            for function in tool.get("functionDeclarations", ()):
                default = self.profile.behaviors[0]
                behavior = function.get("behavior", default)
                if behavior == "UNSPECIFIED":
                    behavior = default
                if behavior not in self.profile.behaviors:
                    detail = f"{behavior} is not supported by {self.profile.name}."
                    raise SocketRefused(INVALID, "behavior", detail)
                declared[function["name"]] = behavior
        self.declared = declared

    def _update(self, update: Message) -> None:
        if not self.profile.updates_context:
            detail = f"contextUpdate is not supported by {self.profile.name}."
            raise SocketRefused(INVALID, "context_update", detail)
        if "tools" in update:
            self._declare(update["tools"].get("tools", []))
        if "systemInstruction" in update:
            self.instructions = text_of(update["systemInstruction"])

    def _content(self, content: Message) -> None:
        turns = content.get("turns", [])
        complete = content.get("turnComplete", False)
        if not self._seeding and not self.profile.takes_content:
            detail = f"{self.profile.name} takes clientContent only as first history."
            raise SocketRefused(INVALID, "client_content", detail)
        seeds = not self._begun and not complete and not self._seeding
        last = turns[-1].get("role", "user") if turns else "user"
        if seeds and self.profile.seeds_end_with_user and last != "user":
            self.violate("seed", "history ends with the model", content)
        if not self._seeding:
            self.turns.interrupt(wanted=complete)
        for turn in turns:
            role = turn.get("role", "user")
            self.said(role, text_of(turn))
        if self._seeding:
            self._seeding = not complete
        elif complete:
            self._begun = True
            self.turns.begin()
        self.turns.tell_resumable()
