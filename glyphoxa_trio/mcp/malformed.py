"""Answers that break the protocol: what of them can be used, and what is said of it.

The SDK is the authority on what is valid. Its own words for a fault name its classes
and leave the field for a second line; ours name the method, the field and the remedy.
Import this lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, Final, get_args

from mcp_types import methods
from mcp_types.methods import is_input_required
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.condense import COMPLAINT, LISTS
from glyphoxa_trio.tools.repair import (
    repaired_answer,
    repaired_contents,
    repaired_entry,
    repaired_greeting,
    repaired_page,
    repaired_prompt,
    repaired_questions,
)

from .metadata import REMEDY

_MOST_SAID: Final = 3  # faults in one complaint
_ROUNDS: Final = 4  # of leaving out what is wrong, and looking again
_WORDS: Final = {  # for the kinds of faults that the SDK reports
    "missing": "is missing",
    "model_type": "is not an object",
    "dict_type": "is not an object",
    "list_type": "is not a list",
    "string_type": "is not a text",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
}
_GREETINGS: Final = ("initialize", "server/discover")


class MalformedAnswer(GlyphoxaError):
    """An answer breaks the protocol; the message names the method, and the field."""

    @classmethod
    def of(
        cls, method: str, error: ValidationError, server: str = ""
    ) -> MalformedAnswer:
        """Return the error for the answer of ``server`` to ``method``."""
        whose = f"{server}'s" if server else "its"
        text = f"{whose} answer to {method} is not usable: {fault_of(error)}"
        return cls(f"{text}; {REMEDY}")


def repaired(
    method: str, params: Mapping[str, Any] | None, result: dict[str, Any]
) -> dict[str, Any]:
    """Return the result of a request, with what is plainly meant put right."""
    if is_input_required(result):
        return repaired_questions(result)
    if method == "tools/call":
        return repaired_answer(result)
    if method == "resources/read":
        return repaired_contents(result, (params or {}).get("uri"))
    if method == "prompts/get":
        return repaired_prompt(result)
    if method in _GREETINGS:
        return repaired_greeting(result)
    if method in LISTS:
        return repaired_page(LISTS[method], result)
    return result


def usable(method: str, version: str | None, result: dict[str, Any]) -> dict[str, Any]:
    """Return a valid result: blocks and entries that are not valid are left out.

    What was left out, and why, is a text in the ``_meta`` of the result.

    Raises:
      ValidationError: if nothing that could be used is left.
    """
    asks = is_input_required(result)
    validate = _validator(method, version or "", asks)
    if validate is None:
        return result
    if version in MODERN_PROTOCOL_VERSIONS and "resultType" not in result:
        result = result | {"resultType": "complete"}  # which is the default
    key = "content" if method == "tools/call" else LISTS.get(method)
    if key is not None and method != "tools/call":
        entries = result.get(key)
        if isinstance(entries, list):
            result = result | {key: [repaired_entry(entry) for entry in entries]}
    complaints: list[str] = []
    for _ in range(_ROUNDS):
        try:
            validate(result, by_name=False)
            break
        except ValidationError as error:
            less = None if key is None else _without(key, result, error)
            if less is None:
                raise
            complaints.append(fault_of(error))
            result = less
    else:
        validate(result, by_name=False)
    return complained(result, *complaints) if complaints else result


def complained(result: dict[str, Any], *texts: str) -> dict[str, Any]:
    """Return a result with complaints about it, for `complaint_of`."""
    meta = result.get("_meta") or {}
    said = [meta[COMPLAINT]] if COMPLAINT in meta else []
    text = "; ".join([*said, *texts[:_MOST_SAID]])
    return result | {"_meta": meta | {COMPLAINT: text}}


def _without(
    key: str, result: dict[str, Any], error: ValidationError
) -> dict[str, Any] | None:
    """Return the result without those of its parts that ``error`` is about.

    Returns None if that is not all of the error, or if nothing useful would be left.
    """
    faulty: set[int] = set()
    unstructured = False
    for fault in error.errors(include_url=False, include_input=False):
        place = _steps(fault["loc"])
        if place[:1] == [key] and len(place) > 1 and isinstance(place[1], int):
            faulty.add(place[1])
        elif place[:1] == ["structuredContent"]:
            unstructured = True
        else:
            return None
    kept = {
        k: v for k, v in result.items() if not unstructured or k != "structuredContent"
    }
    entries = result.get(key)
    if isinstance(entries, list):
        kept[key] = [x for number, x in enumerate(entries) if number not in faulty]
    if key == "content" and not kept.get(key) and "structuredContent" not in kept:
        return None
    return kept


def fault_of(error: ValidationError) -> str:
    """Return the fault that ``error`` reports, with its place: ``name: is missing``.

    Where one of several kinds is expected, that is the fault of the likeliest kind.
    """
    faults = error.errors(include_url=False, include_input=False)
    kinds: dict[tuple[Any, ...], list[Any]] = {}
    for fault in faults:
        steps = fault["loc"]
        upto = [n for n, step in enumerate(steps) if _is_kind(step)]
        kinds.setdefault(steps[: upto[-1] + 1] if upto else (), []).append(fault)
    likeliest = min(kinds.values(), key=len)
    fault = likeliest[0]
    place = ".".join(str(step) for step in _steps(fault["loc"]))
    said = _WORDS.get(fault["type"], str(fault["msg"]))
    if len(kinds) > 2 and all(
        any(x["loc"][-1] == "type" for x in k) for k in kinds.values()
    ):
        place = place.rpartition(".")[0] + ".type"
        said = "it is none of the kinds that MCP has"
    return f"{place}: {said}" if place else said


def _steps(place: tuple[int | str, ...]) -> list[int | str]:
    """Return a place without the names of the SDK's classes."""
    return [step for step in place if not _is_kind(step)]


def _is_kind(step: int | str) -> bool:
    return isinstance(step, str) and step[:1].isupper()


@lru_cache
def _validator(method: str, version: str, asks: bool) -> Callable[..., object] | None:
    """Return the validator of a result for a protocol version.

    None if the SDK knows no such result. The SDK's own function also serialises the
    result again, which takes time, and takes almost anything for a result that asks
    for input; ``asks`` says if it is one.
    """
    shape: Any = methods.SERVER_RESULTS.get((method, version))
    if not asks and isinstance(shape, UnionType):
        shape, *_ = get_args(shape)
    return None if shape is None else TypeAdapter(shape).validator.validate_python
