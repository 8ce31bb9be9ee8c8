"""The check that the models of a configuration can play a turn.

Each model plays what a turn plays: it sees an NPC's prompt and tools, calls one of
them, is given a result, and answers. The result is made up, and no tool is run. So the
check fails where a turn would: at a tool's schema that the server refuses, or at the
round after a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Config, ModelConfig, NpcConfig, Provider
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.host import CatalogueEntry, LoadedTools, ToolHost, VisibleTools
from glyphoxa_trio.npc.conversation import Conversation, Exchange, Round
from glyphoxa_trio.npc.prompt import system_prompt
from glyphoxa_trio.npc.prompting import (
    opening_request,
    request_of,
    specs_of,
    visible_tools,
)
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMError,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
    Usage,
    Waiting,
    Working,
)
from glyphoxa_trio.providers.remedies import is_there, models_of, not_there
from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.schema import BadSchema

from .grants import grant_of
from .models import link_of

ROUNDS: Final = 3  # the call, the answer, and one without tools if it calls again
RESULT: Final = "It worked. (This is a test, and nothing was done.)"

# For an NPC without tools: most will get some.
_TOOL: Final = ToolSpec(
    name="look",
    description="Look at a thing.",
    parameters={
        "type": "object",
        "properties": {"thing": {"type": "string"}},
        "required": ["thing"],
    },
)


@attrs.frozen(kw_only=True)
class ModelReport:
    """The result of one turn of a model with an NPC's tools. Times are seconds.

    Args:
      label: the model.
      npc: the NPC whose tools it was shown.
      first: until its first word, or its call; None without one.
      call: until its call was complete; None without one.
      answer: from the call's result to the end of the answer; None without a call.
      total: all of it.
      tool: the tool that it called; empty if it called none.
      shows_tools: False for a model that only begins answers.
      input_tokens, output_tokens: of all rounds; None if the server does not count.
      notes: what it turned out not to accept, or did otherwise than it was asked.
      refused: the tools that its server refuses, each with its words.
      error: empty if it answered.
    """

    label: str
    npc: str = ""
    first: float | None = None
    call: float | None = None
    answer: float | None = None
    total: float = 0.0
    tool: str = ""
    shows_tools: bool = True
    input_tokens: int | None = None
    output_tokens: int | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    error: str = ""

    @property
    def called(self) -> bool:
        """True if it called a tool."""
        return bool(self.tool)


async def check_models(
    config: Config, host: ToolHost, *, within: float
) -> list[ModelReport]:
    """Play a turn with each model of the configuration, one after the other.

    A model plays for each NPC that may speak with it, but not for one whose tools it
    has been shown already.

    Args:
      host: has the tools.
      within: seconds for each turn, which include loading a cold model.
    """
    reports: list[ModelReport] = []
    for model, parts in _cast(config, host):
        reports += await _reports(model, parts, within)
    return reports


@attrs.frozen
class _Part:
    """An NPC with the tools that a turn of it would show. None is any NPC."""

    npc: NpcConfig | None
    view: VisibleTools
    begins: bool = False  # it shows no tools to a model that only begins answers

    @property
    def name(self) -> str:
        return "" if self.npc is None else self.npc.name


def _cast(
    config: Config, host: ToolHost
) -> Iterator[tuple[ModelConfig, Sequence[_Part]]]:
    """Yield each model with the parts that it has to play."""
    llm = config.llm
    npcs = [npc for npc in config.npcs if npc.engine is not Engine.S2S]
    named: dict[str, list[NpcConfig]] = {}
    for npc in npcs:
        if npc.model and npc.model != llm.model:
            named.setdefault(npc.model, []).append(npc)
    default = [npc for npc in npcs if not npc.model or npc.model == llm.model]
    every: list[tuple[ModelConfig, list[NpcConfig]]] = [(llm, default)]
    every += [(fallback, npcs) for fallback in llm.fallbacks]
    every += [(llm.at(name), speakers) for name, speakers in named.items()]
    for model, speakers in every:
        if model.provider is not Provider.OFFLINE:
            yield model, _parts(config, host, speakers)
    known = {llm.model, *named}
    fast = {npc.fast_model: npc for npc in reversed(npcs) if npc.fast_model}
    for name, npc in fast.items():
        if name not in known and (model := llm.at(name)).provider != Provider.OFFLINE:
            yield model, [_Part(npc, VisibleTools(shown=()), begins=True)]


def _parts(
    config: Config, host: ToolHost, npcs: Sequence[NpcConfig]
) -> Sequence[_Part]:
    """Return those of the NPCs that differ in their tools, the largest part first."""
    parts = [_Part(npc, _view(config, host, npc)) for npc in npcs]
    parts.sort(key=lambda part: -len(part.view.shown))
    chosen: list[_Part] = []
    seen: set[str] = set()
    for part in parts:
        names = {entry.exposed for entry in part.view.shown}
        if not chosen or names - seen:
            chosen.append(part)
            seen |= names
    return chosen or [_Part(None, VisibleTools(shown=()))]


def _view(config: Config, host: ToolHost, npc: NpcConfig) -> VisibleTools:
    """Return the tools that the first round of a turn shows."""
    tier = npc.budget_tier
    grant = grant_of(npc, config, approver=False)

    def permitted(left: float) -> tuple[CatalogueEntry, ...]:
        return host.tools(tier, grant=grant, remaining=left)

    return visible_tools(
        host,
        LoadedTools(),
        tier=tier,
        grant=grant,
        remaining=host.settings.limits.ceiling(tier),
        threshold=config.mcp.defer_threshold,
        permitted=permitted,
    )


async def _reports(
    config: ModelConfig, parts: Sequence[_Part], within: float
) -> list[ModelReport]:
    """Play all parts of one model."""
    notes: list[str] = []
    refused: list[str] = []

    left_out = 0

    def warn(text: str) -> None:
        nonlocal left_out
        assert isinstance(link, AtEndpoint)
        before, left_out = left_out, len(link.found.left_out)
        # A tool is left out before that is told.
        (refused if left_out > before else notes).append(text)

    try:
        link = link_of(config, warn=warn)
    except ValueError as error:
        return [ModelReport(label=config.model or config.provider, error=str(error))]
    assert isinstance(link, AtEndpoint)
    reports: list[ModelReport] = []
    try:
        for part in parts:
            turn = _TestTurn(link, part)
            wrong = f"no answer within {within:g} s"
            try:
                with trio.move_on_after(within):
                    if not reports and config.preset.needs_model:
                        notes += await _absent(link)
                    await turn.play()
                    wrong = ""
            except LLMError as failure:
                wrong = f"{turn.place}{failure}"
            notes += turn.notes
            reports.append(turn.report(notes, refused, wrong))
            notes, refused = [], []
    finally:
        with trio.move_on_after(1, shield=True):
            await link.aclose()
    return reports


async def _absent(link: AtEndpoint) -> list[str]:
    """Say if the server does not list the model.

    Not every server lists all of its models; only the answer counts.
    """
    there = await models_of(link)
    if there is None or is_there(link.model, there):
        return []
    return [not_there(link, there)]


@attrs.define(eq=False)
class _TestTurn:
    """One turn of the check, round by round."""

    _link: AtEndpoint
    _part: _Part
    notes: list[str] = attrs.field(factory=list, init=False)
    _began: float = attrs.field(factory=trio.current_time, init=False)
    _first: float | None = attrs.field(default=None, init=False)
    _called_at: float | None = attrs.field(default=None, init=False)
    _answered: float | None = attrs.field(default=None, init=False)
    _tool: str = attrs.field(default="", init=False)
    _usage: list[Usage] = attrs.field(factory=list, init=False)

    async def play(self) -> None:
        """Play the turn.

        Raises:
          LLMError: if the model does not answer.
        """
        part = self._part
        tools = specs_of(part.view.shown) or (_TOOL,)
        prompt = "You are a guard." if part.npc is None else system_prompt(part.npc)
        conversation = Conversation((Message(role="system", content=prompt),), limit=1)
        exchange = Exchange("player", _words(part, tools))
        self._began = trio.current_time()
        if part.begins:
            await self._listen(opening_request(conversation, exchange), Round())
            return
        for index in range(ROUNDS):
            last = index == ROUNDS - 1
            round_ = exchange.begin_round()
            request = request_of(conversation, exchange, part.view, last=last)
            request = attrs.evolve(request, tools=tools, tools_forbidden=last)
            began = trio.current_time()
            calls = await self._listen(request, round_)
            if self._tool and index:
                self._answered = trio.current_time() - began
            if not calls:
                break
            self._take(calls, tools, round_)
        if self._tool and not round_.sentences:
            self._note(f"it called {self._tool}, and said nothing after the result")

    @property
    def place(self) -> str:
        """The words before an error that say where in the turn it came."""
        return f"in the round after a call of {self._tool}: " if self._tool else ""

    def report(
        self, notes: Sequence[str], refused: Sequence[str], error: str
    ) -> ModelReport:
        """Return the report of the turn, which is over."""
        usage = self._usage
        return ModelReport(
            label=self._link.label,
            npc=self._part.name,
            first=self._first,
            call=self._called_at,
            answer=self._answered,
            total=trio.current_time() - self._began,
            tool=self._tool,
            shows_tools=not self._part.begins,
            input_tokens=sum(x.input_tokens for x in usage) if usage else None,
            output_tokens=sum(x.output_tokens for x in usage) if usage else None,
            notes=tuple(notes),
            refused=tuple(refused),
            error=error,
        )

    async def _listen(self, request: LLMRequest, round_: Round) -> list[ToolCall]:
        """Ask the model; return its calls."""
        calls: list[ToolCall] = []
        text = ""
        async with self._link.stream(request) as events:
            async for event in events:
                if self._first is None and not isinstance(event, Waiting):
                    self._first = trio.current_time() - self._began
                match event:
                    case TextChunk():
                        text += event.text
                    case Working(unsaid=True):
                        text = ""
                    case CallReady():
                        calls.append(event.call)
                    case Finished():
                        round_.verbatim = event.verbatim
                        if event.usage is not None:
                            self._usage.append(event.usage)
        if text.strip():
            round_.sentences.append(text)
        if calls and self._called_at is None:
            self._called_at = trio.current_time() - self._began
        return calls

    def _take(
        self, calls: Sequence[ToolCall], tools: Sequence[ToolSpec], round_: Round
    ) -> None:
        """Give each call a result, without running anything."""
        names = {tool.name for tool in tools}
        for call in calls:
            self._tool = self._tool or call.name
            round_.outcomes.append(
                Outcome(call=call, tool=None, status=Status.OK, message=RESULT)
            )
            if call.name not in names:
                self._note(f"it called {call.name!r}, which it was not shown")
        for entry in self._part.view.shown:
            for call in calls:
                if call.name == entry.exposed and (why := _wrong(entry, call)):
                    self._note(f"its arguments of {call.name} do not fit: {why}")

    def _note(self, text: str) -> None:
        self.notes.append(f"{self._link.label}: {text}")


def _words(part: _Part, tools: Sequence[ToolSpec]) -> str:
    """Return what the player of the check says."""
    if part.begins:
        return "Hello! Who are you?"
    if not part.view.shown:
        return "Look at the door, please."
    # Nothing is run; but a model may decline to do harm.
    best = min(
        part.view.shown,
        key=lambda entry: (
            not entry.definition.read_only,
            entry.definition.destructive,
            len(entry.definition.parameters.get("required") or ()),
        ),
    )
    return (
        f"This is a test of your tools. Use your tool {best.exposed} now, once, and"
        " make up what it needs. Then say in one short sentence what it has answered."
    )


def _wrong(entry: CatalogueEntry, call: ToolCall) -> str:
    """Return why a call's arguments do not fit the tool; empty if they do."""
    try:
        entry.schema.parse(call.arguments)
    except (InvalidArguments, BadSchema) as error:
        return str(error)
    return ""
