"""Ears and voices of NPCs: the recognizer, the synthesizer and speech-to-speech models.

An NPC's ears depend on its voice, so they are made side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from random import Random

import attrs

from glyphoxa_trio.actors import Handover, StableRef
from glyphoxa_trio.config import Config, ConfigError, NpcConfig
from glyphoxa_trio.config.s2s import S2SModel
from glyphoxa_trio.config.voices import (
    Engine,
    S2SConfig,
    SpeechDetector,
    TurnTakingConfig,
)
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.barge_in import NO_MINIMUM, Minimum
from glyphoxa_trio.npc.ear import RecognizedEar
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.npc.s2s import LiveSettings, RealtimeConversation
from glyphoxa_trio.npc.s2s.choice import Choices, ModelChoice
from glyphoxa_trio.npc.scene import SceneEar, SceneMessages
from glyphoxa_trio.npc.session.model_ear import ModelEar
from glyphoxa_trio.npc.session.npc import OpenEar
from glyphoxa_trio.npc.voice import MicrophoneInput
from glyphoxa_trio.providers import endpointing
from glyphoxa_trio.providers.at_rate import AtRate
from glyphoxa_trio.providers.audio import AudioError
from glyphoxa_trio.providers.chain import ModelCandidate
from glyphoxa_trio.providers.endpointing import USUAL, Endpointing
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.providers.speech import Recognizer, SpeechError, Synthesizer

from .speech_providers import recognizer_of, synthesizer_of
from .spoken_models import asked_for, spoken_model


@attrs.frozen(kw_only=True)
class Voices:
    """The synthesizer, the recognizer and the speech-to-speech models of all NPCs.

    Args:
      synthesizer, recognizer: one for all NPCs; None if there is none.
      s2s: a speech-to-speech model in place of the configured ones.
      heard: wraps the model of an NPC; a recording listens there.
      endpointing: finds the start and end of speech for models that do not.
      minimum: the least speech that counts as an interruption.
      warn: told of models that fail. Their state is shared by all NPCs.
    """

    synthesizer: Synthesizer | None = None
    recognizer: Recognizer | None = None
    s2s: S2S | None = None
    heard: Callable[[S2S, NpcId], S2S] = lambda model, npc: model
    endpointing: Endpointing = USUAL
    minimum: Minimum = NO_MINIMUM
    warn: Callable[[str], None] = lambda _: None
    _candidates: list[tuple[S2SModel, ModelCandidate[S2S]]] = attrs.field(
        factory=list, init=False, eq=False
    )

    def live(
        self,
        npc: NpcConfig,
        config: S2SConfig,
        whose: NpcId | None = None,
        chance: Random | None = None,
    ) -> RealtimeConversation | None:
        """Return a conversation with a speech-to-speech model; None for an NPC of
        another engine.

        Args:
          whose: the NPC and its session; None only checks the configuration.
          chance: the random generator for pauses after failures.

        Raises:
          ConfigError: if there is no such model.
        """
        if npc.engine is not Engine.S2S:
            return None
        named = config.at(npc.s2s_model)
        model = self.s2s
        if model is None:
            if named.provider is None:
                raise ConfigError(
                    f"{npc.name!r} has the engine s2s, but no speech-to-speech model is"
                    " configured @ s2s"
                )
            place = "s2s" if npc.s2s_model is None else f"npcs[{npc.name}].s2s_model"
            model = spoken_model(named, place, npc)
        voice = npc.voice.name or named.voice
        language = npc.voice.language or named.language
        provider = model if whose is None else self.heard(model, whose)
        first = ModelChoice(self._candidate(named, model), provider, voice, language)
        choices = [first]
        for at, spare in enumerate(() if self.s2s is not None else config.fallbacks):
            choices.append(self._spare(spare, at, npc, first, named, whose))
        return RealtimeConversation(
            provider=provider,
            voice=voice,
            language=language,
            automatic=config.automatic,
            asked_for=(asked_for(named, npc), config.fallbacks and _keyless(config)),
            choices=Choices(choices),
            settings=LiveSettings(
                rotate=config.rotate, idle=config.idle, chance=chance or Random()
            ),
        )

    def _spare(
        self,
        config: S2SModel,
        at: int,
        npc: NpcConfig,
        first: ModelChoice,
        of: S2SModel,
        whose: NpcId | None,
    ) -> ModelChoice:
        """Return the fallback ``at`` that position, at the sample rate of the first
        model."""
        place = f"s2s.fallbacks[{at}]"
        model = spoken_model(config, place, npc)
        provider = model if whose is None else self.heard(model, whose)
        rate = first.provider.capabilities.input_rate
        if rate != model.capabilities.input_rate:
            try:
                provider = AtRate(provider, rate)
            except AudioError as error:
                raise ConfigError(f"{error} @ {place}") from None
        # A voice's name means nothing to another vendor.
        voice = config.voice
        if config.provider is of.provider:
            voice = npc.voice.name or voice or of.voice
        language = npc.voice.language or config.language or of.language
        candidate = self._candidate(config, model)
        # Two of one name are told apart by where they are.
        name = model.label if candidate.name == first.name else candidate.name
        return ModelChoice(candidate, provider, voice, language, name)

    def _candidate(self, config: S2SModel, model: S2S) -> ModelCandidate[S2S]:
        """Return the shared state of this model: one for all NPCs that have it."""
        for like, candidate in self._candidates:
            if like == config:
                return candidate
        made = ModelCandidate(config.model or model.label, model, self.warn)
        self._candidates.append((config, made))
        return made

    def s2s_label(self, config: Config) -> str:
        """Return the name of the speech-to-speech model, for people."""
        if self.s2s is not None:
            return self.s2s.label
        if config.s2s.provider is None:
            return "none"
        return spoken_model(config.s2s, "s2s").label

    def check(self, config: Config) -> None:
        """Check that every NPC of a configuration can speak.

        Raises:
          ConfigError: if one cannot.
        """
        for npc in config.npcs:
            self.live(npc, config.s2s)

    def scene_ear(
        self,
        scene: Scene,
        speaker: str,
        *,
        of: StableRef[SceneMessages],
        handover: Handover,
        find: Callable[[str], Npc],
        npcs: Iterable[NpcConfig],
        config: Config,
        warn: Callable[[str], None],
    ) -> MicrophoneInput | None:
        """Return a player's microphone in a scene of these NPCs; None if none of them
        hears."""
        here, recognized = list(npcs), None
        models = (self.live(npc, config.s2s) for npc in here)
        rates = {
            live.capabilities.input_rate if live.automatic else endpointing.RATE
            for live in models
            if live is not None
        }
        if self.recognizer is not None:
            rates.add(self.recognizer.rate)
            languages = {npc.voice.language for npc in here}
            recognized = RecognizedEar(
                npc=scene,
                speaker=speaker,
                recognizer=self.recognizer,
                language=languages.pop() if len(languages) == 1 else None,
                warn=warn,
                minimum=self.minimum,
            )
        if not rates:
            return None
        return SceneEar(
            scene=of,
            handover=handover,
            find=find,
            hears=lambda npc: npc.config.engine is Engine.S2S,
            speaker=speaker,
            rate=max(rates),
            endpointing=self.endpointing,
            recognized=recognized,
            minimum=self.minimum,
        )

    def ears(self, engine: Engine, warn: Callable[[str], None]) -> OpenEar | None:
        """Return the function that opens an NPC's ears; None if it has none."""
        recognizer = self.recognizer
        if recognizer is None or engine is Engine.S2S:
            return None

        def open_ear(npc: Npc, speaker: str) -> MicrophoneInput:
            return RecognizedEar(
                npc=npc,
                speaker=speaker,
                recognizer=recognizer,
                language=npc.config.voice.language,
                warn=warn,
                minimum=self.minimum,
            )

        return open_ear

    def model_ears(self, live: RealtimeConversation) -> OpenEar:
        """Return the function that opens the ears of an NPC whose model hears by
        itself."""

        def open_ear(npc: Npc, speaker: str) -> MicrophoneInput:
            if live.automatic:
                return ModelEar(npc, speaker, live.capabilities.input_rate)
            return ModelEar(
                npc, speaker, endpointing.RATE, self.endpointing, self.minimum
            )

        return open_ear


