"""What waits for a socket, within bounds: pure state.

The oldest goes first when there is too much, and is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from glyphoxa_trio.providers.s2s import (
    Command,
    Respond,
    SendAudio,
    SendText,
    SpeechBegins,
    SpeechEnds,
)

COMMANDS: Final = 256
TEXTS: Final = 16
PIECES: Final = 8192  # of the microphone, however small

Heard: TypeAlias = SendAudio | SpeechBegins | SpeechEnds


def _size(heard: Heard) -> int:
    return len(heard.pcm) if isinstance(heard, SendAudio) else 0


@attrs.define(eq=False)
class UnsentCommands:
    """Commands, what was said meanwhile, and the microphone, in this order: first what
    another socket has heard already.

    Args:
      audio_limit: bytes of the microphone that are kept, and always the last piece.
    """

    audio_limit: int
    commands_dropped: int = attrs.field(default=0, init=False)
    audio_dropped: int = attrs.field(default=0, init=False)
    _commands: deque[Command] = attrs.field(factory=deque, init=False)
    _texts: deque[SendText] = attrs.field(factory=deque, init=False)
    # With where somebody begins and ends, if the client says so.
    _audio: deque[tuple[Heard, bool]] = attrs.field(factory=deque, init=False)
    _audio_bytes: int = attrs.field(default=0, init=False)
    _again: tuple[Command, ...] = attrs.field(default=(), init=False)

    def keep(self, command: Command) -> None:
        self._commands.append(command)
        if len(self._commands) > COMMANDS:
            self._commands.popleft()
            self.commands_dropped += 1

    def keep_text(self, text: SendText) -> None:
        """Something that the model is to know if it goes on where it was."""
        self._texts.append(text)
        if len(self._texts) > TEXTS:
            self._texts.popleft()
            self.commands_dropped += 1

    def keep_audio(self, audio: Heard, *, matters: bool = True) -> None:
        """A piece of the microphone. It is counted when it is dropped, if it
        ``matters``."""
        self._audio.append((audio, matters))
        self._audio_bytes += _size(audio)
        while len(self._audio) > 1 and (
            self._audio_bytes > self.audio_limit or len(self._audio) > PIECES
        ):
            dropped, mattered = self._audio.popleft()
            self._audio_bytes -= _size(dropped)
            self.audio_dropped += mattered and isinstance(dropped, SendAudio)

    def keep_utterance(self, commands: tuple[Command, ...]) -> None:
        """What the socket before has heard, and not answered."""
        self._again = commands

    def keep_after_utterance(self, command: Command) -> None:
        self._again = (*self._again, command)

    def limit_audio(self, limit: int) -> None:
        """Keep so many bytes from now on."""
        self.audio_limit = limit

    def withdraw_questions(self) -> bool:
        """Nobody waits for an answer: what was said is told all the same.

        Returns whether there was one.
        """
        before = list(self._commands)
        self._commands = deque(
            SendText(x.line, reply=False) if isinstance(x, SendText) else x
            for x in before
            if not isinstance(x, Respond)
        )
        return before != list(self._commands)

    def adapt(self, *, asks: bool) -> None:
        """They are for another model, which is asked for responses or answers text by
        itself."""
        questions = [x for x in self._commands if isinstance(x, SendText) and x.reply]
        asked = any(isinstance(x, Respond) for x in self._commands)
        if not asks:
            self.forget_asking()
        elif questions and not asked:
            self._commands.append(Respond())

    def forget_asking(self) -> None:
        """Nobody is asked for an answer: the next socket does not know to what."""
        kept = (x for x in self._commands if not isinstance(x, Respond))
        self._commands = deque(kept)

    def forget_texts(self) -> None:
        self._texts.clear()

    def give_up(self) -> None:
        """Nobody can be told. What a microphone hears last may still be of use."""
        self._commands.clear()
        self._texts.clear()
        self._again = ()

    def take(self) -> Iterator[Command]:
        """All of it, in order, once."""
        audio, self._audio, self._audio_bytes = self._audio, deque(), 0
        for waiting in (self._commands, self._texts):
            yield from waiting
            waiting.clear()
        again, self._again = self._again, ()
        yield from again
        yield from (piece for piece, _ in audio)
