"""How much of a conversation is told: the rest goes from its oldest end."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.budget import MARK, estimate, fitted
from glyphoxa_trio.providers.llm import LLMRequest, Message, Verbatim
from glyphoxa_trio.tools.outcome import ToolCall

SYSTEM = Message(role="system", content="You are Bob. " * 10)


def turn(number: int, size: int, *, said: str = "Well.") -> list[Message]:
    call = ToolCall(f"c{number}", "look", "{}")
    return [
        Message(role="user", content=f"question {number}", name="Ann"),
        Message(role="assistant", calls=(call,)),
        Message(role="tool", content="x" * size, call_id=call.id, name="look"),
        Message(role="assistant", content=said),
    ]


def request(*turns: list[Message]) -> LLMRequest:
    last = Message(role="user", content="and now?", name="Ann")
    every = [message for one in turns for message in one]
    return LLMRequest(messages=(SYSTEM, *every, last))


def test_a_conversation_that_fits_is_left_alone() -> None:
    short = request(turn(1, 50))
    assert fitted(short, 4096) is short
    assert fitted(short, None) is short


def test_the_results_of_old_calls_go_first() -> None:
    long = request(*(turn(n, 3000) for n in range(4)))
    fit = fitted(long, 4096).messages
    results = [x.content for x in fit if x.role == "tool"]
    assert results == [MARK, MARK, "x" * 3000, "x" * 3000]
    assert len(fit) == len(long.messages)


def test_then_the_oldest_exchanges_and_never_the_prompt_or_the_question() -> None:
    long = request(*(turn(n, 10, said="So. " * 300) for n in range(20)))
    fit = fitted(long, 4096).messages
    assert fit[0] == SYSTEM
    assert fit[-1] == long.messages[-1]
    assert fit[1].content.startswith("question ")
    assert estimate(fit) < 4096
    kept = [x.content for x in fit if x.role == "user"][:-1]
    asked = [x.content for x in long.messages if x.role == "user"][:-1]
    assert kept == asked[-len(kept) :]


def test_what_belongs_to_the_turn_that_goes_on_stays() -> None:
    first, *rest = turn(9, 20_000)
    running = LLMRequest(messages=(SYSTEM, *turn(1, 10), first, *rest))
    fit = fitted(running, 2048).messages
    assert fit == (SYSTEM, first, *rest)


def test_the_beginning_stays_the_same_for_some_turns() -> None:
    # A prefix that changed in each turn would never be found in a server's cache.
    turns = [turn(n, 10, said="So. " * 100) for n in range(40)]
    beginnings = [
        fitted(request(*turns[:count]), 4096).messages[1].content
        for count in range(5, 40)
    ]
    assert len(set(beginnings)) <= len(beginnings) // 3


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 300)), max_size=12),
    st.integers(512, 9000),
)
def test_it_fits_whenever_the_rest_alone_fits(
    sizes: list[tuple[int, int]], most: int
) -> None:
    turns = [turn(n, a, said="So. " * b) for n, (a, b) in enumerate(sizes)]
    fit = fitted(request(*turns), most)
    free = min(1024, most // 4)
    least = estimate((SYSTEM, request().messages[-1]))
    assert estimate(fit.messages) <= max(most - free, least)
    owed: list[str] = []
    for message in fit.messages:
        owed += [call.id for call in message.calls]
        if message.role == "tool":
            owed.remove(message.call_id)
    assert owed == []


def test_what_a_model_wants_back_is_counted() -> None:
    plain = Message(role="assistant", content="Aye.")
    thought = attrs.evolve(plain, verbatim=Verbatim(model="m", content="x" * 3_000))
    assert estimate([thought]) == estimate([plain]) + 1_000
