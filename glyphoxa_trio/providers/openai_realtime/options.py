"""The options of a Realtime session: pure data, with checks.

They are checked against what the vendor accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers import g711
from glyphoxa_trio.providers.g711 import Law

PCM_RATE: Final = 24_000  # the only rate for PCM

_OURS: Final = frozenset(
    {
        "audio",
        "instructions",
        "model",
        "output_modalities",
        "reasoning",
        "tool_choice",
        "tools",
        "type",
    }
)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "turn_detection": ("server_vad", "semantic_vad"),
    "eagerness": ("low", "medium", "high", "auto"),
    "noise_reduction": ("near_field", "far_field"),
    "thinking": ("minimal", "low", "medium", "high", "xhigh"),
    "audio": ("pcm", *Law),
}
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "threshold": (0, 1),
    "prefix_padding_ms": (0, 60_000),
    "silence_ms": (1, 60_000),
    "idle_timeout_ms": (5_000, 30_000),
    "speed": (0.25, 1.5),
}
_OF_SERVER_VAD: Final = (
    "threshold",
    "prefix_padding_ms",
    "silence_ms",
    "idle_timeout_ms",
)
# The vendor's own models that do not think; nothing is known of others.
_THOUGHTLESS: Final = re.compile(r"gpt-realtime(-mini|-1\.5)?(-\d{4}-\d\d-\d\d)?")


@attrs.frozen(kw_only=True)
class SessionOptions:
    """The options of one session. None leaves an option to the vendor.

    Args:
      turn_detection: how the server detects that the user has finished, if the session
        is ``automatic``: ``server_vad`` by silence, ``semantic_vad`` by the words.
      threshold: how loud speech is, 0 to 1, for ``server_vad``.
      prefix_padding_ms: so much audio before speech is heard as well, for
        ``server_vad``.
      silence_ms: so much silence ends it, for ``server_vad``.
      idle_timeout_ms: after so much silence the model speaks by itself, 5000 to 30000,
        for ``server_vad``.
      eagerness: how soon ``semantic_vad`` decides that the user has finished.
      create_response: True if the server answers speech by itself. Otherwise it is
        asked to, once the words are known or have been waited for.
      interrupt_response: True if the server stops by itself when the user speaks.
        Otherwise it is told to.
      transcription: the model that transcribes the user's speech. None for none; then
        there is no `Heard`.
      transcription_prompt: guides it.
      noise_reduction: ``near_field`` or ``far_field``.
      speed: of the voice, 0.25 to 1.5.
      thinking: how much the model reasons, if it does.
      audio: ``pcm``, or G.711 for a telephone: ``pcmu`` or ``pcma``, at 8 kHz.
      extra: further fields of the session, such as ``truncation``,
        ``max_output_tokens`` or ``parallel_tool_calls``.

    Raises:
      ValueError: for a value that the vendor does not accept, for one that has no
        effect beside the others, and if ``extra`` names a field that belongs to the
        session.
    """

    turn_detection: str = "server_vad"
    threshold: float | None = None
    prefix_padding_ms: int | None = None
    silence_ms: int | None = None
    idle_timeout_ms: int | None = None
    eagerness: str | None = None
    create_response: bool = True
    interrupt_response: bool = True
    transcription: str | None = "gpt-transcribe"
    transcription_prompt: str | None = None
    noise_reduction: str | None = None
    speed: float | None = None
    thinking: str | None = None
    audio: str = "pcm"
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in known:
                yield f"{name}: one of {', '.join(known)}, got {value!r}"
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                yield f"{name}: {least:g} to {most:g}, got {value:g}"
        if self.turn_detection == "semantic_vad":
            for name in _OF_SERVER_VAD:
                if getattr(self, name) is not None:
                    yield (
                        f"{name} is for turn_detection: server_vad; semantic_vad has"
                        " eagerness"
                    )
        elif self.eagerness is not None:
            yield "eagerness is for turn_detection: semantic_vad"
        if self.transcription_prompt is not None and self.transcription is None:
            yield "transcription_prompt needs transcription, the model that it guides"
        if taken := sorted(_OURS & set(self.extra)):
            hint = "; set thinking for reasoning" if "reasoning" in taken else ""
            yield f"extra: {', '.join(taken)} cannot be set here{hint}"

    @property
    def law(self) -> Law | None:
        """The law of G.711, if the session has it."""
        return None if self.audio == "pcm" else Law(self.audio)

    @property
    def rate(self) -> int:
        """The samples a second, in both directions."""
        return PCM_RATE if self.law is None else g711.RATE

    def detection(self) -> dict[str, Any]:
        """Return how turns are detected in an ``automatic`` session."""
        found: dict[str, Any] = {"type": self.turn_detection}
        named = {
            "threshold": self.threshold,
            "prefix_padding_ms": self.prefix_padding_ms,
            "silence_duration_ms": self.silence_ms,
            "idle_timeout_ms": self.idle_timeout_ms,
            "eagerness": self.eagerness,
        }
        found |= {key: value for key, value in named.items() if value is not None}
        found["create_response"] = self.create_response
        found["interrupt_response"] = self.interrupt_response
        return found

    def check_model(self, model: str) -> None:
        """Check the options against the model.

        Raises:
          ValueError: for what it is known not to accept.
        """
        if self.thinking is not None and _THOUGHTLESS.fullmatch(model):
            raise ValueError(
                f"thinking: {model} does not think; leave it out, or take a model that"
                " does, such as gpt-realtime-2"
            )
