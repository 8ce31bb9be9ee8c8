"""The responses of one Realtime session: one at a time, but for those aside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

import trio

from ..voice.service import Violation
from ..voice.steps import ModelTurn, reply_to
from ..voice.transcripts import Transcripts
from ..voice.wire import Message
from .items import FakeItem, told
from .response import FakeResponse
from .saying import play
from .state import RealtimeState


@attrs.define(eq=False)
class FakeResponses:
    """All responses of one socket, in order.

    ``active`` is the running one that is part of the conversation; ``understood`` has,
    by item, the words that the model heard.
    """

    session: RealtimeState = attrs.field(repr=False)
    transcripts: Transcripts = attrs.field(init=False, repr=False)
    every: list[FakeResponse] = attrs.field(factory=list, repr=False)
    active: FakeResponse | None = None
    understood: dict[str, str] = attrs.field(factory=dict, repr=False)
    _wanted: bool = False  # the server itself wants one, as soon as it may

    def __attrs_post_init__(self) -> None:
        self.transcripts = Transcripts(self.session.nursery, has_items=True)

    def ask(self, event: Message) -> None:
        """Handle a client's ``response.create``."""
        session = self.session
        request = event.get("response", {})
        session.settings.check_reasoning(request, "response")
        aside = request.get("conversation") == "none"
        if self.active is not None and not aside:
            code = "conversation_already_has_active_response"
            detail = (
                "Conversation already has an active response in progress:"
                f" {self.active.id}. Wait until the response is finished before"
                " creating a new one."
            )
            if not (self.active.automatic and self._crossed(self.active.began)):
                session.violate(code, detail, event)
            session.say_no(event, code, detail)
            return
        owed = session.conversation.owed()
        if owed and not aside:
            ids = ", ".join(call.id for call in owed)
            warning = Violation(session.wire.number, "calls_owed", ids, event)
            session.service.warnings.append(warning)
        self.begin(request, automatic=False)

    def begin(self, request: Mapping[str, Any], *, automatic: bool) -> None:
        """Begin a response. An automatic one waits for the active one."""
        if automatic and self.active is not None:
            self._wanted = True
            return
        session = self.session
        settings = session.settings.of_response(request)
        response = FakeResponse(
            session.new_id("resp"), session, request, settings, automatic, self._ended
        )
        turn = self._turn(response)
        service = session.service
        beside = response.aside and "input" in request
        steps = reply_to(service.aside if beside else service.script, turn)
        self.every.append(response)
        if not response.aside:
            self.active = response
        response.begin()
        left = max(250_000 - 100 * len(self.every), 0)
        limits = {"name": "tokens", "limit": 250_000, "reset_seconds": 0.2}
        session.tell("rate_limits.updated", rate_limits=[{**limits, "remaining": left}])
        session.nursery.start_soon(play, response, steps)

    def _ended(self, response: FakeResponse) -> None:
        if response is not self.active:
            return
        self.active = None
        self.transcripts.answered()
        if self._wanted:
            self._wanted = False
            self.begin({}, automatic=True)

    def cancel(self, event: Message) -> None:
        """Handle a client's ``response.cancel``."""
        wanted = event.get("response_id")
        for response in self.every:
            named = response.id == wanted if wanted else response is self.active
            if named and response.ended is None:
                response.end("cancelled", "client_cancelled")
                return
        code = "response_cancel_not_active"
        detail = "Cancellation failed: no active response found"
        last = max((r.ended for r in self.every if r.ended is not None), default=None)
        if last is None or not self._crossed(last):
            self.session.violate(code, detail, event)
        self.session.say_no(event, code, detail)

    def _crossed(self, since: float) -> bool:
        """Return whether the client may not know yet what happened at that time."""
        return trio.current_time() < since + self.session.service.grace

    def _turn(self, response: FakeResponse) -> ModelTurn:
        items = self.session.conversation.items
        if "input" in response.request:
            items = [self._input(entry) for entry in response.request["input"]]
        user, lines, outputs = told([self._as_heard(item) for item in items])
        return ModelTurn(
            socket=self.session.wire.number,
            number=sum(x.aside == response.aside for x in self.every),
            user=user,
            outputs=outputs,
            lines=lines,
            instructions=response.settings["instructions"],
            tools=response.tools,
            request=response.request,
        )

    def _input(self, entry: Message) -> FakeItem:
        if entry["type"] != "item_reference":
            return FakeItem(dict(entry))
        conversation = self.session.conversation
        place = conversation.place(entry["id"], "item_not_found", "response.input")
        return conversation.items[place]

    def _as_heard(self, item: FakeItem) -> FakeItem:
        words = self.understood.get(item.wire.get("id", ""))
        if words is None:
            return item
        return FakeItem({**item.wire, "content": [{"transcript": words}]})
