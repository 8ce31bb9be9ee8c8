"""The options of a Gemini Live session: pure data with checks.

They are checked against what the vendor and the model's family accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from .profiles import Profile

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "start_sensitivity": ("high", "low"),
    "end_sensitivity": ("high", "low"),
    "turn_coverage": ("activity", "all_input"),
    "thinking": ("minimal", "low", "medium", "high", "xhigh"),
}
_COVERAGE: Final = {
    "activity": "TURN_INCLUDES_ONLY_ACTIVITY",
    "all_input": "TURN_INCLUDES_ALL_INPUT",
}
_LONGEST: Final = 60_000  # milliseconds
_OURS: Final = ("responseModalities",)


@attrs.frozen(kw_only=True)
class SessionOptions:
    """The options of one session. None leaves an option to the vendor.

    Args:
      start_sensitivity, end_sensitivity: how readily the server detects that speech
        starts and stops, ``high`` or ``low``, if the session is ``automatic``.
      prefix_padding_ms: so much speech is needed to start, likewise.
      silence_ms: so much silence stops it, likewise.
      interrupts: True if a user who speaks stops the model.
      turn_coverage: what part of the audio belongs to a turn: ``activity``, or
        ``all_input``, with silence.
      language_code: of the model's speech, such as ``de-DE``. Models that detect the
        language by themselves may ignore it.
      transcription_languages: of the user's speech.
      proactive: True if the model may ignore speech that is not meant for it.
      affective: True if it reacts to the user's mood.
      thinking: how much it thinks, as a word.
      thinking_budget: the same in tokens; 0 for none, -1 leaves it to the model. Models
        take one or the other.
      generation: further fields of the ``generationConfig``, such as ``temperature``.

    Raises:
      ValueError: for a value that the vendor does not accept.
    """

    start_sensitivity: str | None = None
    end_sensitivity: str | None = None
    prefix_padding_ms: int | None = None
    silence_ms: int | None = None
    interrupts: bool = True
    turn_coverage: str | None = None
    language_code: str | None = None
    transcription_languages: tuple[str, ...] = ()
    proactive: bool | None = None
    affective: bool | None = None
    thinking: str | None = None
    thinking_budget: int | None = None
    generation: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) is not None and value not in known:
                yield f"{name}: one of {', '.join(known)}, got {value!r}"
        for name in ("prefix_padding_ms", "silence_ms"):
            if (
                value := getattr(self, name)
            ) is not None and not 0 <= value <= _LONGEST:
                yield f"{name}: 0 to {_LONGEST}, got {value:g}"
        if self.thinking is not None and self.thinking_budget is not None:
            yield "thinking and thinking_budget: set only one"
        if self.thinking_budget is not None and self.thinking_budget < -1:
            yield f"thinking_budget: -1 or more, got {self.thinking_budget}"
        if taken := sorted(set(_OURS) & set(self.generation)):
            yield f"generation: {', '.join(taken)} cannot be set here"

    def check_model(self, model: str, profile: Profile) -> None:
        """Check the options against what the model's family accepts.

        Raises:
          ValueError: for options that would close the socket, with the reason.
        """
        faults = [
            f"{name}: {model} {why}"
            for name, why in profile.refuses.items()
            if getattr(self, name) is not None
        ]
        named = {"thinkingBudget": "thinking_budget", "thinkingLevel": "thinking"}
        config = self.generation.get("thinkingConfig")
        wanted = [name for key, name in named.items() if key in (config or ())]
        refused = [name for name in named.values() if name in profile.refuses]
        if config is not None and (
            len(refused) == len(named) or {*wanted} & {*refused}
        ):
            why = profile.refuses[refused[0]]
            faults.append(f"generation: thinkingConfig: {model} {why}")
        if faults:
            raise ValueError("; ".join(faults))

    def detection(self) -> dict[str, Any]:
        """Return how an ``automatic`` session detects speech; may be empty."""
        named = {
            "startOfSpeechSensitivity": _sensitivity("START", self.start_sensitivity),
            "endOfSpeechSensitivity": _sensitivity("END", self.end_sensitivity),
            "prefixPaddingMs": self.prefix_padding_ms,
            "silenceDurationMs": self.silence_ms,
        }
        return {key: value for key, value in named.items() if value is not None}

    def realtime_input(self, *, automatic: bool) -> dict[str, Any]:
        """Return the ``realtimeInputConfig``; empty if there are only defaults."""
        found: dict[str, Any] = {}
        if not automatic:
            found["automaticActivityDetection"] = {"disabled": True}
            found["activityHandling"] = "START_OF_ACTIVITY_INTERRUPTS"
        elif detection := self.detection():
            found["automaticActivityDetection"] = detection
        if not self.interrupts:
            found["activityHandling"] = "NO_INTERRUPTION"
        if self.turn_coverage is not None:
            found["turnCoverage"] = _COVERAGE[self.turn_coverage]
        return found

    def generated(self) -> dict[str, Any]:
        """Return the options that belong into the ``generationConfig``."""
        found = dict(self.generation)
        thoughts = dict(found.get("thinkingConfig", {}))
        if self.thinking is not None:
            thoughts["thinkingLevel"] = self.thinking.upper()
        if self.thinking_budget is not None:
            thoughts["thinkingBudget"] = self.thinking_budget
        if thoughts:
            found["thinkingConfig"] = thoughts
        if self.affective is not None:
            found["enableAffectiveDialog"] = self.affective
        if self.language_code is not None:
            speech = dict(found.get("speechConfig", {}))
            found["speechConfig"] = speech | {"languageCode": self.language_code}
        return found


def _sensitivity(which: str, value: str | None) -> str | None:
    return None if value is None else f"{which}_SENSITIVITY_{value.upper()}"
