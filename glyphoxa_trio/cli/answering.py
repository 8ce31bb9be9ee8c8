"""Questions of servers to the person at the terminal, in `play`."""

from __future__ import annotations

from typing import Any, Final

from glyphoxa_trio.mcp.questions import Answer, QuestionField, ServerQuestion

from .screen import Screen
from .terminal import InputLines

_MOST_TRIES: Final = 3
_YES: Final = ("yes", "y", "true")
_NO: Final = ("no", "n", "false")


async def answer_question(screen: Screen, question: ServerQuestion) -> Answer | None:
    """Show a question, and read a line for each field of its form.

    Returns None if the person declines, or gives no usable answer. Cancelling it stops
    reading.
    """
    lines = InputLines()
    screen.plain(f"the server {question.server} asks: {question.text}")
    screen.quiet("the answer goes to that server alone; /no declines")
    if not question.fields:
        screen.prompt("  yes or no? [no] ")
        line = await lines.next()
        return {} if line is not None and line.strip().lower() in _YES else None
    answer: dict[str, Any] = {}
    for field in question.fields:
        for _ in range(_MOST_TRIES):
            screen.prompt(f"  {_label(field)}: ")
            line = await lines.next()
            if line is None or line.strip() == "/no":
                return None
            try:
                answer[field.name] = _read(field, line.strip())
            except ValueError as error:
                screen.refuse(str(error))
            else:
                break
        else:
            return None
    return answer


def _label(field: QuestionField) -> str:
    """Return what is shown of a field."""
    words = [field.title or field.name]
    if field.description:
        words.append(f"({field.description})")
    if field.choices:
        words.append(f"one of {', '.join(field.choices)}")
    elif field.kind == "boolean":
        words.append("yes or no")
    if field.default is not None:
        words.append(f"[{field.default}]")
    elif not field.required:
        words.append("[nothing]")
    return " ".join(words)


def _read(field: QuestionField, line: str) -> Any:
    """Return the value in a line; None for an optional field that is left out.

    Raises:
      ValueError: with a text for the person.
    """
    if not line:
        if field.default is not None or not field.required:
            return field.default
        raise ValueError("it needs a value; /no declines")
    if field.kind == "array":
        values = [x.strip() for x in line.split(",") if x.strip()]
        return [_chosen(field, x) for x in values]
    if field.choices:
        return _chosen(field, line)
    if field.kind == "boolean":
        if line.lower() in (*_YES, *_NO):
            return line.lower() in _YES
        raise ValueError("answer yes or no")
    try:
        if field.kind == "integer":
            return int(line)
        if field.kind == "number":
            return float(line)
    except ValueError:
        raise ValueError("it must be a number") from None
    return line


def _chosen(field: QuestionField, text: str) -> str:
    if text in field.choices:
        return text
    raise ValueError(f"it must be one of {', '.join(field.choices)}")
