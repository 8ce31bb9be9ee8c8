"""The history that a model is shown: bounded, honest, and never out of protocol."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glyphoxa_trio.npc.conversation import Conversation, Exchange, Round
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolCall

from .support import call, protocol_faults

OPENING = (Message(role="system", content="You are Bob."),)


def outcome(of: ToolCall, status: Status = Status.OK, message: str = "yes") -> Outcome:
    return Outcome(call=of, tool=f"test.{of.name}", status=status, message=message)


def exchange(
    text: str = "hi", *said: str, heard: int = 0, calls: tuple[ToolCall, ...] = ()
) -> Exchange:
    """A turn of one round."""
    made = Exchange("player", text)
    round_ = made.begin_round()
    round_.sentences.extend(said)
    round_.outcomes.extend(map(outcome, calls))
    for _ in range(heard):
        made.delivered(0)
    return made


def spoken(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def test_the_opening_stands_before_everything() -> None:
    conversation = Conversation(OPENING, 5)
    assert spoken(conversation.prompt(Exchange("Ann", "hi"))) == [
        ("system", "You are Bob."),
        ("user", "hi"),
    ]
    (_, user) = conversation.prompt(Exchange("Ann", "hi"))
    assert user.name == "Ann"


def test_the_oldest_beyond_the_limit_is_forgotten() -> None:
    conversation = Conversation((), 3)
    for n in range(10):
        conversation.add(exchange(f"question {n}"))
    assert len(conversation) == 3
    assert [text for _, text in spoken(conversation.prompt(exchange("now")))] == [
        "question 7",
        "question 8",
        "question 9",
        "now",
    ]


def test_a_limit_of_nothing_remembers_nothing() -> None:
    conversation = Conversation(OPENING, 0)
    conversation.add(exchange("before", "yes", heard=1))
    assert spoken(conversation.prompt(exchange("now")))[1:] == [("user", "now")]


def test_only_what_was_delivered_is_remembered() -> None:
    # D12a
    conversation = Conversation((), 5)
    past = exchange("hi", "One.", "Two.", "Three.", heard=2)
    conversation.add(past)
    assert spoken(conversation.prompt(exchange("now"))) == [
        ("user", "hi"),
        ("assistant", "One. Two."),
        ("user", "now"),
    ]
    assert (past.written, past.heard) == ("One. Two. Three.", "One. Two.")
    past.delivered(0)  # a slow listener hears on when the turn is long over
    assert ("assistant", "One. Two. Three.") in spoken(conversation.prompt(past))


def test_of_the_turn_that_goes_on_everything_is_told() -> None:
    # Its consumer may be slow; the model goes on from what it wrote itself.
    running = exchange("hi", "Let me see.", calls=(call("look"),))
    running.begin_round()
    assert spoken(Conversation((), 5).prompt(running)) == [
        ("user", "hi"),
        ("assistant", "Let me see."),
        ("tool", '{"message":"yes"}'),
    ]


def test_an_answer_that_came_after_a_prompt_is_in_the_next_one() -> None:
    conversation = Conversation((), 5)
    running = exchange("hi", calls=(call("look"),))
    assert len(conversation.prompt(running)) == 3
    running.rounds[0].outcomes.append(outcome(call("sing")))
    (_, assistant, *answers) = conversation.prompt(running)
    assert [made.name for made in assistant.calls] == ["look", "sing"]
    assert [answer.call_id for answer in answers] == ["call_look", "call_sing"]


def test_words_that_nobody_heard_go_but_their_calls_stay() -> None:
    # A call was made, and its answer is known, whatever was heard.
    conversation = Conversation((), 5)
    conversation.add(exchange("hi", "Let me see.", calls=(call("look"),)))
    conversation.add(exchange("hi again", "Never heard."))
    (_, assistant, tool, second, now) = conversation.prompt(exchange("now"))
    assert (assistant.content, assistant.calls) == ("", (call("look"),))
    assert (tool.role, tool.call_id, tool.name) == ("tool", "call_look", "look")
    assert (second.content, now.content) == ("hi again", "now")


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        '{"a": 1',
        "[1]",
        "7",
        "look at me",
        '{"a": NaN}',  # Python reads this, JSON does not have it
        '{"a": -Infinity}',
        '{"a": "\\ud800"}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_broken_arguments_are_echoed_inside_an_object(arguments: str) -> None:
    # Some servers refuse every later request for one broken call.
    running = exchange("hi", calls=(call("look", arguments),))
    (_, assistant, _) = Conversation((), 5).prompt(running)
    told = json.loads(assistant.calls[0].arguments)
    assert told["invalid_arguments"][:1_999] == arguments[:1_999]
    assert assistant.calls[0].id == "call_look"


@pytest.mark.parametrize("arguments", ["", "  ", "null"])
def test_no_arguments_are_echoed_as_an_empty_object(arguments: str) -> None:
    running = exchange("hi", calls=(call("look", arguments),))
    (_, assistant, _) = Conversation((), 5).prompt(running)
    assert assistant.calls[0].arguments == "{}"


def test_good_arguments_are_echoed_as_they_were_written() -> None:
    text = '{ "a": 1.0, "b": ["ü", null] }'
    running = exchange("hi", calls=(call("look", text),))
    (_, assistant, _) = Conversation((), 5).prompt(running)
    assert assistant.calls[0].arguments == text


def test_late_results_are_told_once_before_the_next_utterance() -> None:
    # D12a
    conversation = Conversation((), 5)
    late = Outcome(
        call=call("sing"),
        tool="test.sing",
        status=Status.TIMEOUT,
        effect=Effect.UNKNOWN,
        message="lost",
    )
    news = Exchange("player", "well?", late=(late, outcome(call("dance"))))
    told = spoken(conversation.prompt(news))
    assert told == [
        (
            "system",
            "\n".join(
                [
                    "What went on by itself has ended:",
                    'sing: {"status":"timeout","effect":"unknown","message":"lost"}',
                    'dance: {"message":"yes"}',
                ]
            ),
        ),
        ("user", "well?"),
    ]
    conversation.add(news)
    again = spoken(conversation.prompt(exchange("now")))
    assert again == [*told, ("user", "now")]  # it stays where it was, once


def test_a_long_late_result_is_cut() -> None:
    late = outcome(call("read"), message="word " * 5000)
    (news, _) = Conversation((), 5).prompt(Exchange("p", "hi", late=(late,)))
    assert len(news.content.encode()) < 2200
    assert "truncated" in news.content


ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', "", "{", "[]", '{"a": NaN}'])
calls = st.builds(
    call,
    st.sampled_from(["look", "sing", "no such tool"]),
    ARGUMENTS,
    id=st.sampled_from(["a", "b", "c"]),  # ids do repeat from round to round
)
outcomes = st.builds(outcome, calls, st.sampled_from(Status), st.text(max_size=5))


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    made = Exchange("player", draw(st.text(max_size=5)))
    made.late = tuple(draw(st.lists(outcomes, max_size=2)))
    for index in range(draw(st.integers(0, 3))):
        round_: Round = made.begin_round()
        round_.sentences.extend(draw(st.lists(st.sampled_from(["A.", "B!"]))))
        round_.outcomes.extend(draw(st.lists(outcomes, max_size=3)))
        # Interrupted at any place: nothing, a part, or all of it was heard.
        for _ in range(draw(st.integers(0, len(round_.sentences)))):
            made.delivered(index)
    return made


@given(st.lists(exchanges(), max_size=6), exchanges(), st.integers(0, 4))
def test_no_history_breaks_the_protocol_of_a_model(
    past: list[Exchange], current: Exchange, limit: int
) -> None:
    # Every assistant message with calls is followed by one tool message per call,
    # in order, before anything else; and all arguments are JSON objects.
    conversation = Conversation(OPENING, limit)
    for each in past:
        conversation.add(each)
    messages = conversation.prompt(current)
    assert protocol_faults(messages) == []
    for message in messages:
        for made in message.calls:
            value = json.loads(made.arguments, parse_constant=pytest.fail)
            assert isinstance(value, dict)
    users = [message.content for message in messages if message.role == "user"]
    remembered = past[-limit:] if limit else []
    assert users == [each.text for each in (*remembered, current)]
    words = "".join(m.content for m in messages if m.role == "assistant")
    expected = "".join(each.heard for each in remembered) + current.written
    assert words.replace(" ", "") == expected.replace(" ", "")


def test_what_is_added_between_two_tellings_is_told_once() -> None:
    going_on = exchange("hi", calls=(call("roll", id="a"),))
    conversation = Conversation((), 5)
    assert len(conversation.prompt(going_on)) == 3
    going_on.rounds[0].outcomes.append(outcome(call("roll", id="b")))
    _, asked, *answers = conversation.prompt(going_on)
    assert [echoed.id for echoed in asked.calls] == ["a", "b"]
    assert [answer.call_id for answer in answers] == ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["turn", "round", "line", "deliver", "call", "hear", "ask"]
            ),
            st.integers(0, 9),
        ),
        max_size=60,
    ),
    st.integers(0, 3),
    st.integers(0, 4),
)
@example([(x, 0) for x in ("round", "line", "turn", "ask", "deliver", "ask")], 3, 4)
@example([(x, 0) for x in ("hear", "turn", "turn", "ask", "hear", "hear")], 3, 2)
def test_what_is_kept_of_the_past_is_what_would_be_told_anew(
    steps: list[tuple[str, int]], limit: int, most_overheard: int
) -> None:
    conversation = Conversation(OPENING, limit, most_overheard)
    current = exchange("first")
    turns = [current]

    def anew() -> list[Message]:
        past = [x for x in turns[:-1] if x in conversation._past]
        told = [m for x in past for m in x.messages(heard_only=True)]
        return [*OPENING, *told, *current.messages(heard_only=False)]

    for what, number in steps:
        turn = turns[number % len(turns)]  # what was heard of the last may come late
        match what:
            case "turn":
                conversation.add(current)
                current = Exchange("Ann", f"{number}")
                conversation.tell_news(current)
                turns.append(current)
            case "round":
                current.begin_round()
            case "line" if current.rounds:
                current.rounds[-1].sentences.append(f"Line {number}.")
            case "deliver":
                for at, round_ in enumerate(turn.rounds):
                    if round_.delivered < len(round_.sentences):
                        turn.delivered(at)
                        break
            case "call" if current.rounds:
                current.rounds[-1].outcomes.append(outcome(call("look")))
            case "hear":
                conversation.overhear(Overheard("Odo", f"{number}"))
            case "ask":
                assert [*conversation.prompt(current)] == anew()
    assert [*conversation.prompt(current)] == anew()