def _keyless(config: S2SConfig) -> object:
    return tuple(attrs.evolve(model, api_key=None) for model in config.fallbacks)


def voices_of(
    config: Config,
    *,
    synthesizer: Synthesizer | None = None,
    recognizer: Recognizer | None = None,
    s2s: S2S | None = None,
    heard: Callable[[S2S, NpcId], S2S],
    warn: Callable[[str], None] = lambda _: None,
    stack: AsyncExitStack,
) -> Voices:
    """Return the voices that are given, or else configured; ``stack`` closes the
    latter.

    Raises:
      ConfigError: if a configured provider is not installed, or an NPC has no model.
    """
    how, speech = _endpointing(config.turn_taking), config.speech
    voices = Voices(
        synthesizer=synthesizer or synthesizer_of(speech.synthesis, warn, stack),
        recognizer=recognizer or recognizer_of(speech.recognition, how, warn, stack),
        s2s=s2s,
        heard=heard,
        endpointing=how,
        minimum=Minimum(
            seconds=config.turn_taking.interrupt,
            words=config.turn_taking.interrupt_words,
        ),
        warn=warn,
    )
    voices.check(config)
    return voices


def _endpointing(config: TurnTakingConfig) -> Endpointing:
    silero = config.detector is SpeechDetector.SILERO
    how = Endpointing(begin=config.begin, end=config.end, silero=silero)
    try:
        if silero:
            how.detector()
    except SpeechError as error:
        raise ConfigError(f"{error} @ turn_taking.detector") from None
    return how
