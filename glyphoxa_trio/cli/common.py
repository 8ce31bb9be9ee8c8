"""The parts that commands share: the model's options, errors as lines, a sure end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    Provider,
)
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.config.presets import PRESETS, named
from glyphoxa_trio.config.secrecy import Masks
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.recall.place import place_of
from glyphoxa_trio.secret import Secret

from .consent import load

# Seconds for servers to be ready, for commands that need all of them: remembered
# tools are not enough for those.
WAIT: Final = 30.0
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# Longer than any orderly end takes; only a handler that shields itself gets here.
HARD_EXIT_AFTER: Final = 6.0
_ANY_KEY: Final = "OPENAI_API_KEY"  # of a server without a preset
_SAID: Final = (
    *("provider", "model", "base_url", "api_key", "temperature"),
    *("max_tokens", "extra", "fallbacks"),
)


def _of_the_server(field: attrs.Attribute[Any], _: object) -> bool:
    return field.name not in _SAID


@attrs.frozen
class Model:
    """The model of the command line, in place of the configured one and its fallbacks.

    ``provider:name`` is one of that preset. Else it is at the configured server, in its
    protocol; another address is that of a server of chat completions.
    """

    name: str | None = None
    base_url: str | None = None

    def applied_to(self, config: Config) -> Config:
        """The configuration with this model for every NPC.

        Raises:
          ConfigError: for an address that is none.
        """
        if self.name is None:
            return config
        given = config.llm
        provider, name = named(self.name)
        elsewhere = self.base_url not in (None, given.base_url)
        if provider is None:
            provider = given.provider
            if provider is Provider.OFFLINE or elsewhere:
                provider = Provider.CHAT_COMPLETIONS
        another = given.provider not in (provider, Provider.OFFLINE)
        base_url = self.base_url or (None if another else given.base_url)
        if provider is Provider.CHAT_COMPLETIONS and base_url is None:
            provider = Provider.OPENAI
        variable = PRESETS[provider].key
        if provider is Provider.CHAT_COMPLETIONS:
            variable = _ANY_KEY
        key = os.environ.get("GLYPHOXA_API_KEY") or os.environ.get(variable)
        # A configured key is for the configured server, and for no other.
        configured = None if elsewhere or another else given.api_key
        same = {} if another else attrs.asdict(given, filter=_of_the_server)
        try:
            llm = LlmConfig(
                **same,
                provider=provider,
                model=name,
                base_url=base_url,
                api_key=Secret(key) if key else configured,
                temperature=given.temperature,
                max_tokens=given.max_tokens,
                extra={} if another else given.extra,
            )
        except ValueError as error:
            raise ConfigError(f"{error} @ --base-url") from None
        # --model is for every NPC, also for one that has models of its own.
        npcs = tuple(
            attrs.evolve(npc, model=None, fast_model=None) for npc in config.npcs
        )
        return attrs.evolve(config, llm=llm, npcs=npcs)


def without_calibration(config: Config) -> Config:
    """Return the configuration without calibration at the start, for short commands."""
    return attrs.evolve(
        config, calibration=attrs.evolve(config.calibration, at_start=False)
    )


def memory_of(config: Config, path: Path, session: Path | None = None) -> str:
    """Return the ``memory`` of a runtime that a command opens to talk to NPCs.

    That is a file in the state folder, unless the configuration says otherwise, the
    conversation is kept in a file of its own (``session``), or nothing is to be
    remembered between runs.
    """
    kept_elsewhere = session is not None or not config.mcp.remember
    if config.memory.store is None and kept_elsewhere:
        return OFF
    return place_of(config, path) or OFF


def complain(error: GlyphoxaError) -> int:
    from .render import on_screen  # knows every room, and --help needs none

    for line in on_screen(str(error)).splitlines():
        print(f"glyphoxa: {line}", file=sys.stderr)  # noqa: T201 a command speaks
    return BAD_INPUT


def warn(text: str) -> None:
    """Print an oddity of a configuration as a line of the error stream."""
    from .render import on_screen  # knows every room, and --help needs none

    print(f"glyphoxa: warning: {on_screen(text)}", file=sys.stderr)  # noqa: T201


def run(
    main: Callable[[Config], Awaitable[int]],
    path: Path,
    model: Model,
    *,
    on_error: Callable[[GlyphoxaError], int] = complain,
    on_warning: Callable[[str], None] = warn,
    clock: trio.abc.Clock | None = None,
    starts: bool = True,
) -> int:
    """Load, run, and return the exit status; an error on purpose is a line.

    Ctrl-C and SIGTERM leave in order, so that no server is left behind.

    Args:
      starts: False if no server is started, so that no question is asked.
    """

    async def body() -> int:
        config = model.applied_to(await load(path, warn=on_warning, starts=starts))
        with quiet(Masks(lambda: config).text):
            return await main(config)

    return run_orderly(body, on_error=on_error, clock=clock)


def run_orderly(
    main: Callable[[], Awaitable[int]],
    *,
    on_error: Callable[[GlyphoxaError], int] = complain,
    clock: trio.abc.Clock | None = None,
) -> int:
    """As `run`, for verbs that load no configuration, or more than that."""

    async def body() -> int:
        with trio.CancelScope() as scope:

            def leave(_: int) -> None:
                scope.cancel("a signal")
                end_for_sure()

            async with interrupts(leave):
                return await main()
        return INTERRUPTED

    try:
        return trio.run(body, clock=clock)
    except GlyphoxaError as error:
        return on_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def end_for_sure(after: float = HARD_EXIT_AFTER) -> None:
    """Leave the process after so many seconds, even if something resists.

    trio cannot end a handler that shields itself, and a person who has asked to
    leave twice must not wait for one. Servers are killed: not all of them end with
    their stdin.
    """
    timer = threading.Timer(after, _leave_now)
    timer.daemon = True
    timer.start()


def _leave_now() -> None:
    from glyphoxa_trio.mcp.process import kill_all

    kill_all()
    os._exit(INTERRUPTED)
