"""A check that the models of a configuration answer, and call a tool that they are
shown."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

import trio

from glyphoxa_trio.config import Config, ModelConfig, Provider
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.llm import (
    CallReady,
    LLMError,
    LLMRequest,
    Message,
    ToolSpec,
    Waiting,
)
from glyphoxa_trio.providers.remedies import is_there, models_of, not_there

from .models import link_of

_TOOL = ToolSpec(
    name="look",
    description="Look at a thing.",
    parameters={
        "type": "object",
        "properties": {"thing": {"type": "string"}},
        "required": ["thing"],
    },
)
_REQUEST = LLMRequest(
    messages=(
        Message(role="system", content="You are a guard. Use the tool to look."),
        Message(role="user", content="Look at the door, please."),
    ),
    tools=(_TOOL,),
)


@attrs.frozen
class ModelReport:
    """The result of the check of one model.

    Args:
      first: seconds until the first event; None without one.
      seconds: until the answer was complete.
      called: True if it called the tool that it was shown.
      notes: options that it turned out not to accept.
      error: empty if it answered.
    """

    label: str
    first: float | None = None
    seconds: float = 0.0
    called: bool = False
    notes: tuple[str, ...] = ()
    error: str = ""


async def check_models(config: Config, *, within: float) -> list[ModelReport]:
    """Ask each model of the configuration once, one after the other.

    Args:
      within: seconds for each, which include loading a cold model.
    """
    return [await _report(model, within) for model in _models(config)]


def _models(config: Config) -> Iterator[ModelConfig]:
    llm = config.llm
    names = (n for npc in config.npcs for n in (npc.model, npc.fast_model) if n)
    others = [llm.at(name) for name in dict.fromkeys(names)]
    every = [llm, *llm.fallbacks, *others]
    yield from (x for x in every if x.provider is not Provider.OFFLINE)


async def _report(config: ModelConfig, within: float) -> ModelReport:
    notes: list[str] = []
    try:
        link = link_of(config, warn=notes.append)
    except ValueError as error:
        return ModelReport(config.model or config.provider, error=str(error))
    assert isinstance(link, AtEndpoint)
    began = trio.current_time()
    first: float | None = None
    called, wrong = False, f"no answer within {within:g} s"
    try:
        with trio.move_on_after(within):
            there = await models_of(link)
            many = config.preset.needs_model
            if there is not None and many and not is_there(link.model, there):
                # Not every server lists all of its models; only the answer counts.
                notes.append(not_there(link, there))
            began = trio.current_time()
            async with link.stream(_REQUEST) as events:
                async for event in events:
                    if first is None and not isinstance(event, Waiting):
                        first = trio.current_time() - began
                    called = called or isinstance(event, CallReady)
            wrong = ""
    except LLMError as failure:
        wrong = str(failure)
    finally:
        with trio.move_on_after(1, shield=True):
            await link.aclose()
    seconds = trio.current_time() - began
    return ModelReport(link.label, first, seconds, called, tuple(notes), wrong)
