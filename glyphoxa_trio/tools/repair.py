"""Repairs of what servers send, where it is plain what they mean. No I/O.

PHP writes an empty object as ``[]``, and a list with a gap as an object with numbers
for keys; many languages write ``null`` for what is absent; some servers write one text
or one block where a list of blocks belongs. A value that needs no repair is returned
unchanged. Nothing is guessed: what remains odd is left to the check that follows.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from typing import Any, Final

_DEEPEST: Final = 60  # levels of a schema; a deeper one is refused later

# Keywords of a schema, by what belongs there.
_MAPS: Final = frozenset(
    {
        "properties",
        "patternProperties",
        "$defs",
        "definitions",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
    }
)
_SCHEMAS: Final = frozenset(
    {
        "items",
        "additionalItems",
        "additionalProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contains",
        "propertyNames",
        "contentSchema",
        "not",
        "if",
        "then",
        "else",
    }
)
_LISTS_OF_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_LISTS: Final = frozenset({"required", "enum", "examples"})
_VALUES: Final = frozenset({"const", "default"})  # null is a value of these

# Members of a tool, resource or prompt, and of their content, that may be absent.
_OPTIONAL_OBJECTS: Final = ("annotations", "_meta", "execution", "outputSchema")
_OPTIONAL_TEXTS: Final = ("title", "description", "mimeType")

# Media types of text, apart from ``text/*``.
_TEXT: Final = re.compile(
    r"text/.+|.+\+(json|xml|yaml)"
    r"|application/(x-)?(json|json5|json-lines|jsonl|ndjson|xml|yaml|yml|toml|csv"
    r"|markdown|javascript|ecmascript|typescript|sql|graphql|sh|xhtml)"
)
_CHARSETS: Final = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[lb]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rut]|gbk|gb2312"
    r"|gb18030|big5|shift_jis|euc_(jp|kr)|mac-roman"
)
_BYTE_ORDERS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


def repaired_tool(tool: Any) -> Any:
    """Return a tool of a server's list, repaired."""
    if not isinstance(tool, dict):
        return tool
    tool = _without_absent(tool)
    # Icons are not shown, and checking each of them takes time.
    tool.pop("icons", None)
    schema = repaired_schema(_emptied(tool.get("inputSchema")))
    if schema is None:
        schema = {}
    if isinstance(schema, dict) and "type" not in schema:
        schema = {"type": "object", **schema}
    tool["inputSchema"] = schema
    if "outputSchema" in tool:
        tool["outputSchema"] = repaired_schema(tool["outputSchema"])
    return tool


def repaired_entry(entry: Any) -> Any:
    """Return a resource, a template or a prompt of a server's list, repaired."""
    if not isinstance(entry, dict):
        return entry
    entry = _without_absent(entry)
    entry.pop("icons", None)
    if "arguments" in entry:
        listed = _listed(entry["arguments"])
        entry["arguments"] = (
            [_without_absent(x) if isinstance(x, dict) else x for x in listed]
            if isinstance(listed, list)
            else listed
        )
    return entry


def repaired_page(key: str, page: dict[str, Any]) -> dict[str, Any]:
    """Return a page of a server's list, whose entries are under ``key``, repaired.

    The entries themselves are not.
    """
    if key not in page:
        return page
    entries = _listed(page[key])
    if entries is page[key] and not any(
        page.get(name, "") in (None, [], {}) for name in ("_meta", "nextCursor")
    ):
        return page
    kept = {
        name: value
        for name, value in page.items()
        if not (name in ("_meta", "nextCursor") and value in (None, [], {}))
    }
    return kept | {key: entries}


