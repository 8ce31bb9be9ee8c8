"""What a recording is made of: a clock that stands still, lines without secrets, a file
that is whole or says why not, and a format that is refused with its line.

That it is replayed to the same events is shown in tests/simulation/test_replay.py.
"""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.config import (
    Config,
    NpcConfig,
    ServerSpec,
    TurnConfig,
    parse,
)
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.npc import Speech
from glyphoxa_trio.observability.recording.config import config_as_data
from glyphoxa_trio.observability.recording.format import (
    BadRecording,
    read_recording,
    recorded,
)
from glyphoxa_trio.observability.recording.hiding import Hiding, in_pieces
from glyphoxa_trio.observability.recording.kinds import KINDS
from glyphoxa_trio.observability.recording.lines import LineOutput
from glyphoxa_trio.observability.recording.recording import open_recording
from glyphoxa_trio.observability.recording.speech import EVENTS, event_of
from glyphoxa_trio.observability.recording.tools import (
    definition_as_data,
    definition_of,
)
from glyphoxa_trio.observability.stepping import HELD, Quiet, SteppingClock
from glyphoxa_trio.providers.s2s import AudioOut, Spoken
from glyphoxa_trio.runtime import open_runtime
from glyphoxa_trio.secret import HIDDEN, Secret
from glyphoxa_trio.tools.definition import (
    OnInterrupt,
    Schedule,
    Tool,
    ToolDefinition,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier, TierLimits
from tests.npc.support import ScriptedLLM

LIMIT = 60.0

# The clock.


@attrs.define
class Real:
    """A clock behind the clock, that passes when it is told to, or at each look."""

    now: float = 100.0
    step: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def on(clock: SteppingClock, main: Callable[[], Any]) -> Any:
    async def guarded() -> Any:
        return await main()

    return trio.run(guarded, clock=clock)


def test_time_stands_still_while_anything_runs() -> None:
    real = Real()

    async def main() -> None:
        before = trio.current_time()
        real.now += 0.7  # code that takes its time
        for _ in range(10):
            await trio.lowlevel.checkpoint()
        assert trio.current_time() == before == 0.0

    on(SteppingClock(real=real), main)


def test_each_deadline_fires_at_exactly_its_time_however_late_it_is() -> None:
    real = Real(step=0.001)
    fired: list[float] = []

    async def main() -> None:
        async def wait(seconds: float) -> None:
            await trio.sleep(seconds)
            fired.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            for seconds in (0.3, 0.1, 0.7, 1 / 3):
                nursery.start_soon(wait, seconds)
            real.now += 0.9  # all of them are long due when trio looks again

    on(SteppingClock(real=real), main)
    assert fired == [0.1, 0.3, 1 / 3, 0.7]


def test_what_was_waited_for_takes_as_long_as_it_really_did() -> None:
    real = Real()

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        came = trio.Event()

        def bring() -> None:
            real.now += 0.25  # while trio waits
            token.run_sync_soon(came.set)

        with trio.move_on_after(9.0):
            await trio.to_thread.run_sync(bring)
            await came.wait()
        assert trio.current_time() == 0.25

    on(SteppingClock(real=real), main)


def test_a_run_that_is_always_busy_does_not_stop_time() -> None:
    real = Real()
    lost: list[tuple[float, float]] = []
    clock = SteppingClock(lambda *told: lost.append(told), real)

    async def main() -> None:
        for _ in range(40):
            real.now += HELD / 20
            await trio.lowlevel.checkpoint()
        assert trio.current_time() > HELD

    on(clock, main)
    assert lost
    assert all(seconds > HELD for _, seconds in lost)


def test_whoever_waits_for_quiet_is_told_one_after_the_other_and_some_first() -> None:
    told: list[str] = []
    clock = SteppingClock(real=Real())

    async def main() -> None:
        done = trio.Event()

        async def busy(name: str, rounds: int) -> None:
            for _ in range(rounds):
                await trio.lowlevel.checkpoint()
            told.append(name)
            if len(told) == 7:
                done.set()

        def then(name: str, *, first: bool = False) -> None:
            def act() -> None:
                told.append(name)
                nursery.start_soon(busy, f"after {name}", 5)

            clock.quiet.when_quiet(act, first=first)

        async with trio.open_nursery() as nursery:
            then("one")
            then("two")
            then("zero", first=True)
            nursery.start_soon(busy, "work", 20)
            await done.wait()
        assert trio.current_time() == 0.0

    on(clock, main)
    parts = ["work", "zero", "after zero", "one", "after one", "two", "after two"]
    assert told == parts


def test_nobody_who_waits_for_quiet_waits_for_ever() -> None:
    real, told = Real(), trio.Event()
    clock = SteppingClock(real=real)

    async def main() -> None:
        clock.quiet.when_quiet(told.set)
        while not told.is_set():
            real.now += HELD / 20
            await trio.lowlevel.checkpoint()

    with_limit = lambda: main()  # noqa: E731 trio.run wants a function
    on(clock, with_limit)
    assert not Quiet().is_quiet()


# Without secrets.

SECRETS = ("hunter2", "hunter2-and-a-half", "sk-abc", 'a "quoted" one', "kündigung")
HIDING = Hiding.of(
    Config(
        mcp=McpConfig(
            servers=(
                ServerSpec(
                    name="vault",
                    command=("x",),
                    env={f"KEY_{i}": Secret(x) for i, x in enumerate(SECRETS)},
                ),
            )
        )
    )
)
_words = st.sampled_from([*SECRETS, "hunter", "2", "-and-a-", "sk", "-abc", " ", "ok"])


class Pieces(RuleBasedStateMachine):
    """A text that comes in pieces, against the whole of it."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[str] = []
        self.held: list[str] = []
        self.told: list[str] = []

    @rule(piece=st.one_of(_words, st.text(max_size=3)))
    def hear(self, piece: str) -> None:
        self.given.append(piece)
        told, self.held = in_pieces([*self.held, piece], HIDING, over=False)
        self.told += told

    @invariant()
    def nothing_told_is_secret(self) -> None:
        text = "".join(self.told)
        assert not any(secret in text for secret in SECRETS)

    @invariant()
    def what_is_held_is_no_more_than_the_beginning_of_a_secret(self) -> None:
        most = max(map(len, HIDING.mask.forms))
        assert len("".join(self.held[:-1])) < most

    def teardown(self) -> None:
        told, rest = in_pieces(self.held, HIDING, over=True)
        assert rest == []
        self.told += told
        assert len(self.told) == len(self.given)
        assert "".join(self.told) == HIDING.text("".join(self.given))


TestPieces = Pieces.TestCase


@given(st.lists(st.one_of(_words, st.text(max_size=4)), max_size=12))
def test_a_secret_in_pieces_is_in_no_line_and_no_piece_is_lost(
    pieces: list[str],
) -> None:
    file = io.BytesIO()
    lines = LineOutput(file, HIDING)
    for number, piece in enumerate(pieces):
        lines.info("model", at=number, request=1, text=piece)
        lines.info("model", at=number, request=2, working=True)
    lines.info("model", at=99, request=1, finished={})
    lines.end(99, "closed")
    written = [json.loads(line) for line in file.getvalue().splitlines()]
    texts = [x["text"] for x in written if x["kind"] == "model" and "text" in x]
    assert len(texts) == len(pieces)
    assert "".join(texts) == HIDING.text("".join(pieces))
    assert [x["at"] for x in written] == sorted(x["at"] for x in written)


def test_secrets_are_hidden_however_they_are_written() -> None:
    secret = 'a "quoted" one'
    nested = json.dumps({"arguments": json.dumps({"key": secret})})
    plain = HIDING.plain(
        {
            "whole": secret,
            "inside": f"x{secret}y",
            "json": json.dumps({"key": secret}),
            "nested": nested,
            "url": "https://e.org/?k=a%20%22quoted%22%20one",
            secret: [secret, {"deep": (secret,)}],
            "ascii": json.dumps("kündigung"),
            "held": Secret("another"),
        }
    )
    text = json.dumps(plain, ensure_ascii=False)
    for part in ("quoted", "kündigung", "k\\u00fcndigung", "another"):
        assert part not in text, part
    assert json.loads(json.loads(plain["nested"])["arguments"]) == {"key": HIDDEN}


def test_a_name_that_stands_openly_is_no_secret() -> None:
    config = Config(
        npcs=(NpcConfig(name="Bo of the tavern"),),
        mcp=McpConfig(
            servers=(
                ServerSpec(
                    name="ledger",
                    command=("x",),
                    env={"HOUSE": Secret("tavern"), "BOOK": Secret("ledger")},
                ),
            )
        ),
    )
    hiding = Hiding.of(config)
    assert hiding.plain({"npc": "Bo of the tavern", "server": "ledger"}) == {
        "npc": "Bo of the tavern",
        "server": "ledger",
    }


# The file.


def vault(**more: Any) -> Config:
    return parse(
        {
            "npcs": [{"name": "Bo", "tools": ["safe"], "knowledge_scope": ["sk-abc"]}],
            "mcp": {
                "remember": False,
                "servers": [
                    {
                        "name": "http",
                        "url": "http://127.0.0.1:9/mcp?key=sk-abc",
                        "headers": {"X-Key": "hunter2-and-a-half"},
                    }
                ],
            },
            "llm": {"api_key": "kündigung-2024"},
            "calibration": {"at_start": False},
        }
        | more,
        source=Path("vault.yaml"),
        env={},
    )


@tool(group="safe", read_only=True, estimated_duration_ms=10)
async def unlock(code: str) -> dict[str, str]:
    """Open the safe."""
    return {"code": code, "note": 'it says "hunter2-and-a-half", and kündigung-2024'}


async def _session(file: Path, **options: Any) -> str:
    """A turn in which everybody tells secrets; why the file is not whole."""
    llm = ScriptedLLM(
        [
            [
                "The code is hun",
                "ter2-and-",
                "a-half. ",
                ToolCall("c", "unlock", '{"code": "kündigung-2024"}'),
            ],
            ["k\N{LATIN SMALL LETTER U WITH DIAERESIS}nd", "igung-2024! sk-", "abc"],
        ]
    )
    with trio.fail_after(LIMIT):
        async with open_recording(file, **options) as recording:
            async with open_runtime(
                vault(),
                llm=llm,
                tools=[unlock],
                wait_for_servers=0,
                environment=recording.environment(),
            ) as runtime:
                async with runtime.npc("Bo").say("hunter2-and-a-half") as turn:
                    done = await turn.finish()
        assert "hunter2-and-a-half" in done.text  # the player still hears it
        return recording.failure


def test_no_secret_is_in_the_file_and_it_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    assert trio.run(_session, file, clock=SteppingClock()) == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    text = file.read_text()
    for secret in ("hunter2", "kündigung", "k\\u00fcndigung", "sk-abc", "X-Key"):
        assert secret not in text, secret
    texts = [
        x["text"]
        for x in map(json.loads, text.splitlines())
        if x["kind"] == "event" and x["event"] == "TextDelta"
    ]
    assert texts == ["The code is [secret]", "", ". ", "[secret]", "! [secret]", ""]
    assert '"text": "[secret]"' in text  # what the player said
    recording = read_recording(file)
    assert recording.notes == ()
    assert recording.tolerance == 0.0


def test_a_recording_ends_when_it_is_full(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    write = lambda: _session(file, most_bytes=9000)  # noqa: E731 trio.run wants one
    assert trio.run(write, clock=SteppingClock()) == ""
    assert file.stat().st_size <= 9000
    recording = read_recording(file)
    assert recording.notes == ("it ended early: it is full at 9000 bytes",)
    assert recording.over is not None


def test_a_full_queue_ends_a_recording_and_no_turn(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    write = lambda: _session(file, capacity=1)  # noqa: E731 trio.run wants one
    assert "lines are missing" in trio.run(write, clock=SteppingClock())
    recording = read_recording(file)  # the first line has room
    assert "lines were lost" in recording.notes[0]


class _Full(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() > 300:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_disk_that_fails_leaves_no_gap() -> None:
    file = _Full()
    lines = LineOutput(file)
    for number in range(20):
        try:
            lines.info("inexact", at=number, why="x" * 30)
        except OSError:
            break
    else:
        pytest.fail("the disk did not fail")
    lines.info("inexact", at=99, why="after it")
    lines.end(99, "closed")
    assert lines.failure == "No space left on device"
    written = file.getvalue().splitlines()
    assert [json.loads(x)["at"] for x in written] == list(range(len(written)))


def test_a_file_that_cannot_be_made_is_an_error_before_anything_runs(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with open_recording(tmp_path / "no" / "such" / "folder"):
            pytest.fail("opened")

    with pytest.raises(FileNotFoundError):
        trio.run(main)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    # Whoever may write beside the file must not choose what is overwritten.
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / "session.jsonl.part").symlink_to(precious)
    assert trio.run(_session, tmp_path / "session.jsonl", clock=SteppingClock()) == ""
    assert precious.read_text() == "keep"


# The format.

_whole = st.integers(1, 10**7)  # milliseconds
_seconds = _whole.map(lambda x: x / 1000)
_text = st.text(min_size=1, max_size=8).filter(lambda x: bool(x.strip()))


@st.composite
def configs(draw: st.DrawFn) -> Config:
    fast, more = draw(st.tuples(_whole, _whole))
    ceilings = sorted(draw(st.tuples(_seconds, _seconds, _seconds)))
    limits = TierLimits(
        fast_threshold=min(fast / 1000, ceilings[2]),
        standard_threshold=min((fast + more) / 1000, ceilings[2]),
        fast_ceiling=ceilings[0],
        standard_ceiling=ceilings[1],
        deep_ceiling=ceilings[2],
    )
    npcs = tuple(
        NpcConfig(
            name=f"{draw(_text)} {number}",
            personality=draw(st.sampled_from(["", "${HOME}", "$${x}", "calm"])),
            tools=tuple(draw(st.lists(_text, max_size=3))),
            budget_tier=draw(st.sampled_from(Tier)),
            greeting=draw(st.text(max_size=5)),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    turn = TurnConfig(
        max_rounds=draw(st.integers(1, 9)),
        silence=draw(_seconds),
        first_token=draw(_seconds),
    )
    servers = tuple(
        ServerSpec(
            name=f"s{number}",
            command=("recorded",),
            cwd=Path(),  # where the file is
            environment=draw(_text),
        )
        for number in range(draw(st.integers(0, 2)))
    )
    return Config(npcs=npcs, tiers=limits, turn=turn, mcp=McpConfig(servers=servers))


@given(configs())
def test_a_configuration_comes_back_as_it_was(config: Config) -> None:
    data = json.loads(json.dumps(config_as_data(config)))
    assert parse(data, source=Path("x.yaml"), env={}) == config


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=5,
)


@st.composite
def definitions(draw: st.DrawFn) -> ToolDefinition:
    parameters = {"type": "object", "properties": draw(st.dictionaries(_text, _plain))}
    reads = draw(st.booleans())
    fields: dict[str, Any] = {
        "name": draw(_text),
        "group": draw(st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True)),
        "parameters": parameters,
        "read_only": reads,
        "cacheable": draw(_seconds) if reads else 0.0,
        "min_tier": draw(st.sampled_from(Tier)),
        "round_trip": draw(_seconds),
        "probe": draw(st.none() | st.dictionaries(_text, _plain)),
        "on_interrupt": draw(st.none() | st.sampled_from(OnInterrupt)),
        "schedule": draw(st.sampled_from(Schedule)),
        "examples": tuple(draw(st.lists(st.dictionaries(_text, _plain), max_size=2))),
    }
    for field in attrs.fields(ToolDefinition):  # whatever else there is, or will be
        if field.name in fields:
            continue
        match field.default:
            case bool():
                fields[field.name] = draw(st.booleans())
            case str():
                fields[field.name] = draw(st.text(max_size=9))
            case float():
                fields[field.name] = draw(_seconds)
            case None if field.name.endswith(_SECONDS):
                fields[field.name] = draw(st.none() | _seconds)
            case None:
                fields[field.name] = draw(st.none() | st.text(max_size=9))
            case _:
                raise AssertionError(f"how is {field.name} made?")
    return ToolDefinition(**fields)


_SECONDS = ("_duration", "_timeout", "_threshold")


@given(definitions(), st.text(max_size=4))
def test_a_tool_comes_back_as_it_was(definition: ToolDefinition, print_: str) -> None:
    made = Tool(definition=definition, handler=_nothing, fingerprint=print_)
    data = Hiding().plain(definition_as_data(made))
    assert definition_of(json.loads(json.dumps(data))) == (definition, print_)


async def _nothing(arguments: Any, context: Any) -> Any: ...


def _value(types: tuple[type, ...]) -> st.SearchStrategy[Any]:
    kinds: dict[type, st.SearchStrategy[Any]] = {
        str: st.text(max_size=6),
        int: st.integers(0, 9),
        bool: st.booleans(),
        float: st.floats(0, 9),
        list: st.just([]),
        dict: st.just({}),
        type(None): st.none(),
    }
    return st.one_of([kinds[kind] for kind in types])


HEADER = {"kind": "recording", "at": 0.0, "format": 1, "config": {}}
_FREE = [
    kind
    for kind in KINDS
    # The words of the others mean something, or they refer to each other.
    if kind
    not in ("recording", "server", "elevate", "measured", "model", "answer", "end")
    and kind
    not in ("heard", "left", "cancelled", "sent", "inexact", "unrecorded", "context")
    and kind not in ("played", "socket", "told", "speech")
]


@st.composite
def any_lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [HEADER]
    for number in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(_FREE))
        line: dict[str, Any] = {"kind": kind, "at": draw(st.floats(0, 100))}
        for name, key in KINDS[kind].items():
            if key.needed or draw(st.booleans()):
                line[name] = draw(_value(key.types))
        if kind in ("say", "request", "call"):
            line[kind] = number  # numbers are given once
        if kind == "say":
            line["tier"] = draw(st.sampled_from([None, "fast", "deep"]))
        made.append(line)
    return made


def test_audio_is_told_apart_and_not_kept() -> None:
    def told(pcm: bytes) -> str:
        speech = Speech(npc="Bo", turn=1, pcm=pcm, rate=16000)
        return str(Hiding().plain(speech)["pcm"])

    assert told(b"\1\0" * 320).startswith("640 bytes, ")
    assert told(b"\1\0" * 320) == told(b"\1\0" * 320) != told(b"\2\0" * 320)
    json.dumps(Hiding().plain(Speech(npc="Bo", turn=1, pcm=b"\xff", rate=16000)))


# Without what is no number: that is never equal to itself, and no wire has it.
_EVENTS: dict[str, st.SearchStrategy[Any]] = {
    name: st.from_type(kind).filter(lambda event: "nan" not in repr(event))
    for name, kind in EVENTS.items()
    if name not in ("AudioOut", "Recited")  # of audio only the length is kept
}


@given(st.one_of(*_EVENTS.values()))
def test_what_a_model_says_by_itself_comes_back_as_it_was(event: Any) -> None:
    line = {"event": type(event).__name__, "data": Hiding().plain(event)}
    line = json.loads(json.dumps(line))
    if isinstance(event, Spoken):
        line = json.loads(json.dumps(attrs.asdict(event)))
    assert event_of(line) == event


@given(st.binary(max_size=64))
def test_audio_comes_back_as_silence_that_is_as_long(pcm: bytes) -> None:
    said = json.loads(json.dumps(Hiding().plain(AudioOut("r", "i", pcm))))
    heard = event_of({"event": "AudioOut", "data": said})
    assert isinstance(heard, AudioOut)
    assert heard.pcm == bytes(len(pcm))
    assert Hiding().plain(heard) == said


@given(any_lines())
def test_lines_come_back_in_the_order_of_their_times(
    lines: list[dict[str, Any]],
) -> None:
    file = io.BytesIO()
    for line in lines:
        file.write(json.dumps(line).encode() + b"\n")
    read = recorded(file.getvalue())
    assert list(read.lines) == sorted(lines, key=lambda line: float(line["at"]))
    assert read.notes == ("it has no end: whatever wrote it was killed",)


def _text_of(*lines: dict[str, Any] | str) -> bytes:
    texts = [x if isinstance(x, str) else json.dumps(x) for x in lines]
    return "".join(f"{text}\n" for text in texts).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"{", "it is empty"),
        (b"# a log\n", "line 1: is not JSON"),
        (b"\x00\xff\n", "line 1: is not JSON"),
        (_text_of("[]"), "line 1: is not an object with a kind"),
        (_text_of({"at": 0}), "line 1: is not an object with a kind"),
        (
            _text_of({"level": "info", "kind": "turn"}),
            "line 1: a recording begins with",
        ),
        (_text_of({**HEADER, "format": 4}), "line 1: format 4 is of a newer version"),
        (_text_of({**HEADER, "format": "1"}), "line 1: no format that there is"),
        (_text_of({**HEADER, "config": {"npc": []}}), "line 1: unknown key 'npc'"),
        (_text_of(HEADER, HEADER), "line 2: a recording begins with its header"),
        (_text_of(HEADER, "{}"), "line 2: is not an object"),
        (_text_of(HEADER, '{"kind": "say", "at'), "line 2: is not JSON"),
        (_text_of(HEADER, {"kind": "sing", "at": 1}), "line 2: no kind of line is"),
        (_text_of(HEADER, {"kind": "leaving"}), "line 2: leaving lacks 'at'"),
        (_text_of(HEADER, {"kind": "leaving", "at": True}), "line 2: 'at' of leaving"),
        (_text_of(HEADER, {"kind": "leaving", "at": -1}), "line 2: at is before the"),
        (
            _text_of(HEADER, '{"kind": "leaving", "at": Infinity}'),
            "line 2: leaving: at must be finite",
        ),
        (
            _text_of(HEADER, {"kind": "interrupt", "at": 1, "npc": 5}),
            "line 2: 'npc' of interrupt must be str",
        ),
        (
            _text_of(HEADER, {"kind": "leaving", "at": 1, "soon": True}),
            "line 2: leaving has no 'soon'",
        ),
        (
            _text_of(
                HEADER,
                {
                    "kind": "say",
                    "at": 1,
                    "say": 1,
                    "npc": "Bo",
                    "text": "",
                    "tier": "x",
                },
            ),
            "line 2: say: ",
        ),
        (
            _text_of(HEADER, {"kind": "left", "at": 1, "say": 4}),
            "line 2: left of say 4, which is not there",
        ),
        (
            _text_of(
                HEADER,
                {"kind": "request", "at": 1, "request": 1},
                {"kind": "model", "at": 1, "request": 1},
            ),
            "line 3: model has one of text, call",
        ),
        (
            _text_of(
                HEADER,
                {"kind": "request", "at": 1, "request": 1},
                {"kind": "request", "at": 1, "request": 1},
            ),
            "line 3: request 1 is there twice",
        ),
        (
            _text_of(
                HEADER,
                {"kind": "call", "at": 1, "call": 1, "tool": "a.b", "arguments": {}},
                {"kind": "answer", "at": 1, "call": 1, "error": {"kind": "oops"}},
            ),
            "line 3: answer: an error is one of",
        ),
        (
            _text_of(HEADER, {"kind": "tools", "at": 1, "tools": [{"nam": "x"}]}),
            "line 2: tools: a tool has no 'nam'",
        ),
        (
            _text_of(HEADER, {"kind": "tools", "at": 1, "tools": [{"name": 7}]}),
            "line 2: tools: name of a tool cannot be 7",
        ),
        (
            _text_of(
                HEADER,
                {"kind": "tools", "at": 1, "tools": [{"name": "x", "group": "a.b"}]},
            ),
            "line 2: tools: a.b.x: a group's name must not have a dot",
        ),
        (
            _text_of(
                HEADER, {"kind": "server", "at": 1, "server": "s", "state": "drunk"}
            ),
            "line 2: server: ",
        ),
    ],
)
def test_what_is_no_recording_is_refused_with_line_and_reason(
    data: bytes, why: str
) -> None:
    with pytest.raises(BadRecording) as refused:
        recorded(data, name="x.jsonl")
    assert str(refused.value).startswith("x.jsonl: ")
    assert why in str(refused.value)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_damage_is_anything_but_refused(noise: bytes, at: int) -> None:
    whole = _text_of(
        HEADER,
        {"kind": "say", "at": 1.0, "say": 1, "npc": "Bo", "text": "hello"},
        {"kind": "left", "at": 2.0, "say": 1, "asked": 3},
        {"kind": "end", "at": 3.0, "why": "closed"},
    )
    at %= len(whole)
    with suppress(BadRecording):
        recorded(whole[:at] + noise + whole[at + len(noise) :])


def test_a_server_that_says_when_it_will_be_ready_can_be_read_again(
    tmp_path: Path,
) -> None:
    line = {"kind": "server", "at": 1, "server": "oracle", "state": "restarting"}
    path = tmp_path / "evening.jsonl"
    path.write_bytes(_text_of(HEADER, {**line, "ready_at": 2.5}))
    assert read_recording(path).lines[-1]["ready_at"] == 2.5
