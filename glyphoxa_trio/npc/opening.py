"""What stands before a conversation: the prompt, and a greeting. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from glyphoxa_trio.config.model import NpcConfig
from glyphoxa_trio.providers.llm import Message

from .prompt import system_prompt
from .snapshot import OpeningSnapshot
from .templates import filled, variables


@attrs.define(eq=False)
class Opening:
    """As it is now: the configuration, values for its variables, and the scene.

    Args:
      npc: the configuration; `become` takes over another one.
      defaults: for variables that nobody gave a value.
      scene: what holds where the NPC is.
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
        """Take over another configuration. Once the conversation has ``begun``, its
        greeting stays: it has been said."""
        self.npc, self.defaults = npc, defaults
        if not begun:
            self._greeting = npc.greeting

    def set_scene(self, scene: tuple[str, ...]) -> None:
        """This holds where it is, and nothing else."""
        self.scene = scene

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """These values, too, from now on."""
        self._given |= values

    def greet(self) -> str:
        """The greeting, for it to be said: the conversation has it from then on."""
        self._greeted = True
        return filled(self._greeting, self._values)

    def restore(self, kept: OpeningSnapshot) -> None:
        """Be as it was then; what the configuration has said since of the scene counts
        more."""
        self._call_id = kept.call_id
        self._greeted = kept.greeted
        self._given = dict(kept.given)
        self._greeting = kept.greeting
        if kept.configured == self.scene:
            self.scene = kept.scene

    def snapshot(self, configured: tuple[str, ...]) -> OpeningSnapshot:
        """What is kept of it. ``configured``: what the configuration says of the
        scene."""
        return OpeningSnapshot(
            call_id=self._call_id,
            greeting=self._greeting,
            greeted=self._greeted,
            given=dict(self._given),
            scene=self.scene,
            configured=configured,
        )

    def messages(self) -> tuple[Message, ...]:
        """The prompt; and the greeting, as if it had been said, unless it was."""
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
