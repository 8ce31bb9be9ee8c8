"""Hooks into a runtime, for recordings that listen and replays that replace."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import Config
from glyphoxa_trio.host import SampleHistory, ToolHost
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.npc import Npc, TurnEvent
from glyphoxa_trio.npc.hot_context import Gather, HotContext
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.s2s import S2S

from .session_snapshot import SessionSnapshot


@attrs.frozen(kw_only=True)
class RuntimeStart:
    """A runtime at the moment before its first server is started.

    Args:
      host: has the built-in tools and the embedder's own.
      approver: True if questions about tools are answered, within ``patience`` seconds.
    """

    run_id: str
    config: Config
    host: ToolHost
    events: Topic[TurnEvent]
    approver: bool
    patience: float


class Hooks:
    """The default hooks, which neither listen nor change anything.

    Subclasses override some of the methods. None of them may raise, and each is called
    in the task in which the event happens.
    """

    def history(self, history: SampleHistory | None) -> SampleHistory | None:
        """Return the store that keeps measurements between runs."""
        return history

    def model(self, llm: LLM) -> LLM:
        """Return the model that an NPC speaks with; called once for each model."""
        return llm

    def speech(self, model: S2S, npc: NpcId) -> S2S:
        """Return the speech-to-speech model of an NPC.

        Called when the NPC's actor is made, and at each reload.
        """
        return model

    def context(self, context: HotContext) -> Gather:
        """Return the source that NPCs ask for the context of a turn."""
        return context

    def publishing(self, publish: Publish) -> Publish:
        """Return the function that takes the servers' tools."""
        return publish

    def npc(self, npc: Npc) -> Npc:
        """Return the NPC; called each time that an embedder asks for one."""
        return npc

    def knows(
        self,
        session: SessionKey,
        variables: Mapping[str, str | None],
        told: tuple[str, ...] = (),
    ) -> None:
        """Called when a session learns variables of its players.

        The NPCs that were ``told`` know them at once; each other one learns them when
        it is first spoken to.
        """

    def restored(self, session: SessionKey, kept: SessionSnapshot) -> None:
        """Called when a session continues from the snapshot ``kept``."""

    async def ending(self, session: SessionKey) -> None:
        """Called when a session is about to end; its turns are interrupted next."""

    def began(self, beginning: RuntimeStart) -> None:
        """Called when a runtime is about to start its servers."""

    def registered(self) -> None:
        """Called when tools that belong to no server may have changed."""

    def reloading(self, config: Config) -> None:
        """Called when another configuration was accepted; it is in use now or soon."""

    async def leaving(self) -> None:
        """Called when the block of the runtime is left; running turns are interrupted
        next."""


NOBODY = Hooks()
