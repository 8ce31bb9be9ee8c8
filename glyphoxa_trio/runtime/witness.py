"""Who hears what a run meets, and may stand between: a recording, or its replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glyphoxa_trio.config import Config
from glyphoxa_trio.host import History
from glyphoxa_trio.mcp.status import Publish
from glyphoxa_trio.npc import Npc
from glyphoxa_trio.npc.hot_context import Gather, HotContext
from glyphoxa_trio.providers.llm import LLM

if TYPE_CHECKING:
    from .runtime import Runtime


class Witness:
    """This one neither listens nor changes anything. None of its methods raises, and
    all are called in the task of what they are about."""

    def history(self, history: History | None) -> History | None:
        """Where measurements outlive the run."""
        return history

    def model(self, llm: LLM) -> LLM:
        """A model that NPCs speak with; asked once for each."""
        return llm

    def context(self, context: HotContext) -> Gather:
        """Where NPCs ask what is to be known in a turn."""
        return context

    def publishing(self, publish: Publish) -> Publish:
        """What servers' tools are handed to."""
        return publish

    def npc(self, npc: Npc) -> Npc:
        """An NPC, each time that an embedder asks for it."""
        return npc

    def began(self, runtime: Runtime, *, approver: bool, patience: float) -> None:
        """A runtime has its built-in and own tools, and nothing else yet.

        Args:
          approver: somebody answers questions about tools, within ``patience``.
        """

    def registered(self) -> None:
        """The tools that are no server's may be others now."""

    def reloading(self, config: Config) -> None:
        """Another configuration was accepted, and is served by now or soon."""

    async def leaving(self) -> None:
        """The block of the runtime is left; turns that run are interrupted next."""


NOBODY = Witness()
