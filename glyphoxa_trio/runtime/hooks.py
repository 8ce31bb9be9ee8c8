"""Who hears what a run meets, and may stand between: a recording, or its replay."""

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

from .snapshot import SessionSnapshot


@attrs.frozen(kw_only=True)
class RuntimeStart:
    """What there is of a runtime before the first of its servers is started.

    Args:
      host: has the built-in tools, and the embedder's own.
      approver: somebody answers questions about tools, within ``patience`` seconds.
    """

    run_id: str
    config: Config
    host: ToolHost
    events: Topic[TurnEvent]
    approver: bool
    patience: float


class Hooks:
    """This one neither listens nor changes anything. None of its methods raises, and
    all are called in the task of what they are about."""

    def history(self, history: SampleHistory | None) -> SampleHistory | None:
        """Where measurements outlive the run."""
        return history

    def model(self, llm: LLM) -> LLM:
        """A model that NPCs speak with; asked once for each."""
        return llm

    def speech(self, model: S2S, npc: NpcId) -> S2S:
        """The model that an NPC speaks with by itself; asked when it comes to be, and
        at each reload."""
        return model

    def context(self, context: HotContext) -> Gather:
        """Where NPCs ask what is to be known in a turn."""
        return context

    def publishing(self, publish: Publish) -> Publish:
        """What servers' tools are handed to."""
        return publish

    def npc(self, npc: Npc) -> Npc:
        """An NPC, each time that an embedder asks for it."""
        return npc

    def knows(
        self,
        session: SessionKey,
        variables: Mapping[str, str | None],
        told: tuple[str, ...] = (),
    ) -> None:
        """What a session knows of its players from now on. The NPCs that were ``told``
        know it at once; each other one is introduced to it."""

    def restored(self, session: SessionKey, kept: SessionSnapshot) -> None:
        """A session goes on where that one was."""

    async def ending(self, session: SessionKey) -> None:
        """A session is about to end; its turns are interrupted next."""

    def began(self, beginning: RuntimeStart) -> None:
        """A runtime is about to start its servers."""

    def registered(self) -> None:
        """The tools that are no server's may be others now."""

    def reloading(self, config: Config) -> None:
        """Another configuration was accepted, and is served by now or soon."""

    async def leaving(self) -> None:
        """The block of the runtime is left; turns that run are interrupted next."""


NOBODY = Hooks()
