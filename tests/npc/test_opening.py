"""What an NPC is told before the first word, and what it says first."""

from __future__ import annotations

import json

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import Npc, Scripted, Sentence, Turn, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

from .support import Reply, Table, ask, open_table

BOB = NpcConfig(
    name="Bob",
    personality="Calls {caller_name} on {caller_number}.",
    behaviour_rules=("Notes {call_id}, and {nothing}.",),
    greeting="Hail, {caller_name}!",
    budget_tier=Tier.DEEP,
)


def hello(_: LLMRequest) -> Reply:
    return ["Hello. ", "Sit down."]


def prompt(table: Table, round_: int = -1) -> str:
    return table.llm.requests[round_].messages[0].content


async def listen(turn: Turn) -> list[str]:
    async with turn:
        return [event.text async for event in turn if isinstance(event, Sentence)]


async def test_variables_are_filled_in_prompt_and_greeting_before_any_model(
    autojump_clock: object,
) -> None:
    # A32 A33 A36
    defaults = {"caller_name": "traveller"}
    async with open_table(
        hello, npc=BOB, template_defaults=defaults, call_id="c0ffee"
    ) as table:
        await ask(table.npc)
        assert "Personality: Calls traveller on unknown." in prompt(table)
        assert "- Notes c0ffee, and {nothing}." in prompt(table)
        assert table.llm.told()[0] == ("assistant", "Hail, traveller!")


async def test_the_name_of_a_context_is_known_in_it(autojump_clock: object) -> None:
    # A32
    npc = NpcConfig(
        name="Support",
        context_name="support",
        system_prompt="You answer for {context_name}.",
        greeting="This is {context_name}.",
    )
    async with open_table(hello, npc=npc) as table:
        await ask(table.npc)
        assert prompt(table) == "You answer for support."
        assert table.llm.told()[0] == ("assistant", "This is support.")
        await table.npc.set_variables({"context_name": "sales"})
        await ask(table.npc)
        assert prompt(table) == "You answer for sales."


async def test_what_an_embedder_says_of_the_player_counts_from_the_next_turn(
    autojump_clock: object,
) -> None:
    # A33
    async with open_table(hello, npc=BOB) as table:
        await table.npc.set_variables({"caller_name": "Aria", "caller_number": 555})
        await ask(table.npc)
        assert "Calls Aria on 555." in prompt(table)
        assert table.llm.told()[0] == ("assistant", "Hail, Aria!")
        await table.npc.set_variables({"caller_name": "Cole"})
        await ask(table.npc)
        assert "Calls Cole on 555." in prompt(table)


async def test_a_turn_that_runs_ends_with_the_prompt_that_it_began_with(
    autojump_clock: object,
) -> None:
    def twice(request: LLMRequest) -> Reply:
        rounds = sum(message.role == "tool" for message in request.messages)
        return ["Done."] if rounds else [1.0, ToolCall("a", "look", "{}")]

    async with open_table(twice, npc=BOB) as table:

        async def in_between(turn: Turn) -> None:
            async for event in turn:
                if type(event).__name__ == "ToolsShown":
                    await table.npc.set_variables({"caller_name": "Aria"})

        async with table.npc.say("Hello") as turn:
            await in_between(turn)
        first, second = prompt(table, 0), prompt(table, 1)
        assert first == second
        assert "Calls there" in first
        await ask(table.npc)
        assert "Calls Aria" in prompt(table)


async def test_a_tool_gets_the_value_and_never_the_placeholder(
    autojump_clock: object,
) -> None:
    # A34: the model has the number from its prompt.
    got: list[object] = []

    async def find(arguments: object, context: CallContext) -> ToolResult:
        got.append(arguments)
        return ToolResult(text=("A regular.",))

    definition = ToolDefinition(
        group="test",
        name="find_customer",
        parameters={"type": "object"},
        estimated_duration=0.01,
        read_only=True,
    )

    def model(request: LLMRequest) -> Reply:
        if any(message.role == "tool" for message in request.messages):
            return ["Welcome back."]
        number = request.messages[0].content.split("Calls there on ")[1].split(".")[0]
        return [ToolCall("a", "find_customer", json.dumps({"phone": number}))]

    tool = Tool(definition=definition, handler=find)
    async with open_table(model, tool, npc=BOB) as table:
        await table.npc.set_variables({"caller_number": "15551234567"})
        await ask(table.npc)
    assert got == [{"phone": "15551234567"}]


