"""What a model or its server cannot take, and how that is learned from its refusal.

A request is asked again at most so often as a refusal teaches something: each of them
changes what is sent from then on, and is told once. Only a conversation that was too
long is cut for this request alone.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import attrs

from .llm import ErrorKind, LLMRequest


@attrs.frozen(kw_only=True)
class Abilities:
    """What a model takes; all of it is believed until a server refuses it.

    Args:
      tools: False shows it none, and tells earlier calls in words.
      tool_choice: False forces words by not listing the tools.
      tool_messages: False tells calls and results in words; tools stay listed.
      system_role: False puts the system prompt in front of the first user's words.
      one_call: an assistant message holds one call at most.
      short_ids: ids of calls are nine letters and digits.
      streams_calls: False asks for the answer in one piece where there are tools.
      context_tokens: how much it takes in all, the answer included; None is unknown.
    """

    tools: bool = True
    tool_choice: bool = True
    tool_messages: bool = True
    system_role: bool = True
    one_call: bool = False
    short_ids: bool = False
    streams_calls: bool = True
    context_tokens: int | None = None


Known = TypeVar("Known", bound=Abilities)

# In the words of: OpenAI, vLLM, llama.cpp, Mistral, OpenRouter, Anthropic, Gemini,
# LM Studio, Ollama.
_FULL: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length"
    r"|context (?:length|size|window) (?:is |was )?(?:exceeded|of only)"
    r"|exceeds? (?:the |this model'?s )?(?:available |maximum |max )?context"
    r"|larger than (?:the )?(?:max(?:imum)?|model'?s)[ _](?:model )?context"
    r"|prompt is too long|prompt too long|input (?:is|was) too long"
    r"|too (?:many|large)[^.]{0,40}tokens|input token count[^.]{0,40}exceeds"
    r"|greater than the context length|context (?:length|window) limit"
    r"|decoder prompt[^.]{0,40}longer than|exceeds? the (?:model'?s )?max(?:imum)?"
    r"[^.]{0,30}tokens|max_model_len|n_ctx"
    r"|maximum prompt length",
    re.IGNORECASE,
)
_NO_TOOLS: Final = re.compile(
    r"(?:does not|doesn't|do not|not) support (?:tools|tool[ _](?:use|call)"
    r"|function[ _]call)|tool choice requires|tools? param(?:eter)? requires"
    r"|support tool use|tool(?:s| use| calling)? (?:is|are) not supported"
    r"|function calling is not (?:enabled|supported)|enable-auto-tool-choice",
    re.IGNORECASE,
)
_NO_SYSTEM: Final = re.compile(
    r"system role (?:is )?not supported|developer instruction is not enabled"
    r"|(?:role|roles)[^.]{0,20}system[^.]{0,20}not (?:supported|allowed)",
    re.IGNORECASE,
)
_ONE_CALL: Final = re.compile(r"single tool[- ]calls? at once", re.IGNORECASE)
_SHORT_IDS: Final = re.compile(r"length (?:of )?9|9 characters", re.IGNORECASE)
_ALTERNATE: Final = re.compile(
    r"must alternate|roles? (?:should|need)[^.]{0,20}alternat"
    r"|None(?:Type)?'? (?:object'? )?has no (?:element|attribute)"
    r"|unexpected role|only user and assistant roles|invalid role|unknown role",
    re.IGNORECASE,
)
_TEACH: Final = (400, 404, 413, 422, 500, 501)  # 500: templates that raise


_ALL: Final = (_FULL, _NO_TOOLS, _NO_SYSTEM, _ONE_CALL, _SHORT_IDS, _ALTERNATE)


def teaches(words: str) -> bool:
    """Whether these would say something of a model, if they are its server's."""
    return any(each.search(words) for each in _ALL)


def context_is_full(words: str) -> bool:
    """Whether a refusal says that the conversation is too long."""
    return _FULL.search(words) is not None


def learned(
    abilities: Known, status: int, words: str, request: LLMRequest
) -> tuple[Known, str]:
    """What a refusal teaches of the model, and that in words; no words if nothing."""
    if status not in _TEACH:
        return abilities, ""
    tools = bool(request.tools) or any(x.calls for x in request.messages)
    if abilities.tools and tools and _NO_TOOLS.search(words):
        return (
            attrs.evolve(abilities, tools=False),
            "it takes no tools, and is asked without them for some minutes",
        )
    if abilities.system_role and _NO_SYSTEM.search(words):
        return (
            attrs.evolve(abilities, system_role=False),
            "it takes no system prompt, which is told as the user's words",
        )
    told = any(x.calls for x in request.messages)
    if told and not abilities.one_call and _ONE_CALL.search(words):
        return (
            attrs.evolve(abilities, one_call=True),
            "it takes one call at a time, and is told of several one by one",
        )
    if told and not abilities.short_ids and _SHORT_IDS.search(words):
        return attrs.evolve(abilities, short_ids=True), "its ids of calls are short"
    if told and abilities.tool_messages and _ALTERNATE.search(words):
        return (
            attrs.evolve(abilities, tool_messages=False),
            "it takes no results of tools, which are told as the user's words",
        )
    return abilities, ""


def kind_of_refusal(kind: ErrorKind, words: str) -> ErrorKind:
    """The kind of an error whose words may say more than its status does."""
    unclear = (ErrorKind.BAD_REQUEST, ErrorKind.OVERLOADED, ErrorKind.INTERRUPTED)
    return (
        ErrorKind.CONTEXT_FULL if kind in unclear and context_is_full(words) else kind
    )
