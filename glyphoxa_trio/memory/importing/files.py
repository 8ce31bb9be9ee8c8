"""World data in files and folders, of whatever kind they are.

A file's content tells its kind. Nothing is written, and a file that cannot be read
refuses the whole import.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.config import ConfigError

from . import campaign_file, campaign_server, foundry, roll20, sillytavern
from .data import MOST_BYTES, MOST_FILES, ImportKind, ImportRefused
from .drafts import Drafts
from .foundry_documents import is_document

SQLITE: Final = b"SQLite format 3\x00"
MEMORY_FORMAT: Final = "glyphoxa.memory/1"
_CONFIGURED: Final = (".yaml", ".yml", ".toml")
_SUFFIXES: Final = (".json", ".db", ".jsonl", ".png", *_CONFIGURED)
_LEVEL_DB: Final = "CURRENT"  # a file that each of its folders has

# Returns the documents in a file of the campaign server.
Documents = Callable[[Path], Iterable[Mapping[str, Any]]]


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return the files, and instead of folders what they contain, in a fixed order.

    Raises:
      ImportRefused: a folder cannot be read, has nothing to import or too much.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(
            x for x in path.rglob("*") if x.is_file() and not x.name.startswith(".")
        )
        if any(x.name == _LEVEL_DB for x in inside):
            raise ImportRefused(
                f"{path}: it is a pack of Foundry in the format LevelDB; unpack it to"
                " JSON with Foundry's own command, or export the documents one by one"
            )
        wanted = [x for x in inside if x.suffix.lower() in _SUFFIXES]
        if not wanted:
            raise ImportRefused(f"{path}: there is no {', '.join(_SUFFIXES)} in it")
        found += wanted
    if len(found) > MOST_FILES:
        raise ImportRefused(f"there are {len(found)} files; at most {MOST_FILES}")
    return found


def read_file(
    path: Path, drafts: Drafts, *, kind: ImportKind | None, documents: Documents
) -> None:
    """Add the items of one file to the drafts. Blocks on reading.

    Args:
      kind: the kind of the file; None tells it by its content.
      documents: reads the file of a campaign server.

    Raises:
      ImportRefused: the file cannot be read, or is of no known kind.
    """
    drafts.begin(path.name)
    data = content_of(path)
    if data.startswith(SQLITE):
        if kind not in (None, ImportKind.CAMPAIGN_SERVER):
            raise ImportRefused(f"{path}: it is a database, and not {kind}")
        for document in documents(path):
            campaign_server.read(document, drafts)
        return
    if data.startswith(sillytavern.PNG):
        try:
            card = sillytavern.card_in(data)
        except ImportRefused as error:
            raise ImportRefused(f"{path}: {error}") from None
        if card is None:
            drafts.skip("the picture", "there is no card in it")
            return
        read_text(card, path, drafts, kind=ImportKind.SILLYTAVERN)
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImportRefused(f"{path}: it is not UTF-8 text") from None
    read_text(text, path, drafts, kind=kind)


def content_of(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
      ImportRefused: it cannot be read, or is too large.
    """
    try:
        if not path.is_file():
            why = "it is not a file" if path.exists() else "there is no such file"
            raise ImportRefused(f"{path}: {why}")
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ImportRefused(f"{path}: {error.strerror or error}") from None
    if len(data) > most:
        raise ImportRefused(f"{path}: it has more than {most // 2**20} MiB")
    return data


def read_text(
    text: str, path: Path, drafts: Drafts, *, kind: ImportKind | None
) -> None:
    """Add the items of a text to the drafts, as those of a file of that name.

    Raises:
      ImportRefused: it is broken, or of no known kind.
    """
    suffix = path.suffix.lower()
    if suffix in _CONFIGURED and kind in (None, ImportKind.CAMPAIGN):
        _campaign(text, path, drafts)
        return
    data = parsed(text, path)
    match kind or kind_of(data):
        case ImportKind.FOUNDRY:
            foundry.read(data if isinstance(data, list) else [data], drafts)
        case ImportKind.ROLL20 if isinstance(data, Mapping):
            roll20.read(data, drafts)
        case ImportKind.SILLYTAVERN if isinstance(data, Mapping):
            sillytavern.read(data, drafts)
        case ImportKind.CAMPAIGN_SERVER if isinstance(data, Mapping):
            campaign_server.read(data, drafts)
        case ImportKind.CAMPAIGN if isinstance(data, Mapping):
            _campaign(text, path.with_suffix(".json"), drafts)
        case ImportKind.MEMORY:
            raise ImportRefused(
                f"{path}: an export of a memory is imported by itself, without others"
            )
        case None:
            known = ", ".join(ImportKind)
            raise ImportRefused(
                f"{path}: its kind cannot be told by its content; say which with --as:"
                f" {known}"
            )
        case other:
            raise ImportRefused(f"{path}: it is not of the kind {other}")


def _campaign(text: str, path: Path, drafts: Drafts) -> None:
    try:
        campaign_file.read(text, path, drafts)
    except ConfigError as error:
        raise ImportRefused(str(error)) from None


def kind_of(data: Any) -> ImportKind | None:
    """Return the kind of parsed JSON; None if it cannot be told."""
    first = data[0] if isinstance(data, list) and data else data
    if isinstance(data, Mapping) and data.get("format") == MEMORY_FORMAT:
        return ImportKind.MEMORY
    if campaign_server.is_export(data):
        return ImportKind.CAMPAIGN_SERVER
    if roll20.is_archive(data):
        return ImportKind.ROLL20
    if campaign_file.is_campaign(data) and "_id" not in data:
        return ImportKind.CAMPAIGN
    if sillytavern.is_sillytavern(data):
        return ImportKind.SILLYTAVERN
    if is_document(first) or isinstance(foundry_list(data), list):
        return ImportKind.FOUNDRY
    return None


def foundry_list(data: Any) -> list[Any] | None:
    """Return a list in which some entry is a document of Foundry; else None."""
    if isinstance(data, list) and any(is_document(x) for x in data[:50]):
        return data
    return None


def parsed(text: str, path: Path) -> Any:
    """Return a JSON text as data, and lines of JSON as a list.

    Of several lines with the same ``_id`` the last one counts.

    Raises:
      ImportRefused: it is broken, with line and column.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        whole = error
    except RecursionError:
        raise ImportRefused(f"{path}: it is nested too deeply") from None
    except ValueError as error:  # a number with too many digits
        raise ImportRefused(f"{path}: {error}") from None
    lines = [(n, x) for n, x in enumerate(text.splitlines(), 1) if x.strip()]
    if len(lines) < 2 or whole.msg != "Extra data" or whole.lineno > lines[1][0]:
        where = f"line {whole.lineno}, column {whole.colno}"
        raise ImportRefused(f"{path}: it is not JSON: {whole.msg}, {where}")
    return list(_by_id(_lines(lines, path)))


def _lines(lines: Iterable[tuple[int, str]], path: Path) -> Iterator[Any]:
    for number, line in lines:
        try:
            yield json.loads(line)
        except RecursionError:
            raise ImportRefused(
                f"{path}: it is nested too deeply, line {number}"
            ) from None
        except ValueError as error:
            told = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise ImportRefused(
                f"{path}: it is not JSON: {told}, line {number}"
            ) from None


def _by_id(documents: Iterable[Any]) -> Iterable[Any]:
    """Return the last version of each document: Foundry appends to its files."""
    kept: dict[Any, Any] = {}
    for number, one in enumerate(documents):
        known = one.get("_id") if isinstance(one, Mapping) else None
        kept[known if isinstance(known, str) else number] = one
    return kept.values()