async def test_the_greeting_is_said_once_and_remembered_as_far_as_it_was_heard(
    autojump_clock: object,
) -> None:
    npc = BOB_OF_TWO
    async with open_table(hello, npc=npc) as table:
        await table.npc.set_variables({"caller_name": "Aria"})
        async with table.npc.greet() as turn:
            events = [event async for event in turn]
        assert [type(x).__name__ for x in events] == [
            "Scripted",
            "TextDelta",
            "Sentence",
            "TextDelta",
            "Sentence",
            "TurnDone",
        ]
        assert events[0] == Scripted(
            npc="Bob", turn=1, speaker="player", text="Hail, Aria! Sit down."
        )
        assert (turn.done and turn.done.end, turn.done and turn.done.tier) == (
            TurnEnd.COMPLETED,
            None,
        )
        assert table.llm.requests == []  # nobody was asked
        assert await listen(table.npc.greet()) == []  # once
        await ask(table.npc)
        assert table.llm.told() == [
            ("assistant", "Hail, Aria! Sit down."),
            ("user", "Hello"),
        ]


BOB_OF_TWO = NpcConfig(name="Bob", greeting="Hail, {caller_name}! Sit down.")


async def test_of_a_greeting_that_was_left_only_the_heard_is_remembered(
    autojump_clock: object,
) -> None:
    async with open_table(hello, npc=BOB_OF_TWO) as table:
        async with table.npc.greet() as turn:
            async for event in turn:
                if isinstance(event, Sentence) and event.text == "Sit down.":
                    break
        await ask(table.npc)
        assert table.llm.told() == [("assistant", "Hail, there!"), ("user", "Hello")]


async def test_nobody_is_greeted_in_the_middle_of_a_talk(
    autojump_clock: object,
) -> None:
    async with open_table(hello, npc=BOB_OF_TWO) as table:
        await ask(table.npc)
        async with table.npc.greet() as turn:
            done = await turn.finish()
        assert (done.end, done.text) == (TurnEnd.COMPLETED, "")


async def test_an_npc_without_a_greeting_says_nothing(autojump_clock: object) -> None:
    async with open_table(hello) as table:
        assert await listen(table.npc.greet()) == []
        await ask(table.npc)
        assert table.llm.told() == [("user", "Hello")]


async def test_the_scene_is_told_and_told_anew(autojump_clock: object) -> None:
    async with open_table(hello, npc=BOB) as table:
        await table.npc.set_scene("It is raining.", "The bridge\nis out.")
        await ask(table.npc)
        assert prompt(table).endswith(
            "The scene:\n- It is raining.\n- The bridge is out."
        )
        await table.npc.set_scene()
        await ask(table.npc)
        assert "The scene" not in prompt(table)


async def test_braces_of_a_scene_are_nobody_s_template(autojump_clock: object) -> None:
    async with open_table(hello, npc=BOB) as table:
        await table.npc.set_scene("{caller_name} is carved into the door.")
        await ask(table.npc)
        assert "- {caller_name} is carved" in prompt(table)


async def test_another_configuration_keeps_what_was_said_of_player_and_scene(
    autojump_clock: object,
) -> None:
    other = NpcConfig(name="Bob", personality="Likes {caller_name}.", greeting="Ho!")
    async with open_table(hello, npc=BOB) as table:
        await table.npc.set_variables({"caller_name": "Aria"})
        await table.npc.set_scene("Night.")
        await ask(table.npc)
        npc: Npc = await table.reload(npc=other)
        await ask(npc)
        assert "Likes Aria." in prompt(table)
        assert prompt(table).endswith("The scene:\n- Night.")
        assert table.llm.told()[0] == ("assistant", "Hail, Aria!")  # as it was said


async def test_another_greeting_counts_until_a_conversation_has_begun(
    autojump_clock: object,
) -> None:
    other = NpcConfig(name="Bob", greeting="Ho, {caller_name}!")
    async with open_table(hello, npc=BOB) as table:
        npc: Npc = await table.reload(npc=other)
        await npc.set_variables({"caller_name": "Aria"})
        async with npc.greet(speaker="Aria") as greeting:
            assert (await greeting.finish()).text == "Ho, Aria!"


async def test_a_greeting_is_interrupted_by_whoever_is_greeted(
    autojump_clock: object,
) -> None:
    long = NpcConfig(name="Bob", greeting="Hail. " * 100)
    async with open_table(hello, npc=long) as table:
        async with table.npc.greet(speaker="Aria") as greeting:
            await greeting.__anext__()  # it waits for its listener
            async with table.npc.say("Quiet!", speaker="Aria") as turn:
                await turn.finish()
            done = await greeting.finish()
        assert done.end is TurnEnd.INTERRUPTED
