"""The abilities of a model and its server, and how they are learned from refusals.

A refused request is sent again only as often as a refusal teaches something: each of
them changes all later requests, and is reported once. Only a conversation that
was too long is cut for this one request.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

import attrs

from .llm import ErrorKind, LLMRequest
from .opaque import is_thought, sent_back


@attrs.frozen(kw_only=True)
class Abilities:
    """The abilities of a model. Each is assumed until a server refuses it.

    Args:
      tools: False lists no tools, and describes earlier calls in words.
      tool_choice: False enforces an answer in words by not listing the tools.
      tool_messages: False describes calls and results in words; tools stay listed.
      system_role: False puts the system prompt before the first user's words.
      one_call: True puts at most one call into an assistant message.
      short_ids: True makes the ids of calls nine letters and digits long.
      streams_calls: False requests a whole answer instead of a stream, if there are
        tools.
      thoughts_back: True if it refuses a call of an earlier answer without the thoughts
        before it; calls whose thoughts are not known are described in words.
      signed_calls: True if it refuses a call of an earlier answer without a signature.
      refused_back: the fields of its answers that it does not accept back.
      context_tokens: the size of its context, the answer included; None if not known.
    """

    tools: bool = True
    tool_choice: bool = True
    tool_messages: bool = True
    system_role: bool = True
    one_call: bool = False
    short_ids: bool = False
    streams_calls: bool = True
    thoughts_back: bool = False
    signed_calls: bool = False
    refused_back: frozenset[str] = frozenset()
    context_tokens: int | None = None


Known = TypeVar("Known", bound=Abilities)

# The phrases of OpenAI, vLLM, llama.cpp, Mistral, OpenRouter, Anthropic, Gemini, LM
# Studio and Ollama.
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
# The phrases of DeepSeek (by both of its APIs) and Kimi; of Gemini.
_THOUGHTS_BACK: Final = re.compile(
    r"(?:reasoning[_ ]content|\bthinking\b)[^.]{0,80}(?:missing|passed back|required)"
    r"|missing[^.]{0,20}(?:reasoning[_ ]content|\bthinking\b)",
    re.IGNORECASE,
)
_SIGNED: Final = re.compile(
    r"missing (?:a )?\W?thought_?signature"
    r"|thought_?signature[^.]{0,40}(?:missing|required)",
    re.IGNORECASE,
)
# The phrases of Groq and Cerebras, of pydantic (Mistral, vLLM), of OpenAI, of Google's
# JSON parser, of Go's (Ollama) and of serde.
_NOT_TAKEN: Final = re.compile(
    r"is unsupported|not (?:supported|permitted|allowed)|was unexpected|unexpected"
    r"|extra_forbidden|unknown (?:name|field|parameter)|cannot find field"
    r"|unrecognized|invalid field",
    re.IGNORECASE,
)
# The phrases of Gemini, Vertex and Anthropic, and of OpenAI's encrypted reasoning.
_OF_THOUGHTS: Final = (
    r"(?:signature|encrypted[ _]content|\bthought|\bthinking|\breasoning)"
)
_BROKEN: Final = (
    r"(?:corrupt|invalid|not (?:be )?(?:valid|verified|decrypted|decoded|match)"
    r"|malformed|mismatch|expired|tampered|(?:decoding|verification) failed"
    r"|fail\w* to (?:verify|decrypt|decode|parse))"
)
_NOT_VALID: Final = re.compile(
    rf"{_OF_THOUGHTS}[^.\n]{{0,60}}{_BROKEN}|{_BROKEN}[^.\n]{{0,60}}{_OF_THOUGHTS}",
    re.IGNORECASE,
)
_TEACH: Final = (400, 404, 413, 422, 500, 501)  # 500: templates that raise an exception


_ALL: Final = (
    _FULL,
    _NO_TOOLS,
    _NO_SYSTEM,
    _ONE_CALL,
    _SHORT_IDS,
    _ALTERNATE,
    _THOUGHTS_BACK,
    _SIGNED,
    _NOT_VALID,
)


def teaches(words: str) -> bool:
    """Return whether these words would teach something about a model."""
    return any(each.search(words) for each in _ALL)


def context_is_full(words: str) -> bool:
    """Return whether a refusal says that the conversation is too long."""
    return _FULL.search(words) is not None


def refuses_all_tools(words: str) -> bool:
    """Return whether a refusal says that the model has no tools at all."""
    return _NO_TOOLS.search(words) is not None


def learned(
    abilities: Known, status: int, words: str, request: LLMRequest
) -> tuple[Known, str]:
    """Return the abilities that a refusal teaches, and a text about the change.

    The text is empty if the refusal teaches nothing.
    """
    if status not in _TEACH:
        return abilities, ""
    tools = bool(request.tools) or any(x.calls for x in request.messages)
    if abilities.tools and tools and _NO_TOOLS.search(words):
        return (
            attrs.evolve(abilities, tools=False),
            "it accepts no tools, and is asked without them for some minutes",
        )
    if abilities.system_role and _NO_SYSTEM.search(words):
        return (
            attrs.evolve(abilities, system_role=False),
            "it accepts no system prompt, which is sent as the user's words",
        )
    told = any(x.calls for x in request.messages)
    if fields := _refused_back(words, request) - abilities.refused_back:
        return (
            attrs.evolve(abilities, refused_back=abilities.refused_back | fields),
            f"it refuses its own {', '.join(sorted(fields))}, now not sent back",
        )
    answered = any(x.role == "assistant" for x in request.messages)
    if answered and not abilities.thoughts_back and _THOUGHTS_BACK.search(words):
        return (
            attrs.evolve(abilities, thoughts_back=True),
            "it refuses a call without its thoughts; those of others are sent as words",
        )
    if told and not abilities.signed_calls and _SIGNED.search(words):
        return (
            attrs.evolve(abilities, signed_calls=True),
            "it refuses unsigned calls; those of others are sent with a placeholder",
        )
    placeheld = told and abilities.tool_messages and abilities.signed_calls
    if placeheld and _is_broken(words):
        return (
            attrs.evolve(abilities, tool_messages=False),
            "it refuses signatures of its calls, which are sent as the user's words",
        )
    if told and not abilities.one_call and _ONE_CALL.search(words):
        return (
            attrs.evolve(abilities, one_call=True),
            "it accepts one call a message, so several are sent one by one",
        )
    if told and not abilities.short_ids and _SHORT_IDS.search(words):
        return attrs.evolve(
            abilities, short_ids=True
        ), "it accepts only short ids of calls"
    if told and abilities.tool_messages and _ALTERNATE.search(words):
        return (
            attrs.evolve(abilities, tool_messages=False),
            "it accepts no tool results, which are sent as the user's words",
        )
    return abilities, ""


def _is_broken(words: str) -> bool:
    """Return whether a refusal is about thoughts or signatures that are not valid."""
    missing = _SIGNED.search(words) or _THOUGHTS_BACK.search(words)
    return missing is None and _NOT_VALID.search(words) is not None


def _refused_back(words: str, request: LLMRequest) -> frozenset[str]:
    """Return the fields of earlier answers that a refusal is about."""
    broken = _is_broken(words)
    if not (broken or _NOT_TAKEN.search(words)):
        return frozenset()
    fields = sent_back(request.messages)
    names = frozenset(name for each in fields for name in each.names)
    named = frozenset(
        name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words)
    )
    if named or not broken:
        return named
    # It speaks of what a field holds, and not of the field.
    signed = frozenset(name for each in fields for name in each.signed)
    return signed or frozenset(filter(is_thought, names))


def kind_of_refusal(kind: ErrorKind, words: str) -> ErrorKind:
    """Return the kind of an error, whose words may say more than its status does."""
    unclear = (ErrorKind.BAD_REQUEST, ErrorKind.OVERLOADED, ErrorKind.INTERRUPTED)
    return (
        ErrorKind.CONTEXT_FULL if kind in unclear and context_is_full(words) else kind
    )
