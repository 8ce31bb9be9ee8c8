"""The lines of a recording on their way into its file, in a writer's thread.

Lines are written as they come, so that a run that is killed leaves all but the last of
them; only the file's name waits for the end. One piece of a text may wait for the next,
because the two may be a secret together, and then so does what comes after it.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import attrs

from glyphoxa_trio.npc.identity import npc_in, without_default
from glyphoxa_trio.observability.recording.hiding import Hiding, in_pieces

MOST_BYTES: Final = 256 * 1024 * 1024  # of one recording
_AUDIO: Final = ("AudioOut", "Recited")
_LAST: Final = 1024  # bytes that are kept for the line that says that it is full
_MOST_HELD: Final = 1000  # lines that wait for a piece of text

# Words of the format, which are never a secret.
_OURS: Final = frozenset({"event", "state", "clock", "package"})

# Events that may come between two pieces of one text.
_BETWEEN: Final = frozenset(
    {
        *("Sentence", "Speech", "Transcript"),
        *("Queued", "LateResult", "ApprovalNeeded", "ApprovalSettled"),
    }
)


@attrs.define(eq=False)
class _Line:
    data: dict[str, Any]
    ready: bool = True


@attrs.define(eq=False)
class LineOutput:
    """An `Output`: each record is a line, its event the ``kind``."""

    _file: IO[bytes]
    _hiding: Hiding = attrs.field(factory=Hiding)
    most_bytes: int = MOST_BYTES
    failure: str = attrs.field(default="", init=False)
    _bytes: int = attrs.field(default=0, init=False)
    _latest: float = attrs.field(default=0.0, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _queue: deque[_Line] = attrs.field(factory=deque, init=False)
    _pieces: dict[Hashable, list[_Line]] = attrs.field(factory=dict, init=False)

    def hide(self, hiding: Hiding) -> None:
        """Set what hides secrets from now on. May be called from any thread."""
        self._hiding = hiding

    def info(self, event: str, /, **fields: Any) -> None:
        """One line. Nothing once the recording has ended."""
        if self._over:
            return
        plain, of = self._hiding.plain, fields.pop("of", None)
        data = {"kind": event, "at": fields.pop("at", 0.0)}
        data |= {key: x if key in _OURS else plain(x) for key, x in fields.items()}
        if of is not None:
            data |= beside(plain(of))
        self._latest = data["at"]
        line = _Line(data)
        self._queue.append(line)
        stream = _stream_of(data)
        if stream is not None and self._hiding.mask:
            if stream[1]:  # hidden together with the other pieces
                data["text"] = fields["text"] if of is None else of.text
            self._hear(line, stream)
        if len(self._queue) > _MOST_HELD:
            self._let_go()
        self._write_ready()

    def warning(self, event: str, /, **fields: Any) -> None:
        """Lines were lost on their way here, so nothing after them is of use."""
        self.end(self._latest, f"{fields.get('count')} lines were lost")

    debug = error = info

    def end(self, at: Any, why: str) -> None:
        """The last line, and nothing after it."""
        if not self._over:
            self._let_go()
            self._write_ready()
        if not self._over:
            self._over = True
            self._put(json.dumps({"kind": "end", "at": at, "why": why}))

    def _hear(self, line: _Line, stream: tuple[Hashable, bool]) -> None:
        key, is_piece = stream
        held = self._pieces.pop(key, [])
        if is_piece:
            line.ready = False
            held.append(line)
        told, rest = in_pieces(
            [x.data["text"] for x in held], self._hiding, over=not is_piece
        )
        for one, text in zip(held, told, strict=False):
            one.data["text"], one.ready = text, True
        if rest:
            self._pieces[key] = held[len(told) :]

    def _let_go(self) -> None:
        for held in self._pieces.values():
            texts = [x.data["text"] for x in held]
            told, _ = in_pieces(texts, self._hiding, over=True)
            for one, text in zip(held, told, strict=True):
                one.data["text"], one.ready = text, True
        self._pieces.clear()

    def _write_ready(self) -> None:
        while self._queue and self._queue[0].ready and not self._over:
            data = self._queue.popleft().data
            text = json.dumps(data, ensure_ascii=False)
            if self._bytes + 4 * len(text) > self.most_bytes - _LAST:
                self._queue.clear()
                self._pieces.clear()
                self.end(data["at"], f"it is full at {self.most_bytes} bytes")
                return
            self._put(text)

    def _put(self, text: str) -> None:
        if self.failure:
            return
        try:
            line = text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
            line = json.dumps(json.loads(text)).encode()
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError as error:  # a gap would be worse than an end
            self._over = True
            self.fail(error)
            raise
        self._bytes += len(line) + 1

    def fail(self, error: OSError) -> None:
        """The file is not whole; the first reason is kept."""
        self.failure = self.failure or error.strerror or type(error).__name__


def beside(plain: dict[str, Any]) -> dict[str, Any]:
    """An object's fields, where a line has a ``kind`` of its own."""
    if "kind" in plain:  # of `ModelFailed`
        plain["failure"] = plain.pop("kind")
    return without_default(plain)


def _stream_of(data: dict[str, Any]) -> tuple[Hashable, bool] | None:
    """Which text a line belongs to, and whether it is a piece of it or ends it."""
    if data["kind"] == "model":
        return ("model", data["request"]), "text" in data
    if data["kind"] == "speech" and data.get("event") not in _AUDIO:
        return ("speech", data["socket"]), "text" in data
    if data["kind"] == "event" and data["event"] not in _BETWEEN:
        turn = npc_in(data), data["turn"]
        return ("event", *turn), data["event"] == "TextDelta"
    return None


@attrs.define(eq=False)
class RecordingFile:
    """A file that has its name only when it is whole. Blocks: for a thread.

    Until then it is beside that, with ``.part`` at its end, and readable.
    """

    path: Path
    file: IO[bytes] = attrs.field(init=False)

    @property
    def part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    def open(self) -> IO[bytes]:
        """Open the file, for its owner only, also if it was there. Raises OSError."""
        with suppress(FileNotFoundError):
            self.part.unlink()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        self.file = os.fdopen(os.open(self.part, flags, 0o600), "wb")
        return self.file

    def close(self) -> None:
        """Give it its name. Raises `OSError`."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.part, self.path)
