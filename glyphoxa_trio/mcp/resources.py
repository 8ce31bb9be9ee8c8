"""A server's resources as two additional tools: one lists them, one reads them.

A server that has a resource or a template gets `list_resources` and `read_resource` in
its list of tools, so that granting, approving, showing, timing and calling work for
them as for its own tools. Many servers announce resources and have none, so the server
is asked for the first page when its tools are listed. No I/O, except for the requests,
which the session sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from glyphoxa_trio.tools.arguments import cut
from glyphoxa_trio.tools.condense import COMPLAINT, TRUNCATED
from glyphoxa_trio.tools.naming import LIST_RESOURCES, READ_RESOURCE

from .bounds import MOST_ENTRIES

MOST_SHOWN: Final = 50  # of one kind, in an answer
_MOST_PAGES: Final = 50
_MOST_LOOKED_AT: Final = MOST_ENTRIES
_DESCRIPTION: Final = 120  # characters of a description
_LINE: Final = 500  # characters of an address or a name

# A resource may be a web page: only the server knows what it reaches.
_HINTS: Final = {"readOnlyHint": True, "openWorldHint": True}

TOOLS: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "name": LIST_RESOURCES,
        "description": (
            "List what this server offers to read: documents and data, each with its"
            " URI, and templates of URIs."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "contains": {
                    "type": "string",
                    "description": (
                        "Only those with this text in URI, name or description."
                    ),
                }
            },
            "additionalProperties": False,
        },
        "annotations": _HINTS,
    },
    {
        "name": READ_RESOURCE,
        "description": (
            "Read a document or data of this server by its URI: one that was listed,"
            " or linked in an answer of this server."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"uri": {"type": "string", "minLength": 1}},
            "required": ["uri"],
            "additionalProperties": False,
        },
        "annotations": _HINTS,
    },
)
"""The two tools, as a server would list them."""

READER: Final = TOOLS[1]

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""A function that sends a request, by method and parameters, and returns the answer.

The answer is empty if the server does not support a method that lists something.
"""


KINDS: Final = (
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
)
"""The methods that list something to read, and the key of its entries."""


async def are_any(ask: Ask) -> bool:
    """Return whether the server has something to read.

    ``ask`` sends the requests. Only the first pages are read.
    """
    for method, key in KINDS:
        page = await ask(method, {})
        if page.get(key) or page.get("nextCursor"):
            return True
    return False


def missing_from(
    tools: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return those of `TOOLS` whose names are free, and a note about each other one."""
    taken = {tool.get("name") for tool in tools}
    free = [tool for tool in TOOLS if tool["name"] not in taken]
    notes = [
        f"{tool['name']}: the server has a tool of that name, so none is added for its"
        " resources"
        for tool in TOOLS
        if tool["name"] in taken
    ]
    return free, notes


async def call(name: str, arguments: Mapping[str, Any], ask: Ask) -> Mapping[str, Any]:
    """Answer a call of one of `TOOLS`, as a plain CallToolResult.

    ``ask`` sends the requests to the server.
    """
    if name == READ_RESOURCE:
        return await _read(arguments["uri"], ask)
    return await _list(arguments.get("contains", ""), ask)


async def _read(uri: str, ask: Ask) -> Mapping[str, Any]:
    """Read one resource."""
    answer = await ask("resources/read", {"uri": uri})
    contents, meta = answer.get("contents"), answer.get("_meta")
    parts = contents if isinstance(contents, list) else []
    if not parts:
        return {"content": [{"type": "text", "text": "The resource is empty."}]}
    cut_short = isinstance(meta, Mapping) and meta.get(TRUNCATED) is True
    return {
        "content": [{"type": "resource", "resource": part} for part in parts],
        "_meta": {TRUNCATED: cut_short},
    }


async def _list(contains: str, ask: Ask) -> Mapping[str, Any]:
    """List resources and templates; ``contains`` selects some of them."""
    answer: dict[str, Any] = {}
    said: list[str] = []
    for (method, key), word, address in zip(
        KINDS, ("resources", "templates"), ("uri", "uriTemplate"), strict=True
    ):
        offered, all_of_them, complaints = await _pages(method, key, ask)
        entries = [_entry(each, address) for each in offered]
        fitting = [each for each in entries if _has(contains, each)]
        answer[word] = fitting[:MOST_SHOWN]
        more = "" if all_of_them else " or more"
        some = f"{len(fitting)} of " if contains else ""
        plural = word if len(entries) != 1 else word.removesuffix("s")
        said.append(f"{some}{len(entries)}{more} {plural}")
        if len(fitting) > MOST_SHOWN:
            said[-1] += f", the first {MOST_SHOWN} of them shown"
        if complaints:
            said[-1] += f", others left out ({complaints})"
    text = "; ".join(said)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer}


async def _pages(method: str, key: str, ask: Ask) -> tuple[list[Any], bool, str]:
    """Return the entries of all pages, within limits.

    Returns also whether these are all, and what was wrong with those left out.
    """
    found: list[Any] = []
    wrong = ""
    cursors: set[str] = set()
    cursor: Any = None
    while True:
        page = await ask(method, {"cursor": cursor} if cursor else {})
        entries = page.get(key)
        found += [x for x in entries or () if isinstance(x, Mapping)]
        cursor = page.get("nextCursor")
        wrong = wrong or str((page.get("_meta") or {}).get(COMPLAINT, ""))
        if not cursor:
            return found, True, wrong
        # If a cursor comes again, the pages go round in a circle.
        if cursor in cursors or len(cursors) + 1 >= _MOST_PAGES:
            return found[:_MOST_LOOKED_AT], False, wrong
        if len(found) >= _MOST_LOOKED_AT:
            return found[:_MOST_LOOKED_AT], False, wrong
        cursors.add(cursor)


def _entry(offered: Mapping[str, Any], address: str) -> dict[str, Any]:
    """Return an entry of the list, as a model reads it."""
    entry: dict[str, Any] = {"uri": cut(str(offered.get(address, "")), _LINE)}
    if name := offered.get("title") or offered.get("name"):
        entry["name"] = cut(str(name), _LINE)
    if description := offered.get("description"):
        entry["description"] = cut(str(description), _DESCRIPTION)
    for theirs, ours in (("mimeType", "mime_type"), ("size", "size")):
        if offered.get(theirs) is not None:
            entry[ours] = offered[theirs]
    return entry


def _has(text: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an entry contains ``text``, in any case."""
    wanted = text.casefold()
    where = ("uri", "name", "description")
    return any(wanted in str(entry.get(key, "")).casefold() for key in where)
