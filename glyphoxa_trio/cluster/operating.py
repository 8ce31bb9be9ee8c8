"""The pages of operators at a gateway: the workers show what they have.

Turns are numbered by each worker, so a gateway names a turn by its worker and its
number there, and any gateway finds it. What would change one worker is refused, with
what to do instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import attrs
from msgspec import to_builtins
from starlette.responses import Response

from glyphoxa_trio.service.endpoints import (
    Handler,
    ServiceEndpoint,
    ServiceRequest,
    json_response,
)
from glyphoxa_trio.service.gateway import NpcGateway
from glyphoxa_trio.service.operating import TurnsQuery
from glyphoxa_trio.service.refusal import Refused
from glyphoxa_trio.service.rights import Right

from .messages import SeenMessage, ShownMessage
from .remote import RemoteRuntime

_CONFIGURATION: Final = (
    "workers read their configuration when they start: change it, then drain and start"
    " them, one after the other (glyphoxa cluster drain WORKER)"
)
_APPROVALS: Final = (
    "each machine has its own approvals: glyphoxa mcp approve TOOL --config CONFIG"
    " there, and start its workers again"
)
_MEASURING: Final = (
    "workers measure by themselves; glyphoxa calibrate CONFIG does on a machine"
)
_TESTING: Final = "glyphoxa mcp test SERVER tries one from the machine of a worker"
_MEMORY: Final = (
    "facts are in the memory that the workers share: glyphoxa memory review CONFIG"
)
_REFUSED: Final = (
    ("POST", "/api/reload", Right.OPERATE, _CONFIGURATION),
    ("POST", "/api/servers", Right.OPERATE, _CONFIGURATION),
    ("PATCH", "/api/servers/{server}", Right.OPERATE, _CONFIGURATION),
    ("DELETE", "/api/servers/{server}", Right.OPERATE, _CONFIGURATION),
    ("POST", "/api/tools/{tool}/approve", Right.OPERATE, _APPROVALS),
    ("POST", "/api/calibrate", Right.OPERATE, _MEASURING),
    ("POST", "/mcp/test/{server}", Right.READ, _TESTING),
    ("GET", "/api/memory", Right.DIRECT, _MEMORY),
    ("POST", "/api/memory/{what}", Right.DIRECT, _MEMORY),
)
_SILENT: Final = (
    "no worker has answered: the gateway's user of NATS must be one of operators"
)


@attrs.frozen(eq=False)
class ClusterOperatorApi:
    """The answers of a gateway to operators."""

    _runtime: RemoteRuntime
    _gateway: NpcGateway

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints: those of `glyphoxa run`."""
        read = Right.READ
        shown: list[tuple[str, Right, str, Handler]] = [
            ("/api/status", read, "The workers, and this gateway.", self._status),
            ("/api/turns", read, "The last turns of all workers.", self._turns),
            ("/api/turns/{number}", read, "One turn with all events.", self._turn),
            ("/api/sessions", read, "The sessions of all workers.", self._sessions),
            ("/mcp/status", read, "The MCP servers of each worker.", self._servers),
        ]
        of_one = [
            ("/api/npcs", Right.TALK, "The NPCs: name, and ceiling."),
            ("/api/tools", read, "The tools, as one worker sees them."),
            ("/api/tools/{tool}", read, "One tool, as one worker sees it."),
            ("/api/servers", read, "The servers of one worker."),
        ]
        shown += [(*x, partial(self._of_one_worker, x[0])) for x in of_one]
        jsonl = ServiceEndpoint(
            method="GET",
            path="/api/turns/{number}/events.jsonl",
            right=Right.READ,
            summary="The events of one turn, a line each, to keep.",
            handler=self._download,
            answer="application/jsonl",
        )
        return [
            *(
                ServiceEndpoint(
                    method="GET",
                    path=path,
                    right=right,
                    summary=summary,
                    handler=handler,
                )
                for path, right, summary, handler in shown
            ),
            jsonl,
            *(
                ServiceEndpoint(
                    method=method,
                    path=path,
                    right=right,
                    summary="Refused: the answer says where to do it.",
                    handler=partial(_refuse, why),
                )
                for method, path, right, why in _REFUSED
            ),
        ]

    # -- of all workers

    async def _status(self, _: ServiceRequest) -> Response:
        return json_response(
            {
                "workers": [to_builtins(x) for x in self._runtime.workers],
                "service": {
                    "state": self._gateway.utterances.state.value,
                    "version": version("glyphoxa-trio"),
                    "sockets": self._gateway.connections,
                },
            }
        )

    async def _turns(self, asked: ServiceRequest) -> Response:
        wanted: TurnsQuery = asked.asked(TurnsQuery)
        if wanted.before is not None:
            raise Refused("refused", "before: each worker counts its own turns")
        answers, silent = await self._of_all("/api/turns", asked.query)
        turns = [
            {**turn, "number": _name(x.worker, turn["number"]), "worker": x.worker}
            for x in answers
            for turn in x.body["turns"]
        ]
        turns.sort(key=lambda x: -x["began_ms"])
        return json_response({"turns": turns[: wanted.limit], "silent": silent})

    async def _sessions(self, _: ServiceRequest) -> Response:
        answers, silent = await self._of_all("/api/sessions")
        found = [
            {**one, "worker": x.worker} for x in answers for one in x.body["sessions"]
        ]
        found.sort(key=lambda x: x["unused_ms"])
        aside = sum(x.body["set_aside"] for x in answers)
        return json_response({"sessions": found, "set_aside": aside, "silent": silent})

    async def _servers(self, _: ServiceRequest) -> Response:
        answers, silent = await self._of_all("/mcp/status")
        found = [
            {**one, "worker": x.worker} for x in answers for one in x.body["servers"]
        ]
        return json_response({"servers": found, "silent": silent})

    async def _of_all(
        self, page: str, query: dict[str, str] | None = None
    ) -> tuple[list[ShownMessage], list[str]]:
        """Return the answers of all workers, and those that have not answered."""
        names = {x.worker for x in self._runtime.workers}
        answers = await self._runtime.looks(page, query=query)
        if names and not answers:
            raise Refused("busy", _SILENT)
        for one in answers:
            _check(one)
        return list(answers), sorted(names - {x.worker for x in answers})

    # -- of one worker

    async def _of_one_worker(self, page: str, asked: ServiceRequest) -> Response:
        query = dict(asked.query)
        names = [x.worker for x in self._runtime.workers]
        worker = query.pop("worker", None) or next(iter(names), "")
        shown = await self._look(worker, page, asked.path, query)
        return json_response({**shown, "worker": worker})

    async def _turn(self, asked: ServiceRequest) -> Response:
        return json_response(await self._found(asked))

    async def _download(self, asked: ServiceRequest) -> Response:
        turn = await self._found(asked)
        lines = [json.dumps(event) + "\n" for event in turn["events"]]
        response = Response("".join(lines), media_type="application/jsonl")
        name = f'attachment; filename="turn-{turn["number"]}.jsonl"'
        response.headers["Content-Disposition"] = name
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _found(self, asked: ServiceRequest) -> dict[str, Any]:
        worker, _, number = asked.path["number"].rpartition("-")
        path = {"number": number}
        turn = await self._look(worker, "/api/turns/{number}", path, {})
        return {**turn, "number": _name(worker, number), "worker": worker}

    async def _look(
        self, worker: str, page: str, path: dict[str, str], query: dict[str, str]
    ) -> dict[str, Any]:
        names = [x.worker for x in self._runtime.workers]
        if worker not in names:
            there = ", ".join(names) or "none"
            raise Refused("not_found", f"no worker {worker!r}, there is {there}")
        found = await self._runtime.looks(
            page, path=path, query=query, workers=[worker]
        )
        if not found:
            raise Refused("busy", _SILENT)
        _check(found[0])
        body: dict[str, Any] = found[0].body
        return body


