"""The stand-in: sensible calls for a demonstration, and never a wild one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.llm import (
    LLM,
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
)
from glyphoxa_trio.providers.offline import Offline, respond
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.search import SEARCH

TEXT: Mapping[str, Any] = {"type": "string"}


def spec(
    name: str, description: str, parameters: Mapping[str, Any], *required: str
) -> ToolSpec:
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    return ToolSpec(name=name, description=description, parameters=schema)


TABLES = {"type": "string", "enum": ["wild_magic", "treasure_hoard"]}
MOODS = {"enum": ["calm", "battle"], "default": "calm"}
TOOLS = (
    spec("roll", "Roll dice such as 2d6+3.", {"expression": TEXT}, "expression"),
    spec("roll_table", "Roll on a table.", {"table_name": TABLES}, "table_name"),
    spec("search_rules", "Search the rules.", {"query": TEXT, "system": TEXT}, "query"),
    spec("get_rule", "A specific rule by its ID.", {"id": TEXT}, "id"),
    spec(
        "write_file",
        "Write to a file.",
        {"path": TEXT, "content": TEXT},
        "path",
        "content",
    ),
    spec("read_file", "Read a file.", {"path": TEXT}, "path"),
    spec("search_facts", "Search for facts.", {"query": TEXT}, "query"),
    spec("query_entities", "Find entities by name.", {"name": TEXT, "type": TEXT}),
    spec("get_summary", "Snapshot of an entity.", {"entity_id": TEXT}, "entity_id"),
    spec("mcp__ledger__open_tab", "Open a tab.", {"patron": TEXT}, "patron"),
    spec("mcp__oracle__consult", "Ask the oracle.", {"question": TEXT}, "question"),
    spec(
        "play_music",
        "Play music.",
        {"mood": MOODS, "loud": {"type": "boolean"}},
        "mood",
    ),
    spec("stop_music", "Let the music fade out.", {}),
    spec("mcp__bar__pour", "Pour ale.", {"mugs": {"type": "integer"}}, "mugs"),
)
GRETA = Message(role="system", content="You are Greta Ironfoot, an innkeeper.")


def request(text: str, *more: Message, **fields: Any) -> LLMRequest:
    user = Message(role="user", content=text)
    return LLMRequest(messages=(GRETA, user, *more), **({"tools": TOOLS} | fields))


def calls(text: str, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    return [
        (event.call.name, json.loads(event.call.arguments))
        for event in respond(request(text, **fields))
        if isinstance(event, CallReady)
    ]


def said(events: list[LLMEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextChunk))


def told(*results: tuple[str, Any]) -> str:
    """What is said after these tools answered so."""
    asked = tuple(ToolCall(f"c{i}", name) for i, (name, _) in enumerate(results))
    answers = [
        Message(
            role="tool",
            call_id=f"c{i}",
            content=content if isinstance(content, str) else json.dumps(content),
        )
        for i, (_, content) in enumerate(results)
    ]
    turn = [Message(role="assistant", calls=asked), *answers]
    events = respond(request("roll 2d6 for me", *turn))
    assert not any(isinstance(event, CallReady) for event in events)
    return said(events)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("roll 2d6+3 for me", ("roll", {"expression": "2d6+3"})),
        ("Roll 4d6kh3 + 2!", ("roll", {"expression": "4d6kh3+2"})),
        ("a d20, please", ("roll", {"expression": "1d20"})),
        ("roll for perception", ("roll", {"expression": "1d20"})),
        ("what does blinded mean?", ("search_rules", {"query": "blinded"})),
        (
            "write 'hello' to notes.txt",
            ("write_file", {"path": "notes.txt", "content": "hello"}),
        ),
        (
            "save the shopping list to trips/list.md",
            ("write_file", {"path": "trips/list.md", "content": "the shopping list"}),
        ),
        ("read notes.txt", ("read_file", {"path": "notes.txt"})),
        ("roll on the wild magic table", ("roll_table", {"table_name": "wild_magic"})),
        ("open a tab for Greta", ("mcp__ledger__open_tab", {"patron": "Greta"})),
        (
            "\u201cConsult the oracle about the storm\u201d",
            (
                "mcp__oracle__consult",
                {"question": "Consult the oracle about the storm"},
            ),
        ),
        ("play some battle music", ("play_music", {"mood": "battle"})),
        ("stop the music", ("stop_music", {})),
        ("play some music", ("play_music", {"mood": "calm"})),
        ("pour 3 mugs of ale", ("mcp__bar__pour", {"mugs": 3})),
        ("pick a number from 3 to 8", ("roll", {"expression": "1d6+2"})),
        ("throw 3 eight-sided dice", ("roll", {"expression": "3d8"})),
        ("roll four d6, drop the lowest", ("roll", {"expression": "4d6kh3"})),
        ("a d20 with disadvantage, minus 2", ("roll", {"expression": "2d20kl1-2"})),
        ("roll -1d6", ("roll", {"expression": "-1d6"})),
        ("W\u00fcrfle bitte 2W6", ("roll", {"expression": "2d6"})),
        ("roll for treasure", ("roll_table", {"table_name": "treasure_hoard"})),
        ("what does notes.txt say?", ("read_file", {"path": "notes.txt"})),
        ("start a tab for Bo", ("mcp__ledger__open_tab", {"patron": "Bo"})),
        ("the rule for grappling?", ("search_rules", {"query": "grappling"})),
    ],
)
def test_what_is_asked_calls_the_tool_that_does_it(
    text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    assert calls(text) == [expected]


def test_what_was_rolled_is_rolled_again() -> None:
    rolled = ToolCall("c1", "roll", '{"expression": "3d6"}')
    before = Message(role="assistant", calls=(rolled,))
    events = respond(
        request("roll 3d6", before, Message(role="user", content="again!"))
    )
    assert [x.call.arguments for x in events if isinstance(x, CallReady)] == [
        rolled.arguments
    ]


def test_who_writes_on_a_tab_is_asked_for_and_then_known() -> None:
    before: tuple[Message, ...] = ()
    for text, expected in [
        ("open a tab for me", []),
        ("Rurik", [("mcp__ledger__open_tab", {"patron": "Rurik"})]),
    ]:
        user = Message(role="user", content=text, name="Player")
        events = respond(LLMRequest(messages=(GRETA, *before, user), tools=TOOLS))
        made = [x.call for x in events if isinstance(x, CallReady)]
        assert [(x.name, json.loads(x.arguments)) for x in made] == expected
        before = (user, Message(role="assistant", content=said(events)))


TALKS = (
    ("what does prone mean?", "and blinded?", ("search_rules", {"query": "blinded"})),
    ("where is Hilda?", "what about Otto?", ("query_entities", {"name": "Otto"})),
    ("pour some ale", "four mugs", ("mcp__bar__pour", {"mugs": 4})),
    (
        "show me a table",
        "the last one",
        ("roll_table", {"table_name": "treasure_hoard"}),
    ),
    ("roll 1d20", "again, with advantage", ("roll", {"expression": "2d20kh1"})),
    ("roll 1d8", "reroll that please", ("roll", {"expression": "1d8"})),
    ("hello", "grappling", ("search_rules", {"query": "grappling"})),
    (
        "hello",
        "who built the old abbey?",
        ("query_entities", {"name": "built old abbey"}),
    ),
)


@pytest.mark.parametrize(("first", "then", "expected"), TALKS)
def test_what_goes_on_from_the_line_before_is_read_with_it(
    first: str, then: str, expected: tuple[str, dict[str, Any]]
) -> None:
    answer = Message(role="assistant", content=said(respond(request(first))) or "5.")
    events = respond(request(first, answer, Message(role="user", content=then)))
    made = [x.call for x in events if isinstance(x, CallReady)]
    assert expected in [(x.name, json.loads(x.arguments)) for x in made]


def test_the_note_is_the_one_that_was_written() -> None:
    arguments = {"path": "ropes.txt", "content": "two ropes"}
    written = ToolCall("c1", "write_file", json.dumps(arguments))
    before = Message(role="assistant", calls=(written,))
    result = Message(role="tool", call_id="c1", content='{"data": {"bytes": 9}}')
    then = Message(role="user", content="read me the note")
    first, *_ = respond(request("note down: two ropes", before, result, then))
    assert isinstance(first, CallReady)
    assert json.loads(first.call.arguments) == {"path": "ropes.txt"}


FOREIGN = (
    spec("clock__current_time", "Time in a zone.", {"timezone": TEXT}, "timezone"),
    spec("clock__convert", "Convert time between zones.",
         {"source": TEXT, "time": TEXT, "target": TEXT}, "source", "time", "target"),
    spec("web__fetch", "Fetch a page by its URL.", {"url": TEXT}, "url"),
    spec("home__set_lamp", "Turn a lamp on or off in a room.",
         {"room": TEXT, "on": {"type": "boolean"}}, "room", "on"),
    spec("todo__add_task", "Add a task to the todo list.", {"title": TEXT}, "title"),
    spec("todo__list_tasks", "List all tasks.", {}),
    spec("air__measure", "Measure the air in a room.", {"room": TEXT}, "room"),
    spec("fs__list_directory", "List files and folders.", {"path": TEXT}, "path"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what time is it in Lima?", ("clock__current_time", {"timezone": "Lima"})),
        ("fetch https://a.example/b!", ("web__fetch", {"url": "https://a.example/b"})),
        ("turn on the lamp in the attic",
         ("home__set_lamp", {"room": "attic", "on": True})),
        ("put 'mend the net' on my todo list",
         ("todo__add_task", {"title": "mend the net"})),
        ("how is the air in the cellar?", ("air__measure", {"room": "cellar"})),
        ("list the files in maps", ("fs__list_directory", {"path": "maps"})),
    ],
)  # fmt: skip
def test_arguments_of_other_peoples_tools_are_read_by_their_names(
    text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    assert calls(text, tools=FOREIGN) == [expected]


def test_what_a_tool_has_made_is_meant_by_its_name_later() -> None:
    name, ids = {"name": TEXT}, {"campaign_id": TEXT}
    tools = (
        spec("campaign_create", "Create a campaign.", name, "name"),
        spec("set_context", "Choose the campaign.", ids, "campaign_id"),
        spec("campaign_get", "One campaign: its name.", ids),
    )
    made = ToolCall("c1", "campaign_create", '{"name": "Salt"}')
    result = json.dumps({"data": {"id": "camp_7", "name": "Salt"}})
    before = (
        Message(role="user", content="create a campaign called Salt"),
        Message(role="assistant", calls=(made,)),
        Message(role="tool", call_id="c1", content=result),
    )
    for text, expected in [
        ("open the campaign", "set_context"),
        ("tell me about Salt", "campaign_get"),
    ]:
        asked = (GRETA, *before, Message(role="user", content=text))
        events = respond(LLMRequest(messages=asked, tools=tools))
        (call,) = [x.call for x in events if isinstance(x, CallReady)]
        assert call.name == expected
        assert json.loads(call.arguments) == {"campaign_id": "camp_7"}


def test_one_question_may_be_put_to_several_tools_at_once() -> None:
    assert calls("what do you remember about the mayor?") == [
        ("query_entities", {"name": "mayor"}),
        ("search_facts", {"query": "mayor"}),
    ]


PAST = (
    spec("search_sessions", "Search what was said.", {"query": TEXT}, "query"),
    spec("query_entities", "Find entities by name.", {"name": TEXT, "type": TEXT}),
    spec("get_session_summary", "Tell of one.", {"session_id": TEXT}, "session_id"),
    spec("remember", "Remember one fact.", {"fact": TEXT}, "fact"),
)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("Do you remember the red dragon?", *("search_sessions", "red dragon")),
        ("What did I say about the dragon?", *("search_sessions", "dragon")),
        ("What did Aria tell you about the mill?", *("search_sessions", "mill")),
        ("Do you remember where I hid the crown?", *("search_sessions", "hid crown")),
        ("Have I ever mentioned 'the old mill'?", *("search_sessions", "the old mill")),
        ("What happened last time?", *("get_session_summary", "last")),
        ("Do you remember me?", *("get_session_summary", "last")),
        ("Remember that I owe you.", *("remember", "Aria said: I owe you.")),
        ("Bo, please remember: iron burns!", *("remember", "Aria said: iron burns!")),
    ],
)  # fmt: skip
def test_the_past_is_asked_of_memory(text: str, name: str, arguments: str) -> None:
    user = Message(role="user", content=text, name="Aria")
    events = respond(LLMRequest(messages=(GRETA, user), tools=(*TOOLS, *PAST)))
    asked = [x.call for x in events if isinstance(x, CallReady)]
    assert [(x.name, *json.loads(x.arguments).values()) for x in asked] == [
        (name, arguments)
    ]


def test_who_somebody_is_is_asked_of_what_is_known_and_was_said() -> None:
    assert calls("who is Greta?", tools=PAST) == [
        ("query_entities", {"name": "Greta"}),
        ("search_sessions", {"query": "Greta"}),
    ]
    nothing = {"status": "ok", "message": "I remember nothing of that."}
    known = {"status": "ok", "message": "Aria said today: Greta is my aunt."}
    assert told(("query_entities", nothing), ("search_sessions", known)) == (
        "Aria said today: Greta is my aunt."
    )
    assert "othing of that" in told(("a", nothing), ("b", nothing))


def test_nothing_is_remembered_that_it_is_not_told_to() -> None:
    for text in ("do you remember that day?", "I remember it well", "remember?"):
        assert "remember" not in [name for name, _ in calls(text, tools=PAST)]


def test_a_choice_is_read_where_other_text_is_taken_too() -> None:
    mode = {"anyOf": [{"enum": ["HUMAN", "AI", None]}, {"type": "string"}]}
    wanted = {"type": "object", "properties": {"mode": mode}, "required": ["mode"]}
    tool = ToolSpec(name="begin_game", description="", parameters=wanted)
    for text, mode_read in [("led by an AI", "AI"), ("led by a human", "HUMAN")]:
        first, *_ = respond(request(f"begin a game {text}", tools=(tool,)))
        assert isinstance(first, CallReady)
        assert json.loads(first.call.arguments) == {"mode": mode_read}


def test_an_id_that_is_said_is_of_what_must_be_named() -> None:
    ids = {name: {"type": "string"} for name in ("session_id", "game_id", "host_id")}
    for required, expected in [(["game_id"], "game_id"), ([], "session_id")]:
        wanted = {"type": "object", "properties": ids, "required": required}
        tool = ToolSpec(name="open_game", description="", parameters=wanted)
        first, *_ = respond(request("open the game camp_7a", tools=(tool,)))
        assert isinstance(first, CallReady)
        assert json.loads(first.call.arguments) == {expected: "camp_7a"}


def test_several_wishes_are_several_calls_in_their_order_three_at_most() -> None:
    wishes = "Open a tab for Bram and roll 1d6; then read 'a and b' or notes.txt"
    assert calls(wishes) == [
        ("mcp__ledger__open_tab", {"patron": "Bram"}),
        ("roll", {"expression": "1d6"}),
        ("read_file", {"path": "notes.txt"}),
    ]
    assert calls("roll 1d6 and roll 1d6") == [("roll", {"expression": "1d6"})]
    assert len(calls("roll 1d6, and roll 1d8, and roll 1d10, and roll 1d12")) == 3


@pytest.mark.parametrize(
    "text",
    [
        "hello there",
        "how was your day?",
        "open the door",
        "who are you?",
        "thank you!",
        "",
        "\0000\0",
    ],
)
def test_small_talk_calls_nothing(text: str) -> None:
    assert calls(text) == []


def test_ids_are_new_in_the_whole_conversation() -> None:
    before = Message(role="assistant", calls=(ToolCall("offline_1", "roll"),))
    again = Message(role="user", content="roll 1d6")
    first, _ = respond(request("roll 1d4", before, again))
    assert isinstance(first, CallReady)
    assert first.call.id == "offline_2"


CONFESSION = "I am the offline stand-in for Greta Ironfoot, not a language model."


def test_it_says_once_that_it_is_a_stand_in_before_its_first_own_words() -> None:
    first = said(respond(request("hello", tools=TOOLS[:2])))
    assert first.startswith(f"{CONFESSION} ")
    result = said(respond(request("roll 1d6", tools=())))
    assert result.startswith(CONFESSION)
    for greeting in ((), (Message(role="assistant", content="Sit!"),)):
        told = (*greeting, Message(role="user", content="hello"))
        past = (GRETA, *told, Message(role="assistant", content=first))
        more = Message(role="user", content="who are you?")
        asked = LLMRequest(messages=(*past, more), tools=TOOLS)
        assert "stand-in" not in said(respond(asked))
        assert "Greta Ironfoot" in said(respond(asked))


def test_forbidden_tools_are_not_called() -> None:
    events = respond(request("roll 2d6", tools_forbidden=True))
    assert said(events).startswith(CONFESSION)
    assert events[-1] == Finished(reason=FinishReason.STOP)


def test_calls_end_a_response_as_tool_calls() -> None:
    assert respond(request("roll 2d6"))[-1] == Finished(reason=FinishReason.TOOL_CALLS)


def test_results_are_spoken_in_the_order_of_the_calls() -> None:
    ok = {"status": "ok", "message": "You rolled 11", "data": {"total": 11}}
    data = {"status": "ok", "message": "", "data": {"table": "wild", "rolls": [1, 2]}}
    assert told(("roll", ok), ("roll_table", data), ("read_file", "plain words")) == (
        "You rolled 11. The table is wild and the rolls are 1 and 2. Plain words."
    )
    assert told(("roll", {"total": 7, "ok": True})) == "The total is 7."
    assert told(("roll", "")) == "There is nothing to be found."
    assert len(told(("read_file", "x" * 5000))) < 310


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"status": "timeout", "message": "x"}, "longer than you would wait"),
        ({"status": "skipped"}, "longer than you would wait"),
        ({"status": "cancelled"}, "I let open tab be"),
        ({"status": "denied"}, "not allowed"),
        ({"status": "unavailable"}, "amiss"),
        ({"status": "crashed"}, "amiss"),
        ({"status": "tool_error", "message": "no"}, "I cannot: no."),
        ({"status": "tool_error", "message": "Error: no ale left"}, ": no ale left."),
        ({"status": "invalid_arguments"}, "would not go"),
        ({"error": "no such patron"}, "I cannot: no such patron."),
        ({"status": "tool_error", "message": "Traceback (most …"}, "would not go"),
    ],
)
def test_what_did_not_work_is_said_honestly_and_in_words(
    result: object, words: str
) -> None:
    answer = told(("mcp__ledger__open_tab", result))
    assert words in answer
    assert "_" not in answer


@pytest.mark.parametrize(
    ("prompt", "own", "never"),
    [
        (
            "You are Ann. You keep bees. Secret: the well is dry. You fear it.",
            "I keep bees.",
            "well|fear",
        ),
        (
            "You are Ann, a smith.\n\nPersonality: Forges nails, and hates the rain.",
            "I forge nails, and hate the rain.",
            "Forges|hates",
        ),
        (
            "Name: Ann\n\nBackground: Born in a mill.\n\nRules:\n- Hit the bell.",
            "I was born in a mill.",
            "bell",
        ),
        (
            "You are Ann. You are secretly a wolf. Always rhyme. Ann runs the ferry.",
            "I run the ferry.",
            "wolf|rhyme",
        ),
        (
            "You are Ann.\n\nWho you are:\n- You are old.\n\nGM only: You rob bells.",
            "I am old.",
            "bells",
        ),
        (
            "You are a clerk of the Hotel Sol. Never name prices. You know the city.",
            "I (am a clerk of the Hotel Sol|know the city).",
            "prices",
        ),
    ],
)
def test_a_persona_speaks_of_itself_and_never_of_its_secrets(
    prompt: str, own: str, never: str
) -> None:
    messages = [Message(role="system", content=prompt)]
    answers = []
    for text in (
        "who are you?",
        "what do you do?",
        "where are we?",
        "any secrets?",
    ) * 2:
        messages.append(Message(role="user", content=text, name="Bo"))
        answers.append(said(respond(LLMRequest(messages=tuple(messages)))))
        messages.append(Message(role="assistant", content=answers[-1]))
    assert re.search(own, " ".join(answers)), answers
    assert not re.search(rf"\b(?:{never}|You are (?:Ann|a clerk))", " ".join(answers))


@pytest.mark.parametrize("npc", ["Bo", "Ada", "Bartok", "Mira", "Fenn", "Odo"])
def test_two_answers_tell_the_same_of_the_npc_once(npc: str) -> None:
    trait = "You are a halfling who runs the tavern."
    prompt = Message(role="system", content=f"You are {npc} the Barkeep. {trait}")
    for text in ("hi, who are you?", "hello there! who are you? where are we?"):
        asked = Message(role="user", content=text)
        answer = said(respond(LLMRequest(messages=(prompt, asked))))
        assert answer.count("halfling who runs the tavern") <= 1, answer


WORDS = st.sampled_from(
    [
        *("roll", "2d6+3", "d20", "and", "then", "the", "wild", "magic", "table", "'a"),
        *("b'", '"', "notes.txt", "write", "to", "for", "Greta", "?", ".", "3", "not"),
        *("remember", "mayor", "\0", "\0001\0", "rule", "condition-blinded", "open"),
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=6,
)
odd_schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "array", "boolean", "object"])
        | json_values,
        "enum": json_values,
        "const": json_values,
        "default": json_values,
        "minimum": json_values,
        "items": json_values,
    },
)
PARAMETER = st.sampled_from(
    ["expression", "query", "path", "content", "id", "name", "x"]
)
odd_tools = st.builds(
    lambda name, properties, required: ToolSpec(
        name=name,
        description="Roll, write and remember.",
        parameters={"type": "object", "properties": properties, "required": required},
    ),
    st.sampled_from(["roll", "write_file", "mcp__a__open_tab", "_", "rule"]),
    st.dictionaries(PARAMETER, odd_schemas | json_values, max_size=3) | json_values,
    st.lists(PARAMETER, max_size=2) | json_values,
)


@given(
    text=st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=60),
    tools=st.lists(odd_tools | st.sampled_from(TOOLS), max_size=6),
)
def test_whatever_is_said_it_calls_only_what_it_sees_and_each_once(
    text: str, tools: list[ToolSpec]
) -> None:
    asked = request(text, tools=tuple(tools))
    events = respond(asked)
    assert respond(asked) == events
    assert isinstance(events[-1], Finished)
    made = [event.call for event in events if isinstance(event, CallReady)]
    assert len(made) <= 3
    assert {call.name for call in made} <= {tool.name for tool in tools}
    assert len({(call.name, call.arguments) for call in made}) == len(made)
    assert len({call.id for call in made}) == len(made)
    assert all(isinstance(json.loads(call.arguments), dict) for call in made)
    assert bool(made) == (said(events) == "")


@given(st.text() | json_values.map(json.dumps))
def test_whatever_a_tool_answers_something_is_said(content: str) -> None:
    assert told(("roll", content))


@pytest.mark.parametrize(
    "text", ["and " * 5000, "'" * 5000, "a.b/" * 5000, "x " * 5000]
)
def test_of_a_long_utterance_only_the_beginning_is_heard(text: str) -> None:
    assert calls(f"{text} read notes.txt") == []


# Tools that have to be found first (N24 to N26)

FINDER = ToolSpec(
    name=SEARCH.name, description=SEARCH.description, parameters=SEARCH.parameters
)
LORE = spec("mcp__many__dragon", "Knows dragons.", {"topic": TEXT}, "topic")
LINES = Message(
    role="system",
    content="Load one.\n- mcp__many__dragon (many): Knows dragons.\n- mcp__x__y (x)",
)


def found_first(text: str, *more: Message, tools: tuple[ToolSpec, ...]) -> LLMRequest:
    user = Message(role="user", content=text)
    return LLMRequest(messages=(GRETA, LINES, user, *more), tools=tools)


def searched(content: str = "{}") -> tuple[Message, ...]:
    call = ToolCall("s1", SEARCH.name, '{"query": "dragon"}')
    return (
        Message(role="assistant", calls=(call,)),
        Message(role="tool", call_id="s1", content=content),
    )


def test_a_tool_that_is_told_of_in_a_line_is_searched_and_then_called() -> None:
    text = "ask a dragon about gold"
    first = respond(found_first(text, tools=(*TOOLS, FINDER)))
    (made,) = [event.call for event in first if isinstance(event, CallReady)]
    assert (made.name, json.loads(made.arguments)) == (SEARCH.name, {"query": text})
    loaded = (*TOOLS, FINDER, LORE)
    then = respond(found_first(text, *searched(), tools=loaded))
    (made,) = [event.call for event in then if isinstance(event, CallReady)]
    assert (made.name, json.loads(made.arguments)) == (LORE.name, {"topic": "gold"})


@pytest.mark.parametrize("text", ["search the room", "find a tool", "hello there"])
def test_the_search_for_tools_is_not_taken_for_a_tool_of_the_players(text: str) -> None:
    events = respond(found_first(text, tools=(FINDER,)))
    assert not any(isinstance(event, CallReady) for event in events)


def test_what_a_search_for_tools_answers_is_never_spoken_nor_searched_again() -> None:
    answer = '{"status": "ok", "message": "No tool fits these words"}'
    events = respond(found_first("a dragon", *searched(answer), tools=(FINDER,)))
    assert not any(isinstance(event, CallReady) for event in events)
    assert "No tool fits" not in said(events)
    assert said(events)


async def test_words_come_at_their_pace(autojump_clock: MockClock) -> None:
    model: LLM = Offline(pace=0.5)
    assert model.label == "offline stand-in (no language model)"
    async with model.stream(request("hello", tools=())) as events:
        heard = [(trio.current_time(), event) async for event in events]
    assert [event for _, event in heard] == respond(request("hello", tools=()))
    words = len(heard) - 1
    assert [at for at, _ in heard] == [
        *(0.5 * (i + 1) for i in range(words)),
        words / 2,
    ]


async def test_leaving_early_and_cancelling_leave_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    with trio.move_on_after(0.7) as turn:
        async with Offline(pace=0.5).stream(request("hello")) as events:
            assert await anext(events) == TextChunk("I")
            await anext(events)
    assert turn.cancelled_caught
    async with Offline().stream(request("hello")) as events:
        await anext(events)


def test_a_pace_is_not_negative() -> None:
    with pytest.raises(ValueError, match="pace"):
        Offline(pace=-1.0)


@pytest.mark.parametrize(
    "text",
    [
        "Don't roll anything",
        "Please do not roll 2d6.",
        "Greta, never open a tab for Bo",
        "I don't want to roll for initiative",
    ],
)
def test_what_the_player_forbids_is_not_done(text: str) -> None:
    events = respond(request(text))
    assert not any(isinstance(event, CallReady) for event in events)
