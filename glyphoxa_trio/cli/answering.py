"""Questions of servers to the person at the terminal, in `play`."""

from __future__ import annotations

from typing import Any, Final

import trio

from glyphoxa_trio.mcp.questions import (
    Answer,
    AnswerWrong,
    QuestionField,
    ServerQuestion,
)
from glyphoxa_trio.tools.characters import visible

from .choosing import numbered
from .screen import Screen
from .terminal import InputLines

_MOST_TRIES: Final = 3
_MOST_SHOWN: Final = 50  # choices
_HINTS: Final = {
    "minimum": "from {}",
    "maximum": "up to {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters at most",
    "minItems": "{} or more",
    "maxItems": "{} at most",
    "format": "a {}",
}


async def answer_question(screen: Screen, question: ServerQuestion) -> Answer | None:
    """Show a question, and read a line for each field of its form.

    A line that does not fit its field is asked for again. Returns None if the person
    declines, or gives no usable answer. Cancelling it stops reading.
    """
    try:
        return await _answer(screen, question)
    except trio.Cancelled:
        screen.plain("")  # the line on which nobody answers any more
        raise
    finally:
        screen.pause()  # what was held back meanwhile is shown now


async def _answer(screen: Screen, question: ServerQuestion) -> Answer | None:
    lines = InputLines()
    screen.plain(f"the server {question.server} asks: {question.text}")
    screen.quiet("the answer goes to that server alone; /no declines")
    if not question.fields:
        opens = "will you open it, in a browser of yours? " if question.address else ""
        screen.prompt(f"  {opens}yes or no? [no] ")
        confirm, line = QuestionField("yes", kind="boolean"), await lines.next()
        try:
            return {} if line is not None and confirm.read(line) else None
        except AnswerWrong:
            return None
    answer: dict[str, Any] = {}
    for field in question.fields:
        for _ in range(_MOST_TRIES):
            _show(screen, field)
            line = await lines.next()
            if line is None or line.strip() == "/no":
                return None
            try:
                answer[field.name] = field.read(line)
            except AnswerWrong as error:
                screen.refuse(f"{error}; /no declines")
            else:
                break
        else:
            return None
    return answer


def _show(screen: Screen, field: QuestionField) -> None:
    """Show a field: its name, its choices if it has any, and what may be typed."""
    words = [field.title or visible(field.name)]
    if field.description:
        words.append(f"({field.description})")
    if field.choices:
        screen.plain(f"  {' '.join(words)}")
        for line in numbered(field.titles[:_MOST_SHOWN]):
            screen.plain(f"  {line}")
        if (more := len(field.choices) - _MOST_SHOWN) > 0:
            screen.plain(f"  and {more} more, which can be typed")
        words = ["one of them"]
    elif field.kind == "boolean":
        words.append("yes or no")
    if field.kind == "array":
        words.append("or several, with commas between them")
    limits = {**field.schema, **field.schema.get("items", {})}
    words += [say.format(limits[x]) for x, say in _HINTS.items() if x in limits]
    if field.default is not None:
        words.append(f"[{field.shown(field.default)}]")
    elif not field.required:
        words.append("[nothing]")
    screen.prompt(f"  {' '.join(words)}: ")