def _check(shown: ShownMessage) -> None:
    if shown.status != 200:
        code = shown.body.get("code", "failed")
        raise Refused(code, shown.body.get("error", "it failed"))


async def _refuse(why: str, _: ServiceRequest) -> Response:
    raise Refused("refused", why)


def _name(worker: str, number: object) -> str:
    return f"{worker}-{number}"


@attrs.frozen(eq=False)
class ClusterTurnWatch:
    """The turns of all workers, as they happen."""

    _runtime: RemoteRuntime

    async def show(
        self,
        put: Callable[[dict[str, Any]], None],
        started: Callable[[], None],
        *,
        session: str | None,
        deltas: bool,
        directs: bool,
    ) -> None:
        """See `TurnWatch`. Events have their worker; `EventsMissed` tells that some
        of a worker were lost on their way."""
        number = 0
        due: dict[str, int] = {}  # the next of each worker

        def tell(told: dict[str, Any]) -> None:
            nonlocal number
            number += 1
            put({**told, "n": number})

        def seen(message: SeenMessage) -> None:
            worker = message.worker
            missed = message.n - due.get(worker, message.n)
            if missed > 0:
                tell({"event": "EventsMissed", "worker": worker, "count": missed})
            due[worker] = max(due.get(worker, 0), message.n + len(message.events))
            for event in message.events:
                named = {**event, "worker": worker}
                if "number" in event:
                    named["number"] = _name(worker, event["number"])
                tell(named)

        def begun(answered: Collection[str]) -> None:
            if self._runtime.workers and not answered:
                raise Refused("refused", _SILENT)
            started()

        await self._runtime.watch(
            seen, begun, session=session, deltas=deltas, directs=directs
        )
