"""From a file to a `Config`, or to every problem in it at once (D14).

A problem of one value does not hide another's. Only an object's contradictions
(a stdio server without a command) wait until its own values are sound: after a
misspelt key they would be noise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from pathlib import Path, PurePath
from typing import Any, TypeVar

import attrs

from .formats import read_file, read_text
from .mcp_json import Shared, find_mcp_json, parse_mcp_json, stranger_of
from .model import Config
from .problems import ConfigError, Misfit
from .reader import Reader
from .scalars import Scalars
from .servers import McpConfig, McpDefaults

T = TypeVar("T")


def load_config(
    path: str | os.PathLike[str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
    mcp_json: bool = True,
) -> Config:
    """The configuration in a file; its suffix says the format. Blocks on reading.

    The servers of the project's ``.mcp.json`` come with it, behind its own (N9):
    the nearest one from the file's folder upward, within its repository.

    Args:
      warn: told of what is odd and no error; names the place.
      mcp_json: False leaves that file alone, as ``mcp.enabled: false`` does.

    Raises:
      ConfigError: with every problem of both, each with its place.
    """
    source = Path(path).absolute()
    tell = warn or _ignore
    config = Config()
    problems: list[str] = []
    try:
        config = load_text(read_file(source), source=source, env=env, warn=warn)
    except ConfigError as error:
        problems += error.problems
    found = find_mcp_json(source.parent) if mcp_json and config.mcp.enabled else None
    if found is not None:
        try:
            shared = _load_shared(found, source, config.mcp, env)
        except ConfigError as error:
            problems += error.problems
        else:
            servers = config.mcp.servers + shared.servers
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, servers=servers))
            for text in shared.warnings:
                tell(text)
    if problems:
        raise ConfigError(*problems)
    return config


def _ignore(_: str) -> None:
    """For callers that want no warnings."""


def _load_shared(
    found: Path, config: Path, mcp: McpConfig, env: Mapping[str, str] | None
) -> Shared:
    if (why := stranger_of(found, config)) is not None:
        return Shared(warnings=(why,))
    taken = {spec.name for spec in mcp.servers}
    return load_mcp_json(found, env=env, defaults=mcp.defaults, taken=taken)


def load_mcp_json(
    path: Path,
    *,
    env: Mapping[str, str] | None = None,
    defaults: McpDefaults | None = None,
    taken: Container[str] = (),
    only: str | None = None,
) -> Shared:
    """The servers of a ``.mcp.json``; see `parse_mcp_json`. Blocks on reading.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = path.absolute()
    data, repeated = read_text(read_file(source), source=source)
    if repeated:  # which of the two others take is anybody's guess
        raise ConfigError(*repeated)
    environment = os.environ if env is None else env
    return parse_mcp_json(
        data,
        source=source,
        env=environment,
        defaults=defaults,
        taken=taken,
        only=only,
    )


def load_text(
    text: str,
    *,
    source: PurePath,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Config:
    """The configuration in a text, as if it stood in the file ``source``.

    Raises:
      ConfigError: see `load_config`.
    """
    data, repeated = read_text(text, source=source)
    if data is None:
        raise ConfigError(*repeated, f"the file is empty @ {source.name}")
    try:
        config = parse(data, source=source, env=env, warn=warn)
    except ConfigError as error:
        raise ConfigError(*repeated, *error.problems) from None
    if repeated:
        raise ConfigError(*repeated)
    return config


def parse(
    data: Any,
    *,
    source: PurePath,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Config:
    """Plain data as a `Config`. Paths are relative to the folder of ``source``.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    reader = Reader(Scalars(os.environ if env is None else env, Path(source).parent))
    config: Config = _read_as(reader, data, Config, source)
    for where, what in reader.warnings.found:
        (warn or _ignore)(f"{what} @ {source.name}{where}")
    return config


def load_as(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Another file than a configuration, read by the same rules into ``kind``.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = Path(path).absolute()
    data, repeated = read_text(read_file(source), source=source)
    reader = Reader(Scalars(os.environ, source.parent))
    if repeated:
        raise ConfigError(*repeated)
    return _read_as(reader, {} if data is None else data, kind, source)


def _read_as(reader: Reader, data: Any, kind: type[T], source: PurePath) -> T:
    try:
        made: T = reader.converter.structure(data, kind)
        return made
    except Misfit as misfit:
        places = misfit.found
    except ConfigError as error:
        places = [("", what) for what in error.problems]
    except ValueError as error:
        places = [("", str(error))]
    raise ConfigError(*(f"{what} @ {source.name}{where}" for where, what in places))