def repaired_greeting(greeting: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a handshake, repaired: its capabilities, and its names."""
    greeting = {
        key: value
        for key, value in greeting.items()
        if value is not None and not (key in ("_meta", "serverInfo") and value == [])
    }
    if isinstance(offered := _emptied(greeting.get("capabilities")), dict):
        offered = {k: _emptied(v) for k, v in offered.items() if v is not None}
        inner = offered.get("experimental")
        if isinstance(inner, dict):
            offered["experimental"] = {k: _emptied(v) for k, v in inner.items()}
    greeting["capabilities"] = {} if offered is None else offered
    about = greeting.get("serverInfo", {})
    if isinstance(about, dict):
        named = {k: v for k, v in about.items() if v is not None and k != "icons"}
        greeting["serverInfo"] = {"name": "", "version": "", **named}
    return greeting


def repaired_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a call, repaired, if it has anything that can be used."""
    content = answer.get("content")
    whole = isinstance(content, list) and all(
        isinstance(block, dict) and _is_whole(block) for block in content
    )
    if whole and None not in answer.values() and answer.get("_meta") != []:
        return answer
    answer = {
        key: value
        for key, value in answer.items()
        if value is not None and not (key == "_meta" and value == [])
    }
    if content is None and not (
        "structuredContent" in answer or answer.get("isError") is True
    ):
        return answer
    blocks = [content] if isinstance(content, str) else _listed(content)
    if isinstance(blocks, dict):
        blocks = [blocks]
    if isinstance(blocks, list):
        answer["content"] = [_block(block) for block in blocks]
    return answer


def repaired_contents(answer: dict[str, Any], uri: object) -> dict[str, Any]:
    """Return the result of reading the resource ``uri``, repaired."""
    contents = answer.get("contents")
    if contents is None:
        return answer
    if isinstance(contents, str):
        contents = [{"text": contents}]
    parts = _listed(contents)
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, list):
        return answer
    named = [
        {"uri": uri, **_without_absent(part)} if isinstance(part, dict) else part
        for part in parts
    ]
    kept = {k: v for k, v in answer.items() if not (k == "_meta" and not v)}
    return kept | {"contents": named}


