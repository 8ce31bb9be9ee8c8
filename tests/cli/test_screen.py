"""The screen of `play`: what is told beside the talk comes into no open question."""

from __future__ import annotations

import io

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.cli import answering
from glyphoxa_trio.cli.console import SafeConsole
from glyphoxa_trio.cli.screen import Screen
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.mcp.questions import Answer, QuestionField, ServerQuestion

FORM = (QuestionField("colour"), QuestionField("amount", kind="integer"))


class Lines:
    """A person who types these lines, one in ten seconds."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    async def next(self) -> str:
        await trio.sleep(10)
        return self.lines.pop(0)


def screen() -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(SafeConsole(file=out, width=100), interactive=True), out


def warn(screen: Screen, text: str) -> None:
    screen.warn(ServerWarning(server="odd", text=text))
    screen.aside(f"then {text}")


async def test_no_prompt_of_a_question_is_broken_into(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    lines = Lines("red", "many", "2")
    monkeypatch.setattr(answering, "InputLines", lambda: lines)
    shown, out = screen()
    got: list[Answer | None] = []

    async def ask() -> None:
        question = ServerQuestion("odd", "Which colour?", FORM)
        got.append(await answering.answer_question(shown, question))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        for prompt in ("colour", "amount", "amount"):
            await trio.sleep(5)
            before = out.getvalue()
            assert prompt in before.splitlines()[-1]
            warn(shown, "late")
            assert out.getvalue() == before
            await trio.sleep(5)
            await wait_all_tasks_blocked()
    assert got == [{"colour": "red", "amount": 2}]
    assert out.getvalue().count("! odd: late\n") == 3
    warn(shown, "at once")
    assert out.getvalue().endswith("! odd: at once\nthen at once\n")


async def test_a_question_that_nobody_waits_for_ends_its_line(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(answering, "InputLines", lambda: Lines("yes"))
    shown, out = screen()
    with trio.move_on_after(5):
        await answering.answer_question(shown, ServerQuestion("odd", "Really?"))
    shown.speak("Bo", "Well.")
    assert out.getvalue().endswith("yes or no? [no] \nBo: Well.")
    warn(shown, "beside")
    assert "beside" not in out.getvalue()  # nor into an answer
    shown.pause()
    assert out.getvalue().endswith("Bo: Well.\n! odd: beside\nthen beside\n")
