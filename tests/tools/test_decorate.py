"""A function becomes a tool: its schema, its handler, its plain call (G29)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum
from functools import partial
from typing import Annotated, Any, Literal, Union

import pytest

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import CallContext, OnInterrupt, Tool
from glyphoxa_trio.tools.instance import minimal_instance
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.tier import Tier


class Season(StrEnum):
    SUMMER = "summer"
    WINTER = "winter"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Opaque:
    """Something that JSON does not know."""


async def run(made: Tool, context: CallContext | None = None, **arguments: Any) -> Any:
    answer = made.handler(arguments, context or CallContext())
    return await answer if inspect.isawaitable(answer) else answer


def schema_of(hint: Any) -> Any:
    """The schema of one required parameter with this annotation."""

    async def function(x: Any) -> None: ...

    function.__annotations__["x"] = hint
    parameters = tool(function).definition.parameters
    assert parameters["required"] == ["x"]
    return parameters["properties"]["x"]


def test_a_bare_decorator_reads_everything_from_the_function() -> None:
    @tool
    async def get_weather(location: str, days: int = 3) -> dict[str, str]:
        """Get the current in-world weather.

        For a location.
        """
        return {location: "rain"}

    definition = get_weather.definition
    assert definition.key == "custom.get_weather"
    assert definition.description == (
        "Get the current in-world weather.\n\nFor a location."
    )
    assert definition.parameters == {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "days": {"type": "integer", "default": 3},
        },
        "required": ["location"],
        "additionalProperties": False,
    }
    assert not get_weather.blocking


def test_every_option_reaches_the_definition_and_milliseconds_end_here() -> None:
    @tool(
        name="forecast",
        group="world",
        description="Says what it will be.",
        estimated_duration_ms=10,
        max_duration_ms=50,
        read_only=True,
        idempotent=True,
        cacheable_seconds=60,
        per_npc=True,
        min_tier="standard",
        examples=({"x": 1},),
        on_interrupt="finish_and_speak",
        speech_field="sky",
        speech_template="It will {sky}.",
        expose_as="weather",
    )
    async def anything(x: int) -> None:
        """Not this."""

    definition = anything.definition
    assert definition.key == "world.forecast"
    assert definition.description == "Says what it will be."
    assert (definition.estimated_duration, definition.max_duration) == (0.01, 0.05)
    assert definition.read_only
    assert definition.idempotent
    assert definition.per_npc
    assert definition.cacheable == 60
    assert definition.min_tier is Tier.STANDARD
    assert definition.examples == ({"x": 1},)
    assert definition.on_interrupt is OnInterrupt.FINISH_AND_SPEAK
    assert definition.speech_field == "sky"
    assert definition.speech_template == "It will {sky}."
    assert definition.expose_as == "weather"
    assert not definition.external


def test_an_empty_description_is_a_description() -> None:
    @tool(description="")
    async def f() -> None:
        """Not this."""

    assert f.definition.description == ""


def test_a_tier_may_be_given_as_such() -> None:
    @tool(min_tier=Tier.DEEP)
    async def f() -> None: ...

    assert f.definition.min_tier is Tier.DEEP


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_tier": "quick"}, "one of fast"),
        ({"on_interrupt": "explode"}, "explode"),
        ({"max_duration_ms": 0}, "max_duration"),
        ({"cacheable_seconds": 5}, "neither read-only nor idempotent"),
    ],
)
def test_a_definition_that_contradicts_itself_fails_at_once(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):

        @tool(**options)
        async def f() -> None: ...


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (
            list[list[str]],
            {
                "type": "array",
                "items": {"type": "array", "items": {"type": "string"}},
            },
        ),
        (dict, {"type": "object"}),
        (
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Season, {"enum": ["summer", "winter"]}),
        (Level, {"enum": [1, 2]}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (
            Union[int, str, None],  # noqa: UP007  # the old spelling, on purpose
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        ),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (Annotated[int, 5], {"type": "integer"}),
        (
            list[Annotated[str, "A word."]],
            {"type": "array", "items": {"type": "string", "description": "A word."}},
        ),
    ],
)
def test_an_annotation_becomes_a_schema(hint: Any, schema: Any) -> None:
    assert schema_of(hint) == schema


def test_a_parameter_without_annotation_takes_anything() -> None:
    made = tool(name="f")(lambda x, y=1: x + y)
    assert made.definition.parameters["properties"] == {
        "x": {},
        "y": {"default": 1},
    }


@pytest.mark.parametrize("hint", [Opaque, set[int], tuple[int, int], list[Opaque]])
def test_an_annotation_without_schema_names_the_parameter_and_the_way_out(
    hint: Any,
) -> None:
    with pytest.raises(TypeError, match=r"function\(x\): no JSON schema.*`parameters`"):
        schema_of(hint)


def test_star_arguments_have_no_schema() -> None:
    async def some(*words: str) -> None: ...

    async def named(**words: str) -> None: ...

    for function in (some, named):
        with pytest.raises(
            TypeError, match=r"\(words\): a variable number of arguments has no schema"
        ):
            tool(function)


def test_given_parameters_replace_the_annotations() -> None:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}

    @tool(parameters=parameters)
    async def f(**rest: Opaque) -> None: ...

    assert f.definition.parameters == parameters


def test_none_as_a_default_is_not_a_default_for_the_model() -> None:
    @tool
    async def f(x: int | None = None) -> None: ...

    nullable = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert f.definition.parameters["properties"] == {"x": nullable}
    assert "required" not in f.definition.parameters


def test_a_derived_schema_compiles_and_can_be_probed() -> None:
    @tool
    async def f(
        a: str, b: Literal["x"], c: list[int], d: Season, e: int | str, g: float = 0.5
    ) -> None: ...

    parameters = f.definition.parameters
    ArgumentSchema(parameters).warm()
    assert minimal_instance(parameters) == {
        "a": "a",
        "b": "x",
        "c": [],
        "d": "summer",
        "e": 1,
    }


# --- handlers


async def test_the_handler_passes_arguments_by_name_and_wraps_the_answer() -> None:
    @tool
    async def f(a: int, b: int = 2) -> dict[str, int]:
        return {"sum": a + b}

    assert await run(f, a=1) == ToolResult(structured={"sum": 3})
    assert await run(f, a=1, b=1) == ToolResult(structured={"sum": 2})


async def test_the_context_is_passed_in_and_is_not_part_of_the_schema() -> None:
    @tool
    async def f(a: int, caller: CallContext) -> str:
        return f"{caller.npc} {a}"

    assert list(f.definition.parameters["properties"]) == ["a"]
    context = CallContext(npc="Grimjaw")
    assert await run(f, context, a=1) == ToolResult(text=("Grimjaw 1",))
    # A model that sends the name of the parameter does not choose the caller.
    assert await run(f, context, a=1, caller="me") == ToolResult(text=("Grimjaw 1",))


async def test_the_context_is_passed_in_with_given_parameters_too() -> None:
    @tool(parameters={"type": "object"})
    async def f(caller: CallContext, **rest: Any) -> str:
        return f"{caller.npc} {rest}"

    assert await run(f, CallContext(npc="Grimjaw"), x=1) == ToolResult(
        text=("Grimjaw {'x': 1}",)
    )


async def test_a_plain_function_is_blocking_and_answers_at_once() -> None:
    @tool
    def f(a: int, context: CallContext) -> int:
        return a + len(context.npc)

    assert f.blocking
    assert f.handler({"a": 1}, CallContext(npc="ab")) == ToolResult(structured=3)


async def test_arguments_are_copied_so_that_a_tool_cannot_change_the_call() -> None:
    @tool(parameters={"type": "object"})
    async def f(**rest: Any) -> None:
        rest.clear()

    arguments = {"x": 1}
    answer = f.handler(arguments, CallContext())
    assert isinstance(answer, Awaitable)
    await answer
    assert arguments == {"x": 1}


async def test_an_answer_that_is_not_json_fails_in_the_call() -> None:
    @tool
    async def f() -> object:
        return object()

    with pytest.raises(TypeError):
        await run(f)


async def test_a_tool_is_called_plainly_in_tests() -> None:  # G29
    @tool
    async def asynchronous(a: int) -> int:
        return a + 1

    @tool
    def plain(a: int) -> int:
        return a + 1

    assert await asynchronous(1) == 2
    assert plain(a=1) == 2


def test_the_decorator_can_be_applied_as_a_function() -> None:  # G29: constructors
    def tools(prefix: str) -> list[Tool]:
        def greet(name: str) -> str:
            return f"{prefix} {name}"

        decorate: Callable[[Callable[..., Any]], Tool] = tool(group="greetings")
        return [decorate(greet)]

    [made] = tools("Hail")
    assert made.key == "greetings.greet"
    assert made("Grimjaw") == "Hail Grimjaw"


async def test_an_enum_reaches_the_function_as_its_member() -> None:
    @tool
    async def f(season: Season, other: Season | None = None) -> str:
        return f"{season!r} {other!r}"

    member = next(iter(Season))
    running = f.handler({"season": member.value, "other": None}, CallContext())
    assert isinstance(running, Awaitable)
    assert await running == ToolResult(text=(f"{member!r} None",))


def test_an_enum_default_is_told_by_its_value() -> None:
    member = next(iter(Season))

    @tool
    async def f(season: Season = member) -> None: ...

    assert f.definition.parameters["properties"]["season"]["default"] == member.value


def test_a_default_that_is_no_json_is_not_told() -> None:
    @tool
    async def f(x: Any = object) -> None: ...

    assert f.definition.parameters["properties"] == {"x": {}}


def test_positional_only_parameters_cannot_be_given() -> None:
    def f(x: int, /) -> None: ...

    with pytest.raises(TypeError, match=r"f\(x\): arguments are passed by name"):
        tool(f)


def test_only_a_function_becomes_a_tool() -> None:
    with pytest.raises(TypeError, match="made from a function"):
        tool(partial(print, "x"))


def test_a_limit_below_what_a_tool_usually_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="look: its max_duration_ms of 100 is below"):

        @tool(estimated_duration_ms=9000, max_duration_ms=100)
        async def look() -> None: ...
