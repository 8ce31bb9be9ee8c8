"""Every key of the configuration, changed by a reload: its effect is seen, or it is
said that it counts at the next start.

The keys come from the classes of the configuration, so a new one is here by itself. It
fails until it is declared (`config.fields`), a changed value is found for it (`OTHERS`,
where the type does not do), and, if it is live, something that shows it (`LOOKS`).

What is seen is held against a runtime that was started with the new configuration:
after a reload it must look the same, and not as it did before.
"""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from inspect import getclosurevars
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import attrs
import pytest

from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    DiceConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    Provider,
    ServerSpec,
    TelemetryConfig,
)
from glyphoxa_trio.config.builtin import (
    REPLACEABLE,
    FilesConfig,
    ImagesConfig,
    MusicConfig,
    RulesConfig,
    SearchConfig,
    SearchEngine,
    WebConfig,
)
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.config.fields import TakesEffect, declared
from glyphoxa_trio.config.layout import key_of
from glyphoxa_trio.config.llm import ModelConfig
from glyphoxa_trio.config.memory import EmbeddingsConfig, MemoryConfig
from glyphoxa_trio.config.model import TrustConfig
from glyphoxa_trio.config.overrides import ToolOverride
from glyphoxa_trio.config.s2s import (
    Eagerness,
    S2SConfig,
    S2SModel,
    S2SProvider,
    TurnDetection,
)
from glyphoxa_trio.config.scene import SceneConfig
from glyphoxa_trio.config.servers import OAuth, Transport
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.config.voices import (
    Engine,
    RecognitionConfig,
    RecognitionProvider,
    RecognizerConfig,
    SpeechConfig,
    SynthesisConfig,
    SynthesisProvider,
    SynthesizerConfig,
    VoiceConfig,
)
from glyphoxa_trio.npc import NpcSession
from glyphoxa_trio.npc.engines.speech import SpeechEngine
from glyphoxa_trio.npc.engines.text import TextEngine
from glyphoxa_trio.npc.scene import SceneActor
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.session import actor
from glyphoxa_trio.npc.speaking import voice_of
from glyphoxa_trio.observability import open_telemetry
from glyphoxa_trio.runtime import Environment, session_registry
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.hedging import HedgingRules
from glyphoxa_trio.tools.tier import TierLimits

from ..mcp.fakes import FakeServer

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------- the keys


@attrs.frozen
class Step:
    """One field on the way to a key, and whether its value is a collection."""

    name: str
    many: bool = False


@attrs.frozen
class Key:
    """One key: ``path`` as the file has it, with ``[]`` for what there are many of."""

    path: str
    steps: tuple[Step, ...]
    kind: Any
    effect: TakesEffect | None


# What a `.mcp.json` brings is no key of the configuration, nor what `${...}` stood for.
FOUND_ELSEWHERE = {
    *("mcp.from_mcp_json", "mcp.shared", "mcp.left_out"),
    "mcp.servers[].expanded",
}


def keys(
    model: type = Config,
    path: str = "",
    steps: tuple[Step, ...] = (),
    effect: TakesEffect | None = None,
) -> Iterator[Key]:
    hints = get_type_hints(model, include_extras=True)
    for field in attrs.fields(model):
        kind, many = _inner(hints[field.name])
        where = f"{path}{key_of(model, field)}"
        if where in FOUND_ELSEWHERE:
            continue
        so_far = (*steps, Step(field.name, many))
        found = effect or declared(field)
        if attrs.has(kind) and kind is not Secret:
            yield from keys(kind, f"{where}{'[]' * many}.", so_far, found)
        else:
            whole = (*steps, Step(field.name))
            yield Key(where, whole, _inner(hints[field.name], dig=False)[0], found)


