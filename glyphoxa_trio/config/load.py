"""From a file to a `Config`, or to every problem in it at once.

A problem of one value does not hide another's. Only an object's contradictions
(a stdio server without a command) wait until its own values are sound: after a
misspelt key they would be noise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, TypeVar

import attrs

from .addresses import address_warnings
from .excerpts import advice
from .formats import lines_of, read_file, read_text
from .mcp_json import (
    Shared,
    find_mcp_json,
    names_in,
    parse_mcp_json,
    stranger_of,
)
from .model import Config
from .problems import ConfigError, ConfigMisfit
from .reader import ConfigReader
from .scalars import Scalars
from .servers import McpDefaults
from .shared import LeftOut

T = TypeVar("T")


def load_config(
    path: str | os.PathLike[str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
    mcp_json: bool = True,
) -> Config:
    """The configuration in a file; its suffix says the format. Blocks on reading.

    The servers of the project's ``.mcp.json`` come with it, as ``mcp.shared`` and
    ``mcp.left_out``. That is the nearest one from the file's folder upward, within its
    repository. None of these servers is started until the user agrees (`admitted`).

    Args:
      warn: told of oddities that are no errors, each with its place.
      mcp_json: False does not read that file.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = Path(path).absolute()
    tell = warn or _ignore
    config = Config()
    problems: list[str] = []
    try:
        config = load_text(read_file(source), source=source, env=env, warn=warn)
    except ConfigError as error:
        problems += error.problems
    found = find_mcp_json(source.parent) if mcp_json else None
    if found is not None:
        shared = _load_shared(found, source, config, env)
        mcp = attrs.evolve(config.mcp, shared=shared.entries, left_out=shared.left_out)
        config = attrs.evolve(config, mcp=mcp)
        for text in shared.warnings:
            tell(text)
    try:
        base = config.builtin.files.base
        if base is not None:
            kept = [source, *(() if found is None else (found,))]
            apart(base, [*kept, *config.builtin.rules.datasets])
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return config


def apart(base: Path, kept: Iterable[Path]) -> Path:
    """The folder of NPCs' files, if none of ``kept`` is in it, and it in none of them.

    Raises:
      ConfigError: for what NPCs could write over, or read, otherwise.
    """
    root = Path(os.path.realpath(base))
    for path in kept:
        own = Path(os.path.realpath(path))
        if _is_in(own, root) or _is_in(root, own):
            raise ConfigError(
                f"NPCs may write in {base}, and {path} must not be theirs to write:"
                " give their files a folder of their own @ builtin.files.base"
            )
    return base


def _is_in(path: Path, folder: Path) -> bool:
    """Also where the disk knows one folder by several names, or takes no case."""
    if path.is_relative_to(folder):
        return True
    with suppress(OSError):
        there = folder.stat()
        for parent in (path, *path.parents):
            with suppress(OSError):
                if os.path.samestat(parent.stat(), there):
                    return True
    return False


def _ignore(_: str) -> None:
    """For callers that want no warnings."""


def _load_shared(
    found: Path, source: Path, config: Config, env: Mapping[str, str] | None
) -> Shared:
    """The servers of a ``.mcp.json``. It belongs to other programs, too, so whatever is
    wrong in it is no error here."""
    if (why := stranger_of(found, source)) is not None:
        return Shared(left_out=(LeftOut(name=None, why=why),), warnings=(why,))
    mcp = config.mcp
    try:
        if not mcp.enabled:
            return _switched_off(found)
        taken = {spec.name for spec in mcp.servers}
        return load_mcp_json(
            found,
            env=env,
            defaults=mcp.defaults,
            taken=taken,
            groups=config.builtin.groups,
        )
    except ConfigError as error:
        return Shared(
            left_out=(
                LeftOut(
                    name=None,
                    why="; ".join(error.problems),
                    switched_off=not mcp.enabled,
                ),
            ),
            warnings=tuple(
                f"no server of that file is used: {what}" for what in error.problems
            )
            if mcp.enabled
            else (),
        )


def _switched_off(found: Path) -> Shared:
    """The names of the file's servers: nothing else matters if MCP is switched off."""
    data, _ = read_text(read_file(found), source=found)
    left = [
        LeftOut(name=name, why="mcp.enabled is false", switched_off=True)
        for name in names_in(data)
    ]
    return Shared(left_out=tuple(left))


def load_mcp_json(
    path: Path,
    *,
    env: Mapping[str, str] | None = None,
    defaults: McpDefaults | None = None,
    taken: Container[str] = (),
    groups: Container[str] = (),
    only: str | None = None,
) -> Shared:
    """The servers of a ``.mcp.json``; see `parse_mcp_json`. Blocks on reading.

    Raises:
      ConfigError: if the file as a whole cannot be understood.
    """
    source = path.absolute()
    data, repeated = read_text(read_file(source), source=source)
    if repeated:  # other programs may take either of the two
        raise ConfigError(*repeated)
    environment = os.environ if env is None else env
    return parse_mcp_json(
        data,
        source=source,
        env=environment,
        defaults=defaults,
        taken=taken,
        groups=groups,
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
        config = _parse(data, source, env, warn, text)
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
    return _parse(data, source, env, warn, None)


def _parse(
    data: Any,
    source: PurePath,
    env: Mapping[str, str] | None,
    warn: Callable[[str], None] | None,
    text: str | None,
) -> Config:
    """As `parse`; with the ``text`` of a YAML file, problems tell their lines."""
    reader = ConfigReader(
        Scalars(os.environ if env is None else env, Path(source).parent)
    )
    config: Config = read_as(reader, data, Config, source, text)
    for where, what in (*reader.warnings.found, *address_warnings(config)):
        (warn or _ignore)(f"{what} @ {source.name}{where}")
    return config


def load_as(path: str | os.PathLike[str], kind: type[T]) -> T:
    """Another file than a configuration, read by the same rules into ``kind``.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    source = Path(path).absolute()
    data, repeated = read_text(read_file(source), source=source)
    reader = ConfigReader(Scalars(os.environ, source.parent))
    if repeated:
        raise ConfigError(*repeated)
    return read_as(reader, {} if data is None else data, kind, source)


def read_as(
    reader: ConfigReader,
    data: Any,
    kind: type[T],
    source: PurePath,
    text: str | None = None,
) -> T:
    """Plain data as a ``kind``; with the ``text`` of a YAML file, problems tell lines.

    Raises:
      ConfigError: with every problem, each with its place.
    """
    try:
        made: T = reader.converter.structure(data, kind)
        return made
    except ConfigMisfit as misfit:
        places = misfit.found
    except ConfigError as error:
        places = [("", what) for what in error.problems]
    except ValueError as error:
        places = [("", str(error))]
    lines = [""] * len(places)
    is_yaml = source.suffix.lower() in (".yaml", ".yml")
    if text is not None and is_yaml:
        lines = lines_of(text, places)
    raise ConfigError(
        *(
            f"{what}{advice(what, where) if is_yaml else ''}{line}"
            f" @ {source.name}{where}"
            for (where, what), line in zip(places, lines, strict=True)
        )
    )
