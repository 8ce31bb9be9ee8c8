"""Commands and audio that wait for a socket, within bounds: pure state.

If there is too much, the oldest is dropped and counted.
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
PIECES: Final = 8192  # pieces of microphone audio, however small

Heard: TypeAlias = SendAudio | SpeechBegins | SpeechEnds


def _size(heard: Heard) -> int:
    return len(heard.pcm) if isinstance(heard, SendAudio) else 0


@attrs.define(eq=False)
class UnsentCommands:
    """Commands, texts and microphone audio that wait for a socket.

    They are sent in this order, the audio of an utterance that another socket has
    already heard before the rest of the audio.

    Args:
      audio_limit: how many bytes of microphone audio are kept; the last piece always
        is.
    """

    audio_limit: int
    commands_dropped: int = attrs.field(default=0, init=False)
    audio_dropped: int = attrs.field(default=0, init=False)
    _commands: deque[Command] = attrs.field(factory=deque, init=False)
    _texts: deque[SendText] = attrs.field(factory=deque, init=False)
    # Audio, with the start and end of speech where the client detects them.
    _audio: deque[tuple[Heard, bool]] = attrs.field(factory=deque, init=False)
    _audio_bytes: int = attrs.field(default=0, init=False)
    _again: tuple[Command, ...] = attrs.field(default=(), init=False)

    def keep(self, command: Command) -> None:
        """Keep a command; beyond the limit the oldest is dropped."""
        self._commands.append(command)
        if len(self._commands) > COMMANDS:
            self._commands.popleft()
            self.commands_dropped += 1

    def keep_text(self, text: SendText) -> None:
        """Keep a text that the model must be told if it resumes the conversation."""
        self._texts.append(text)
        if len(self._texts) > TEXTS:
            self._texts.popleft()
            self.commands_dropped += 1

    def keep_audio(self, audio: Heard, *, matters: bool = True) -> None:
        """Keep a piece of audio. If it ``matters``, dropping it is counted."""
        self._audio.append((audio, matters))
        self._audio_bytes += _size(audio)
        while len(self._audio) > 1 and (
            self._audio_bytes > self.audio_limit or len(self._audio) > PIECES
        ):
            dropped, mattered = self._audio.popleft()
            self._audio_bytes -= _size(dropped)
            self.audio_dropped += mattered and isinstance(dropped, SendAudio)

    def keep_utterance(self, commands: tuple[Command, ...]) -> None:
        """Keep the utterance that the lost socket has heard and not answered."""
        self._again = commands

    def keep_after_utterance(self, command: Command) -> None:
        """Keep a command that is sent after the unanswered utterance."""
        self._again = (*self._again, command)

    def limit_audio(self, limit: int) -> None:
        """Set how many bytes of audio are kept from now on."""
        self.audio_limit = limit

    def withdraw_questions(self) -> bool:
        """Withdraw the questions: the texts are still sent, but no reply is asked for.

        Return True if there was a question.
        """
        before = list(self._commands)
        self._commands = deque(
            SendText(x.line, reply=False) if isinstance(x, SendText) else x
            for x in before
            if not isinstance(x, Respond)
        )
        return before != list(self._commands)

    def adapt(self, *, asks: bool) -> None:
        """Adapt the commands to another model.

        ``asks``: the wire must ask for responses; otherwise the model answers text by
        itself.
        """
        questions = [x for x in self._commands if isinstance(x, SendText) and x.reply]
        asked = any(isinstance(x, Respond) for x in self._commands)
        if not asks:
            self.forget_asking()
        elif questions and not asked:
            self._commands.append(Respond())

    def forget_asking(self) -> None:
        """Drop requests for a response: the next socket would not know to what."""
        kept = (x for x in self._commands if not isinstance(x, Respond))
        self._commands = deque(kept)

    def forget_texts(self) -> None:
        """Drop the texts of `keep_text`."""
        self._texts.clear()

    def give_up(self) -> None:
        """Drop everything but the audio, which may still be useful."""
        self._commands.clear()
        self._texts.clear()
        self._again = ()

    def take(self) -> Iterator[Command]:
        """Yield everything in order, and forget it."""
        audio, self._audio, self._audio_bytes = self._audio, deque(), 0
        for waiting in (self._commands, self._texts):
            yield from waiting
            waiting.clear()
        again, self._again = self._again, ()
        yield from again
        yield from (piece for piece, _ in audio)