def repaired_prompt(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a prompt that was filled in, repaired: the roles and blocks of its
    messages."""
    messages = answer.get("messages")
    if isinstance(messages, str):
        messages = [messages]
    if isinstance(messages := _listed(messages), dict):
        messages = [messages]
    if answer.get("messages") is None or not isinstance(messages, list):
        return answer
    kept = {k: v for k, v in answer.items() if v is not None and v != []}
    return kept | {"messages": [_message(one) for one in messages]}


def repaired_questions(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the questions with which a server answers a request, repaired."""
    answer = {key: value for key, value in answer.items() if value is not None}
    asked = _emptied(answer.get("inputRequests"))
    if not isinstance(asked, dict):
        return answer
    return answer | {"inputRequests": {k: _question(x) for k, x in asked.items()}}


def _question(request: Any) -> Any:
    params = request.get("params") if isinstance(request, dict) else None
    if not isinstance(params, dict) or request.get("method") != "elicitation/create":
        return request
    params = {key: value for key, value in params.items() if value is not None}
    form = repaired_schema(_emptied(params.get("requestedSchema")))
    if isinstance(form, dict | None) and params.get("mode", "form") == "form":
        whole = {"type": "object", "properties": {}} | (form or {})
        params = {"message": "", **params, "requestedSchema": whole}
    return request | {"params": params}


def _message(message: Any) -> Any:
    if isinstance(message, str):
        message = {"content": message}
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    return {"role": "user", **message, "content": _block(content)}


def repaired_schema(schema: Any, _level: int = 0) -> Any:
    """Return a JSON schema whose empty objects are objects, and its lists lists."""
    if not isinstance(schema, dict) or _level > _DEEPEST:
        return schema
    deeper = _level + 1
    repaired: dict[str, Any] = {}
    for key, value in schema.items():
        if value is None and key not in _VALUES:
            continue
        if key in _LISTS:
            value = _listed(value)
        elif key in _MAPS:
            value = _emptied(value)
            if isinstance(value, dict) and key != "dependentRequired":
                value = {
                    name: repaired_schema(_emptied(one), deeper)
                    for name, one in value.items()
                }
        elif key in _SCHEMAS:
            value = _emptied(value)
            value = (
                [repaired_schema(_emptied(one), deeper) for one in value]
                if isinstance(value, list)
                else repaired_schema(value, deeper)
            )
        elif key in _LISTS_OF_SCHEMAS:
            value = _listed(value)
            if isinstance(value, list):
                value = [repaired_schema(_emptied(one), deeper) for one in value]
        repaired[key] = value
    return repaired


def texts_of_blobs(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the text of each resource that was sent as a ``blob``.

    A blob whose media type is not one of text, or that is not text in its character
    set, stays a blob.
    """
    for key in ("content", "contents"):
        blocks = answer.get(key)
        if not isinstance(blocks, list):
            continue
        decoded = [_with_text(block, inside=key == "content") for block in blocks]
        if any(one is not block for one, block in zip(decoded, blocks, strict=True)):
            answer = answer | {key: decoded}
    if isinstance(messages := answer.get("messages"), list):
        answer = answer | {
            "messages": [
                one | {"content": _with_text(one.get("content"), inside=True)}
                if isinstance(one, dict)
                else one
                for one in messages
            ]
        }
    return answer


def text_of_blob(mime: object, blob: object) -> str | None:
    """Return the text in base64 data of a media type; None if it is not text."""
    if not isinstance(mime, str) or not isinstance(blob, str):
        return None
    kind, *parameters = (part.strip().lower() for part in mime.split(";"))
    if not _TEXT.fullmatch(kind):
        return None
    charset = next(
        (p[8:].strip("\"' ") for p in parameters if p.startswith("charset=")), ""
    )
    try:
        letters = "".join(blob.split()).replace("-", "+").replace("_", "/").rstrip("=")
        data = base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True)
        name = codecs.lookup(charset).name if charset else ""
        if charset and not _CHARSETS.fullmatch(name):
            return None
        # Its first bytes may say which it is.
        marked = next((x for mark, x in _BYTE_ORDERS if data.startswith(mark)), "")
        text = data.decode(marked or name or "utf-8").removeprefix("\ufeff")
    except (binascii.Error, ValueError, LookupError):
        return None
    return None if _BINARY.search(text) else text


def _with_text(block: Any, *, inside: bool) -> Any:
    """Return a block, or a part of a resource, with the text of its blob."""
    resource = block
    if inside:
        resource = block.get("resource") if isinstance(block, dict) else None
    if not isinstance(resource, dict) or isinstance(resource.get("text"), str):
        return block
    text = text_of_blob(resource.get("mimeType"), resource.get("blob"))
    if text is None:
        return block
    read = {key: value for key, value in resource.items() if key != "blob"}
    read["text"] = text
    return block | {"resource": read} if inside else read


def _block(block: Any) -> Any:
    """Return a block of an answer, repaired."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    block = _without_absent(block)
    if "type" not in block and isinstance(block.get("text"), str):
        block["type"] = "text"
    if isinstance(resource := block.get("resource"), dict):
        block["resource"] = _without_absent(resource)
    if block.get("type") == "resource_link" and isinstance(block.get("uri"), str):
        block = {"name": block["uri"]} | block
    return block


def _is_whole(block: dict[str, Any]) -> bool:
    """Return whether a block needs no repair, as almost all."""
    inner = block.get("resource")
    if block.get("type") == "resource_link" and "name" not in block:
        return False
    return "type" in block and not any(
        one.get(key, "") in (None, [], {})
        for one in ((block, inner) if isinstance(inner, dict) else (block,))
        for key in ("annotations", "_meta", "mimeType", "text")
    )


def _without_absent(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without those members that are absent, but written."""
    return {
        key: value
        for key, value in entry.items()
        if value is not None
        and not (key in _OPTIONAL_OBJECTS and value in ([], {}))
        and not (key in _OPTIONAL_TEXTS and value in ([], {}))
    }


def _emptied(value: Any) -> Any:
    """Return ``{}`` for the ``[]`` that PHP writes where an object belongs."""
    return {} if value == [] else value


def _listed(value: Any) -> Any:
    """Return the list that PHP has written as an object, or left out as ``null``."""
    if value is None:
        return []
    if isinstance(value, dict) and all(key.isdecimal() for key in value):
        return list(value.values())
    return value