def _inner(kind: Any, *, dig: bool = True) -> tuple[Any, bool]:
    """What a field holds, and whether it may hold many of it."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        given = next(x for x in get_args(kind) if x is not types.NoneType)
        return _inner(given, dig=dig)
    if dig and get_origin(kind) is tuple:
        return _inner(get_args(kind)[0])[0], True
    if dig and get_origin(kind) is Mapping:
        return _inner(get_args(kind)[1])[0], True
    return kind, False


KEYS = {key.path: key for key in keys()}
ALL = list(KEYS.values())


# ----------------------------------------------------- a configuration with all of it


SWITCHES = {
    f"s2s{of}.gemini_live.{key}"
    for of in ("", ".fallbacks[]")
    for key in ("proactive", "affective")
}


def _speech(here: str) -> SpeechConfig:
    synthesizer = SynthesizerConfig(
        provider=SynthesisProvider.OPENAI_SPEECH, model="m", base_url=here, voice="a"
    )
    recognizer = RecognizerConfig(
        provider=RecognitionProvider.TRANSCRIPTIONS, model="m", base_url=here
    )
    return SpeechConfig(
        synthesis=SynthesisConfig(
            provider=SynthesisProvider.OPENAI_SPEECH,
            model="m",
            base_url=here,
            voice="a",
            fallbacks=(synthesizer,),
        ),
        recognition=RecognitionConfig(
            provider=RecognitionProvider.TRANSCRIPTIONS,
            model="m",
            base_url=here,
            fallbacks=(recognizer,),
        ),
    )


def whole(folder: Path, key: str = "") -> Config:
    """Something of everything; nothing is measured, and nothing asks a network."""
    library = folder / "music"
    for name in ("music", "other", "base", "cwd"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("rules", "another"):
        entry = f'[{{"index": "{name}", "name": "{name}", "desc": "It is so."}}]'
        (folder / f"{name}.json").write_text(entry, encoding="utf-8")
    override = ToolOverride(idempotent=True, read_only=True)
    stdio = ServerSpec(
        name="faq",
        command=("x",),
        env={"PIN": Secret("1")},
        tools={"echo": override},
        allow=("echo", "sleep"),
    )
    http = ServerSpec(
        name="far",
        url="http://127.0.0.1:9/mcp",
        oauth=OAuth(
            client_id="me",
            client_secret=Secret("s"),
            token_url="http://127.0.0.1:9/token",
        ),
    )
    third = ServerSpec(name="third", command=("z",))
    here = "http://127.0.0.1:9/v1"
    return Config(
        npcs=(
            NpcConfig(
                name="Bo",
                personality="Says {caller_name}.",
                tools=("dice.*", "faq.*"),
                trust=TrustConfig(),
                voice=VoiceConfig(name="a", language="en"),
            ),
            NpcConfig(name="Vi", engine=Engine.S2S),
            NpcConfig(
                name="Di",
                engine=Engine.SENTENCE_CASCADE,
                fast_model="s",
                tools=("dice.*",),
            ),
        ),
        llm=LlmConfig(
            provider=Provider.CHAT_COMPLETIONS,
            model="m",
            base_url=here,
            temperature=0.5,
            fallbacks=(ModelConfig(provider=Provider.VLLM, model="c", base_url=here),),
        ),
        mcp=McpConfig(remember=False, servers=(stdio, http, third)),
        builtin=BuiltinConfig(
            dice=DiceConfig(tables={"omens": ("a", "b")}),
            # Its index takes longer to build than all the rest.
            rules=RulesConfig(enabled=key.startswith("builtin.rules")),
            files=FilesConfig(base=folder / "base"),
            web=WebConfig(
                enabled=True,
                search=SearchConfig(engine=SearchEngine.SEARXNG, base_url=here),
            ),
            music=MusicConfig(library=library),
            images=ImagesConfig(enabled=True, folder=folder, base_url=here),
        ),
        # It cannot override what its group has taken away.
        tools={} if key == "builtin.dice.enabled" else {"roll": override},
        calibration=CalibrationConfig(at_start=False),
        hedging=HedgingRules(replicas=(("faq", "far"),)),
        telemetry=TelemetryConfig(file=folder / "figures"),
        s2s=S2SConfig(
            provider=S2SProvider.GEMINI_LIVE
            if key.startswith("s2s.gemini_live")
            else S2SProvider.OPENAI_REALTIME,
            # Of the families only this one has a switch for each of these.
            model="gemini-2.5-native-audio" if key in SWITCHES else "r",
            base_url=here,
            fallbacks=(
                S2SModel(provider=S2SProvider.OPENAI_REALTIME, model="x"),
                S2SModel(
                    provider=S2SProvider.GEMINI_LIVE,
                    model="gemini-2.5-native-audio" if key in SWITCHES else "x",
                ),
            ),
        ),
        speech=_speech(here),
        scene=SceneConfig(context=("Rain.",)),
        cost=CostConfig(prices={"m": Price()}),
        sessions=SessionsConfig(key=Secret("a")),
        memory=MemoryConfig(
            store="off",
            embeddings=EmbeddingsConfig(path=folder)
            if key == "memory.embeddings.path"
            else EmbeddingsConfig(base_url=here, model="m"),
        ),
        template_defaults={"caller_name": "you"},
    )


# -------------------------------------------------------------------- another value


HTTP = "http://127.0.0.1:8/mcp"
FALLBACK_GEMINI = "s2s.fallbacks[].gemini_live."
# Which of several entries has the key; the first one if it is not here.
ENTRY = {
    "npcs[].cascade_mode": 2,
    "npcs[].fast_model": 2,
    "npcs[].s2s_model": 1,
    **dict.fromkeys((x for x in KEYS if x.startswith("mcp.servers[].auth.")), 1),
    **dict.fromkeys((x for x in KEYS if x.startswith(FALLBACK_GEMINI)), 1),
    "mcp.servers[].url": 1,
    "mcp.servers[].name": 2,
    "mcp.servers[].headers": 1,
}
OF_A_MODEL: dict[str, Any] = {
    "openai_realtime.eagerness": lambda old: attrs.evolve(
        old, eagerness=Eagerness.LOW, turn_detection=TurnDetection.SEMANTIC_VAD
    ),
    "openai_realtime.idle_timeout_ms": 6.0,
    "openai_realtime.extra": {"truncation": "auto"},
    "gemini_live.generation": {"temperature": 0.5},
}
# Values where the type alone does not give one that fits.
OTHERS: dict[str, Any] = {
    **dict.fromkeys(("llm.context_tokens", "llm.fallbacks[].context_tokens"), 4000),
    **{
        f"{of}.{key}": False  # what is not said is as it is with True
        for of in ("llm", "llm.fallbacks[]")
        for key in ("tool_choice", "stream_options", "tools")
    },
    **{
        # What is not warmed shows nothing of how long that may take.
        f"{of}.cold_start_ms": lambda old: attrs.evolve(old, warm=True, cold_start=9.0)
        for of in ("llm", "llm.fallbacks[]")
    },
    "llm.fallbacks[].warm": False,
    "npcs[].tools": ("roll_table", "faq.*"),
    "npcs[].trust.allow_tools": ("faq.echo",),
    "trust.allow_tools": ("faq.echo",),
    "npcs[].budget_tier": Tier.DEEP,
    "npcs[].voice.pronunciation": {"Ysolde": "ee-ZOLD"},
    "mcp.servers[].command": ("y",),
    "mcp.servers[].allow": ("echo",),
    "mcp.servers[].secrets": ("PIN",),
    "mcp.servers[].not_secret": ("PIN",),
    "mcp.servers[].transport": lambda old: attrs.evolve(
        old, transport=Transport.STREAMABLE_HTTP, command=(), env={}, url=HTTP
    ),
    "mcp.servers[].auth.token": Secret("t"),
    "mcp.servers[].tools[].expose_as": "shout",
    "mcp.servers[].tools[].read_only": False,
    "tools[].expose_as": "throw",
    # A write has to be idempotent to be cached, and the other way round.
    "tools[].read_only": False,
    "builtin.web.ports": (8080,),
    "builtin.web.allow_private": ("127.0.0.1",),
    "builtin.web.search.engine": lambda old: attrs.evolve(
        old, engine=SearchEngine.BRAVE, api_key=Secret("k")
    ),
    "builtin.images.size": "512x512",
    "builtin.dice.tables": {"omens": ("c", "d")},
    "hedging.replicas": (),
    "memory.accept_above": 0.5,
    "hedging.extra_calls": 0.5,
    "npcs[].s2s_model": "another",
    **{
        f"speech.{key}": value
        for of in ("", ".fallbacks[]")
        for key, value in {
            f"synthesis{of}.rate_hz": 16_000,
            f"synthesis{of}.provider": SynthesisProvider.ESPEAK,
            f"recognition{of}.provider": RecognitionProvider.POCKETSPHINX,
        }.items()
    },
    **dict.fromkeys(("s2s.speed", "s2s.fallbacks[].speed"), 1.2),
    **{
        f"{of}.{key}": value
        for of in ("s2s", "s2s.fallbacks[]")
        for key, value in OF_A_MODEL.items()
    },
    "llm.extra": {"top_p": 1},
    "llm.fallbacks[].extra": {"top_p": 1},
    "template_defaults": {"caller_name": "stranger"},
}


def other(key: Key, value: Any, folder: Path) -> Any:
    """Another value that fits the key."""
    kind = key.kind
    if key.path in OTHERS:
        return OTHERS[key.path]
    if kind is bool:
        return not value
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = list(kind)
        return (
            members[(members.index(value) + 1) % len(members)] if value else members[-1]
        )
    if kind is int:
        return (value or 0) + 1
    if kind is float:
        return 1.5 * value if value else 0.25
    if kind is Secret:
        return Secret("another")
    if kind is Path:
        name = "another.json" if key.path.endswith("datasets") else "other"
        return folder / name
    if kind is str and ("url" in key.path or "address" in key.path):
        return "http://127.0.0.1:8/v1"
    if kind is str:
        return "another"
    if get_origin(kind) is tuple and get_args(kind)[0] is Path:
        return (folder / "another.json",)
    if get_origin(kind) is tuple:
        return (*(value or ()), "another")
    if get_origin(kind) is Mapping and get_args(kind)[1] is Secret:
        return {"ANOTHER": Secret("a")}
    if get_origin(kind) is Mapping:
        return {**(value or {}), "another": "one"}
    raise NotImplementedError(f"OTHERS has no value for {key.path}, a {kind}")


def changed(old: Any, key: Key, steps: tuple[Step, ...], folder: Path) -> Any:
    """The configuration, or part of it, with another value at the end of ``steps``."""
    step, rest = steps[0], steps[1:]
    value = getattr(old, step.name)
    if not rest:
        new = other(key, value, folder)
        if isinstance(new, types.FunctionType):
            return new(old)
        return attrs.evolve(old, **{step.name: new})
    if not step.many:
        inner = changed(value, key, rest, folder)
    elif isinstance(value, Mapping):
        first = next(iter(value))
        inner = {**value, first: changed(value[first], key, rest, folder)}
    else:
        # Only the outermost collection has a choice.
        at = ENTRY.get(key.path, 0)
        entry = changed(value[at], key, rest, folder)
        inner = (*value[:at], entry, *value[at + 1 :])
    return attrs.evolve(old, **{step.name: inner})


def value_at(config: Any, key: Key) -> Any:
    """What the key holds; of those in a list, the whole list."""
    for step in key.steps:
        config = getattr(config, step.name)
        if step.many:
            break
    return config


# ------------------------------------------------------------------- what is there


def insides(x: Any, seen: tuple[int, ...] = ()) -> Any:
    """What a thing was made with, as plain values: also of what a function closes over,
    which is where a tool has its settings."""
    if id(x) in seen:
        return "..."
    seen = (*seen, id(x))
    if isinstance(x, Secret):
        return x.reveal()
    if x is None or isinstance(x, str | int | float | bytes | Enum | Path):
        return x
    if isinstance(x, Mapping):
        return {str(key): insides(value, seen) for key, value in x.items()}
    if isinstance(x, tuple | list | set | frozenset):
        parts = [insides(part, seen) for part in x]
        return sorted(parts, key=str) if isinstance(x, set | frozenset) else parts
    if isinstance(x, types.MethodType):
        return insides(x.__self__, seen)
    if isinstance(x, types.FunctionType):
        return {**insides(getclosurevars(x).nonlocals, seen), "": x.__qualname__}
    if attrs.has(type(x)):
        made = [field for field in attrs.fields(type(x)) if field.init]
        return type(x).__name__, [insides(getattr(x, f.name), seen) for f in made]
    return type(x).__name__


@attrs.define(eq=False)
class Seen:
    """A runtime, and the owners inside it that nobody else gets to see."""

    runtime: Runtime
    made: list[Any]
    telemetry: Any

    def latest(self, kind: type) -> Any:
        return [x for x in self.made if isinstance(x, kind)][-1]

    async def settled(self) -> None:
        """Every NPC that there is has a session, and nothing is under way."""
        for npc in self.runtime.npcs:
            self.runtime.npc(npc.name)
        await wait_all_tasks_blocked()

    def sessions(self) -> list[NpcSession]:
        """Of those NPCs that there are."""
        found = {x.settings.npc.name: x for x in self.made if isinstance(x, NpcSession)}
        return [found[npc.name] for npc in self.runtime.npcs]

    def session(self, name: str) -> NpcSession:
        (found,) = [x for x in self.sessions() if x.settings.npc.name == name]
        return found


Look = Callable[[Seen], Any]


def npcs(seen: Seen) -> Any:
    """Who there is, and how each of them answers."""
    return [
        (
            (npc := session.settings.npc).name,
            session.memory.conversation.prompt_text,
            session.memory.opening._greeting,
            (npc.engine, session.runner.engine.speaks),
            session.runner.engine.may_speculate,
            npc.cascade_mode,
            # Asked for in each turn, and for the variables of its prompt.
            (npc.select_tier, npc.context_name),
            insides(fast_of(session)),
            insides(session.runner.links.llm),
            session.runner.tiers.ceiling(session.settings),
            session.settings.grant,
            npc.fallback,
            npc.prompts,
            voice_of(npc.voice),
            npc.voice.extra,
            (live := session.runner.engine.live) and (live.voice, live.language),
            live and insides(live.provider),
        )
        for session in seen.sessions()
    ]


def fast_of(session: NpcSession) -> Any:
    engine = session.runner.engine
    return engine._fast.llm if isinstance(engine, TextEngine) else None


def servers(seen: Seen) -> Any:
    """What is connected, with what, and what it offers under which names."""
    runtime = seen.runtime
    return (
        [(insides(spec), spec.name) for spec in runtime._fleet.specs()],
        sorted(
            (x.exposed, insides(x.definition))
            for x in runtime.host.snapshot.listings
            if x.definition.external
        ),
    )


def tools(seen: Seen) -> Any:
    """The built-in tools, and what each was made with."""
    return [
        (x.exposed, insides(x.definition), insides(x.tool.function or x.tool.handler))
        for x in seen.runtime.host.snapshot.listings
        # What remembers is each run's own.
        if not x.definition.external and x.definition.group not in REPLACEABLE
    ]


def models(seen: Seen) -> Any:
    return insides(seen.runtime.llm), [
        insides(x.runner.links.llm) for x in seen.sessions()
    ]


def grants(seen: Seen) -> Any:
    return [session.settings.grant for session in seen.sessions()]


def conversation(seen: Seen) -> Any:
    """How much of a conversation is remembered, and what is known in it."""
    return [
        (
            session.runner.settings.turn,
            session.memory.conversation.limit,
            session.memory.conversation.most_overheard,
            session.memory.conversation.prompt_text,
        )
        for session in seen.sessions()
    ]


def s2s(seen: Seen) -> Any:
    """The conversation with a model that speaks, and the bridge to its tools."""
    session = seen.session("Vi")
    engine = session.runner.engine
    assert isinstance(engine, SpeechEngine)
    live, config = engine.live, engine._settings.s2s
    return (
        insides(live.provider),
        (live.voice, live.language, live.automatic),
        (live._sockets.settings.rotate, live._sockets.settings.idle),
        [
            (insides(x.provider), x.voice, x.language, x.name)
            for x in live._sockets.choices.of
        ],
        (config.route, config.filler),
        (engine._bridge.tool_timeout, engine._bridge.defer_threshold),
    )


def deferral(seen: Seen) -> Any:
    return [
        session.runner.settings.defer_threshold for session in seen.sessions()
    ], s2s(seen)


# By how a key begins: the longest that fits is asked.
LOOKS: dict[str, Look] = {
    "npcs[]": npcs,
    "llm": models,
    "mcp.enabled": servers,
    "mcp.servers[]": servers,
    "mcp.defer_threshold": deferral,
    "trust": grants,
    "builtin": tools,
    "tools[]": tools,
    "selector": lambda seen: seen.latest(Selector).rules,
    "turn": conversation,
    "overload": lambda seen: seen.runtime.overload.config,
    "speculation": lambda seen: [x.runner.speculator.config for x in seen.sessions()],
    "telemetry": lambda seen: seen.telemetry._runtime.config.telemetry,
    "s2s": s2s,
    "filler": lambda seen: [x.memory.fillers.config for x in seen.sessions()],
    "scene": conversation,
    "scene.players": lambda seen: seen.latest(SceneActor).settings().players,
    "sessions": lambda seen: seen.runtime._cast.config.sessions,
    "memory.recall": lambda seen: seen.runtime.config.memory.recall,
    "cost": lambda seen: seen.runtime._cast.services.costs.config,
    "template_defaults": conversation,
}
# Read into other keys, so that only a file shows it.
FROM_A_FILE = {x for x in KEYS if x.startswith("mcp.defaults.")}


def look_for(path: str) -> Look:
    fits = [begin for begin in LOOKS if path.startswith(begin)]
    assert fits, f"LOOKS has nothing that shows {path}, which is declared live"
    return LOOKS[max(fits, key=len)]


@asynccontextmanager
async def opened(
    chosen: Config, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Seen]:
    made: list[Any] = []

    def noting(kind: type) -> Callable[..., Any]:
        def make(*args: Any, **more: Any) -> Any:
            made.append(kind(*args, **more))
            return made[-1]

        return make

    with monkeypatch.context() as patched:
        for kind, where in (
            (NpcSession, actor),
            (Selector, session_registry),
            (SceneActor, session_registry),
        ):
            patched.setattr(where, kind.__name__, noting(kind))
        world = Environment(open_session=FakeServer().open, run="f" * 32)
        async with AsyncExitStack() as stack:
            opening = open_runtime(chosen, environment=world)
            runtime = await stack.enter_async_context(opening)
            telemetry = await stack.enter_async_context(open_telemetry(runtime))
            await runtime.wait_ready(within=5)
            runtime.scene()
            seen = Seen(runtime, made, telemetry)
            await seen.settled()
            yield seen


def test_every_key_is_declared() -> None:
    where = "give the field, or the section it is in, metadata=LIVE or NEXT_START"
    for path, key in KEYS.items():
        assert key.effect is not None, f"{path}: {where}"


def test_the_keys_are_those_of_the_file() -> None:
    assert len(KEYS) == len(list(keys())) > 200
    assert {
        "npcs[].voice.speed",
        "mcp.servers[].restart.backoff_ms",
        "mcp.servers[].auth.oauth.client_id",
        "mcp.servers[].tools[].cacheable_seconds",
        "tiers.fast.threshold_ms",
        "cost.prices[].cached",
        "s2s.tool_timeout_ms",
    } <= KEYS.keys()


@pytest.mark.parametrize(
    "key",
    [
        # One in ten, from every section, stands for the others.
        pytest.param(key, id=path, marks=() if number % 10 == 0 else pytest.mark.long)
        for number, (path, key) in enumerate(zip(KEYS, ALL, strict=True))
    ],
)
async def test_a_changed_key_is_seen_or_said(
    key: Key,
    tmp_path: Path,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # A44
    before = whole(tmp_path, key.path)
    after = changed(before, key, key.steps, tmp_path)
    assert after != before
    if key.effect is not TakesEffect.LIVE:
        async with opened(before, monkeypatch) as seen:
            done = await seen.runtime.reload(after)
            assert done.at_next_start == (key.path.partition("[]")[0],)
            assert value_at(seen.runtime.config, key) == value_at(before, key)
        return
    if key.path in FROM_A_FILE:
        return  # test_what_servers_get_by_default_is_seen
    look = look_for(key.path)
    async with opened(after, monkeypatch) as seen:
        wanted = look(seen)
    async with opened(before, monkeypatch) as seen:
        was = look(seen)
        assert was != wanted, "LOOKS has nothing that shows the difference"
        done = await seen.runtime.reload(after)
        await seen.runtime.wait_ready(within=5)
        await seen.settled()
        assert done.at_next_start == ()
        assert look(seen) == wanted


@pytest.mark.parametrize("path", sorted(FROM_A_FILE))
async def test_what_servers_get_by_default_is_seen(
    path: str,
    tmp_path: Path,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = path.removeprefix("mcp.defaults.")
    value = "another" if KEYS[path].kind is str else 7000
    file = tmp_path / "table.yaml"
    lines = ["mcp:", "  remember: false", "  servers: {faq: {command: x}}"]
    file.write_text("\n".join(lines))
    world = Environment(open_session=FakeServer().open)
    async with open_runtime(file, environment=world) as runtime:
        lines.append(f"  defaults: {{{name}: {value}}}")
        file.write_text("\n".join(lines))
        done = await runtime.reload()
        assert done.at_next_start == ()
        assert done.changed == ("faq",)
        (spec,) = runtime._fleet.specs()
        field = KEYS[path].steps[-1].name
        assert getattr(spec, field) == (7.0 if value == 7000 else value)


async def test_telemetry_is_off_at_once_and_on_at_the_next_start(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    off = whole(tmp_path)
    on = attrs.evolve(off, telemetry=attrs.evolve(off.telemetry, enabled=True))
    world = Environment(open_session=FakeServer().open)
    async with open_runtime(on, environment=world) as runtime:
        assert (await runtime.reload(off)).at_next_start == ()
        assert not runtime.config.telemetry.enabled
        assert (await runtime.reload(on)).at_next_start == ("telemetry.enabled",)
        assert not runtime.config.telemetry.enabled


@pytest.mark.parametrize("page", ["docs/operating.md", "config/reference.yaml"])
def test_what_waits_for_the_next_start_is_documented(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    told = text.split("telemetry.interval_hours", 1)[0][-300:]
    late = {key.path for key in ALL if key.effect is TakesEffect.NEXT_START}
    for path in late - {"telemetry.interval_hours"}:
        section = path.split(".")[0]
        if section in ("builtin", "mcp", "telemetry"):  # only in part
            section = ".".join(path.split(".")[:2])
        assert section in told, f"{page} does not say that {section} waits"


def test_limits_are_the_only_ones_whose_tiers_are_named_by_hand() -> None:
    # `key_of` has them from a table, so a new one must be put there.
    assert {key_of(TierLimits, field) for field in attrs.fields(TierLimits)} == {
        f"{tier}.{limit}_ms"
        for tier in ("fast", "standard", "deep")
        for limit in ("threshold", "ceiling")
        if (tier, limit) != ("deep", "threshold")
    }
