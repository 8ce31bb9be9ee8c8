"""Handlers that run in processes of their own: ``@tool(isolated=True)``.

They are for code that cannot be stopped otherwise: that computes without end, holds the
interpreter, or crashes it. The process imports the function's module and calls it
there; at the end of the call's time it is killed. A crash, an endless loop or an
`os._exit` costs one call, and the next one gets another process.

Arguments and results travel as JSON, pictures as bytes. Of the `CallContext`, the names
and ids of the caller, its claim and the remaining times travel too.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final

import attrs

from glyphoxa_trio.apart import now, run_apart
from glyphoxa_trio.errors import said, words
from glyphoxa_trio.workers import WorkerDied, Workers, WorkersBusy, WorkFailed

from . import foreign
from .definition import (
    CallContext,
    SessionClaim,
    Tool,
    ToolError,
    ToolUnavailable,
)
from .outcome import Media, ToolResult
from .signature import called_here

MOST_AT_ONCE: Final = 2  # processes for one tool
MEMORY: Final = 2 << 30  # bytes of address space of each
# Limit of an answer's data, in bytes: the loop reads it. Media are not included.
LARGEST: Final = 256 * 2**10
_LARGEST_MEDIA: Final = 8 << 20
_SIZE: Final = 8  # bytes of the length of the data
_MAIN: Final = "__main__"


class IsolatedCrash(Exception):
    """The function failed in its process, or the process itself did."""


def place(function: Callable[..., Any]) -> tuple[str, str, str]:
    """Return where another process finds a function: module, file, and name in it.

    Raises:
      TypeError: if it cannot be found there; the message has the remedy.
    """
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", None)
    code = getattr(function, "__code__", None)
    remedy = "define it with `def` at the top level of a module"
    if isinstance(function, types.MethodType):
        what = f"{name} is bound to an object, which another process does not have"
    elif "<lambda>" in name:
        what = "a lambda has no name under which another process could find it"
    elif "<locals>" in name:
        what = f"{name} is defined inside another function, and may use its variables"
    elif not module or code is None:
        what = f"{name or function!r} has no module"
    else:
        return module, code.co_filename, name
    raise TypeError(f"isolated=True: {what}: {remedy}, or say blocking=True")


@attrs.define(eq=False)
class IsolatedHandler:
    """A `Tool.handler` that calls a function in a process. The processes start with the
    first calls, and end when they are idle, or with the run of trio."""

    _module: str
    _file: str
    _name: str
    _workers: dict[int, Workers] = attrs.field(factory=dict, init=False)

    async def __call__(
        self, arguments: Mapping[str, Any], context: CallContext
    ) -> ToolResult:
        """Call the function; a cancellation kills the process.

        Raises:
          ToolError, ToolUnavailable: as the function raises them.
          IsolatedCrash: for any other error.
        """
        asked = {
            "module": self._module,
            "file": self._file,
            "name": self._name,
            "arguments": dict(arguments),
            "npc": context.npc,
            "session": context.session,
            "tenant": context.tenant,
            "call_id": context.call_id,
            "claim": None if context.claim is None else attrs.astuple(context.claim),
            "left": _left(context.deadline),
            "awaited": _left(context.awaited_until),
        }
        workers = self._workers.setdefault(
            threading.get_ident(),
            Workers(
                "glyphoxa_trio.tools.isolated:serve",
                most=MOST_AT_ONCE,
                memory=MEMORY,
                largest=_SIZE + LARGEST + _LARGEST_MEDIA,
            ),
        )
        try:
            return _read(await workers.run(json.dumps(asked).encode()))
        except WorkersBusy as error:
            raise ToolUnavailable(words(error)) from None
        except WorkFailed as error:
            raise IsolatedCrash(words(error)) from None
        except WorkerDied as error:
            raise IsolatedCrash(f"the process of the tool failed: {error}") from None

    async def aclose(self) -> None:
        """End the processes of this thread's trio run."""
        workers = self._workers.pop(threading.get_ident(), None)
        if workers is not None:
            await workers.aclose()


def _left(moment: float) -> float | None:
    return None if moment == math.inf else max(0.0, moment - now())


def _read(answer: bytes) -> ToolResult:
    size = int.from_bytes(answer[:_SIZE])
    data, at = json.loads(answer[_SIZE : _SIZE + size]), _SIZE + size
    if "no" in data:
        raise ToolError(data["no"])
    if "away" in data:
        raise ToolUnavailable(data["away"])
    if "crash" in data:
        raise IsolatedCrash(data["crash"])
    media = []
    for mime, length in data["media"]:
        media.append(Media(mime, answer[at : at + length]))
        at += length
    return ToolResult(
        text=tuple(data["text"]),
        structured=data["structured"],
        is_error=data["is_error"],
        media=tuple(media),
        links=tuple(data["links"]),
    )


# The functions below run in the process.


def serve(task: bytes) -> bytes:
    """Call the function that a task names, and return its result or error."""
    asked = json.loads(task)
    blobs: list[bytes] = []
    end: dict[str, Any]
    try:
        result = run_apart(lambda _: _called(asked))
        blobs = [item.data for item in result.media]
        end = {
            "text": result.text,
            "structured": result.structured,
            "is_error": result.is_error,
            "media": [(item.mime, len(item.data)) for item in result.media],
            "links": result.links,
        }
    except ToolError as error:
        end = {"no": words(error)}
    except ToolUnavailable as error:
        end = {"away": words(error)}
    except Exception as error:  # border: the function is foreign code
        end = {"crash": said(error)}
    data = json.dumps(end).encode()
    if len(data) > LARGEST or sum(map(len, blobs)) > _LARGEST_MEDIA:
        data, blobs = _too_much(), []
    return b"".join([len(data).to_bytes(_SIZE), data, *blobs])


def _too_much() -> bytes:
    text = (
        f"its result has more than {LARGEST >> 10} KiB of data, or more than"
        f" {_LARGEST_MEDIA >> 20} MiB of media"
    )
    return json.dumps({"crash": text}).encode()


async def _called(asked: Mapping[str, Any]) -> ToolResult:
    function = _found(asked["module"], asked["file"], asked["name"])
    moment = now()
    context = CallContext(
        npc=asked["npc"],
        session=asked["session"],
        tenant=asked["tenant"],
        call_id=asked["call_id"],
        deadline=math.inf if asked["left"] is None else moment + asked["left"],
        awaited_until=math.inf
        if asked["awaited"] is None
        else moment + asked["awaited"],
        claim=None if asked["claim"] is None else SessionClaim(*asked["claim"]),
    )
    value: Any = function(asked["arguments"], context)
    return foreign.result(await value if isawaitable(value) else value)


def _found(module: str, file: str, name: str) -> Callable[..., Awaitable[Any] | Any]:
    """Return a callable that calls the function with arguments and a context."""
    if module != _MAIN and importlib.util.find_spec(module) is not None:
        found: Any = importlib.import_module(module)
    else:  # a program, or a file that was loaded by its path
        alias = f"_isolated_{abs(hash(file))}"
        found = sys.modules.get(alias)
        if found is None:
            spec = importlib.util.spec_from_file_location(alias, file)
            if spec is None or spec.loader is None:
                raise ImportError(f"no module {module!r}")
            found = sys.modules[alias] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(found)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, Tool):
        found = found.function
    return called_here(found)
