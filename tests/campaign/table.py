"""Clients of a campaign server in this process, over `Dispatch`, and exact stamps."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from glyphoxa_trio.campaign.lanes import FileStore
from glyphoxa_trio.campaign.stamps import Stamps
from glyphoxa_trio.servers.builtin import campaign as shelf
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import Client, ClientRequest, Dispatch

BEGIN = 1736937000.0  # 2025-01-15T10:30:00Z


@attrs.define
class Hands:
    """A clock that is set by hand."""

    now: float = BEGIN


def stamps(hands: Hands | None = None) -> Stamps:
    """Ids that are counted: ``camp_1``, ``part_2``."""
    numbers = itertools.count(1)
    clock = hands or Hands()
    return Stamps(
        clock=lambda: clock.now, new_id=lambda prefix: f"{prefix}{next(numbers)}"
    )


class Refused(Exception):
    """An answer with ``isError``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Nobody:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        raise AssertionError(method)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise AssertionError(method)


@attrs.define(eq=False)
class Guest:
    """One client of a server."""

    dispatch: Dispatch
    client: Client

    async def ask(self, method: str, **params: Any) -> Mapping[str, Any]:
        return await self.dispatch.answer(
            ClientRequest(
                method=method, params=params, client=self.client, channel=Nobody()
            )
        )

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """What the tool answers, or `Refused`."""
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        data = dict(answer["structuredContent"])
        if answer.get("isError"):
            raise Refused(**data["error"])
        return data

    async def read(self, uri: str) -> str:
        (content,) = (await self.ask("resources/read", uri=uri))["contents"]
        assert content["uri"] == uri
        assert content["mimeType"] == "application/json"
        text: str = content["text"]
        return text


@attrs.define(eq=False)
class Served:
    """A server in this process, and its clients by session."""

    offer: ServerDefinition

    @property
    def store(self) -> FileStore:
        """For tests that spoil it."""
        resources = self.offer.resources
        assert isinstance(resources, shelf.CampaignResources)
        store = resources._campaigns._store
        assert isinstance(store, FileStore)
        return store

    def guest(self, session: str = "Ann") -> Guest:
        return Guest(Dispatch(self.offer), Client(session=session))


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    shelf.add_options(parser)
    return parser.parse_args(arguments)


@asynccontextmanager
async def served(
    path: Path | None = None,
    *arguments: str,
    hands: Hands | None = None,
    counted: bool = True,
) -> AsyncGenerator[Served]:
    """``glyphoxa serve campaign``, without a transport."""
    db = ":memory:" if path is None else str(path)
    made: Callable[[], Stamps] = (lambda: stamps(hands)) if counted else Stamps
    async with shelf.open_offer(options("--db", db, *arguments), made()) as offer:
        yield Served(offer)
