"""The messages before a conversation: the prompt, and a greeting. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from glyphoxa_trio.config.model import NpcConfig
from glyphoxa_trio.providers.llm import Message

from .prompt import system_prompt
from .snapshot import OpeningSnapshot
from .templates import CALL_ID, filled, variables


@attrs.define(eq=False)
class Opening:
    """The current prompt and greeting: configuration, variables and scene.

    Args:
      npc: the configuration; `become` replaces it.
      defaults: values of variables that were not set.
      call_id: the id of the conversation.
      scene: the facts of the scene.
    """

    npc: NpcConfig
    defaults: Mapping[str, str]
    _call_id: str
    scene: tuple[str, ...] = ()
    _greeting: str = attrs.field(init=False)
    _greeted: bool = attrs.field(default=False, init=False)
    _given: dict[str, str | None] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._greeting = self.npc.greeting

    def become(
        self, npc: NpcConfig, defaults: Mapping[str, str], *, begun: bool
    ) -> None:
        """Use another configuration.

        Once the conversation has ``begun`` the old greeting stays, because it has been
        said.
        """
        self.npc, self.defaults = npc, defaults
        if not begun:
            self._greeting = npc.greeting

    @property
    def call_id(self) -> str:
        """The id of the conversation, as the prompt and the greeting have it."""
        return self._values[CALL_ID]

    def set_scene(self, scene: tuple[str, ...]) -> None:
        """Set the facts of the scene."""
        self.scene = scene

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """Set these variables, and keep the others."""
        self._given |= values

    def greet(self) -> str:
        """Return the greeting, which is said now and is in the history from now on."""
        self._greeted = True
        return filled(self._greeting, self._values)

    def restore(self, kept: OpeningSnapshot) -> None:
        """Take over a snapshot.

        If the configured scene has changed since, it replaces the scene of the
        snapshot.
        """
        self._call_id = kept.call_id
        self._greeted = kept.greeted
        self._given = dict(kept.given)
        self._greeting = kept.greeting
        if kept.configured == self.scene:
            self.scene = kept.scene

    def snapshot(self, configured: tuple[str, ...]) -> OpeningSnapshot:
        """Return a snapshot. ``configured`` is the scene of the configuration."""
        return OpeningSnapshot(
            call_id=self._call_id,
            greeting=self._greeting,
            greeted=self._greeted,
            given=dict(self._given),
            scene=self.scene,
            configured=configured,
        )

    def messages(self) -> tuple[Message, ...]:
        """Return the prompt, and the greeting as if it had been said, unless it was."""
        values = self._values
        told = system_prompt(self.npc, values=values, scene=self.scene)
        prompt = Message(role="system", content=told)
        if self._greeted or not self._greeting:
            return (prompt,)
        greeting = filled(self._greeting, values)
        return (prompt, Message(role="assistant", content=greeting))

    @property
    def _values(self) -> dict[str, str]:
        given = {"context_name": self.npc.context_name, **self._given}
        return variables(given, self.defaults, call_id=self._call_id)
