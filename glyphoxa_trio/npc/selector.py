"""The tier selector: the actor that remembers what the rules need, per session.

A selection on a partial transcript leaves no trace; it is committed when a turn
starts (D2).
"""

from __future__ import annotations

from collections import OrderedDict

import attrs

import trio

from glyphoxa_trio.actors import Inbox, Request
from glyphoxa_trio.tools.tier import Tier

from .selection import Selection, SelectionRules, Situation, Vocabulary, select
from .topics import NO_TOOLS, NamedTools

# Sessions come and go; the least recently heard of is forgotten first.
_SESSIONS = 10_000


@attrs.frozen(kw_only=True)
class Select(Request["Selector", Selection]):
    """Asked: the tier for ``text``. Only ``commit`` changes what is remembered.

    ``npc`` and ``tools`` are as in `Situation`.
    """

    session: str
    text: str
    npc: str = ""
    tools: NamedTools = NO_TOOLS
    override: Tier | None = None
    queue_depth: int = 0
    commit: bool = False


@attrs.frozen(kw_only=True)
class Learn(Request["Selector", None]):
    """Asked: go by the rules of this from now on; what is remembered stays."""

    vocabulary: Vocabulary


@attrs.frozen
class Forget(Request["Selector", None]):
    """Asked: these sessions have ended."""

    sessions: tuple[str, ...]


@attrs.define(eq=False)
class _Memory:
    turns: int = 0
    last_deep: float | None = None


@attrs.define(eq=False)
class Selector:
    """The actor's state; `run` is its body."""

    rules: SelectionRules
    _sessions: OrderedDict[str, _Memory] = attrs.field(factory=OrderedDict, init=False)

    async def run(self, inbox: Inbox[Selector]) -> None:
        async for call in inbox:
            with call.answering():
                match call.request:
                    case Learn(vocabulary=vocabulary):
                        self.rules = vocabulary.rules()
                        call.reply(None)
                    case Select() as request:
                        call.reply(self._select(request))
                    case Forget(sessions):
                        for session in sessions:
                            self._sessions.pop(session, None)
                        call.reply(None)

    def _select(self, request: Select) -> Selection:
        memory = self._sessions.get(request.session) or _Memory()
        now = trio.current_time()
        selection = select(
            self.rules,
            Situation(
                text=request.text,
                npc=request.npc,
                tools=request.tools,
                override=request.override,
                queue_depth=request.queue_depth,
                first_turn=memory.turns == 0,
                since_deep=None if memory.last_deep is None else now - memory.last_deep,
            ),
        )
        if request.commit:
            memory.turns += 1
            if selection.tier is Tier.DEEP:
                memory.last_deep = now
            self._sessions[request.session] = memory
            self._sessions.move_to_end(request.session)
            if len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        return selection
