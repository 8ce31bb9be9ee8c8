"""A model that looks around and calls tools, and remembers what it was shown.

It does what a language model would: it calls what it is shown, looks for the rest with
``tool_search``, and answers when it has what it wants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.testing.model_server import CallTools, Reply, SayText

from .strangers import ALL, Call, exposed, said

_AT_A_TIME: Final = 6  # tools that are looked for with one search
_EXPOSED: Final = re.compile(r"mcp__[A-Za-z0-9_-]+")
_NPC: Final = re.compile(r"You are (\w+)")
_KEYS: Final = {exposed(key): key for key in ALL}


@attrs.define(eq=False)
class Mind:
    """A script for the model server.

    Args:
      errands: by what is said: the calls of each round, in order.
      looks: what is said when it shall look what it can reach, and nothing more.

    ``reached`` has, by NPC and what was said, the tools that were shown or found.
    ``made`` are the calls it made, ``answers`` what came back, by tool.
    """

    errands: Mapping[str, Sequence[Sequence[Call]]]
    looks: Sequence[str]
    reached: dict[tuple[str, str], set[str]] = attrs.field(factory=dict)
    made: list[str] = attrs.field(factory=list)
    answers: list[tuple[str, str]] = attrs.field(factory=list)

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        messages = body["messages"]
        last = max(at for at, m in enumerate(messages) if m["role"] == "user")
        # Before what was said now stands what is remembered of earlier evenings.
        text = _text(messages[last]["content"]).rpartition("player: ")[2]
        since = messages[last + 1 :]
        done = sum(bool(message.get("tool_calls")) for message in since)
        if _text(messages[0]["content"]).startswith("You keep the records"):
            return SayText('{"summary": "They talked.", "facts": []}')
        names = [tool["function"]["name"] for tool in body.get("tools") or ()]
        if (heard := _latest(text, self.looks)) is not None:
            npc = _NPC.search(_text(messages[0]["content"]))
            assert npc is not None, messages[0]
            reached = self.reached.setdefault((npc[1], heard), set())
            reached |= {_KEYS[name] for name in names if name in _KEYS}
            reached |= {
                _KEYS[name]
                for message in since
                if message["role"] == "tool"
                for name in _EXPOSED.findall(_text(message["content"]))
                if name in _KEYS
            }
            wanted = [key for key in ALL if key not in reached]
            return self._search(wanted, names, done) or SayText("How nice.")
        if (heard := _latest(text, self.errands)) is not None:
            return self._run(self.errands[heard], since, names, done)
        return SayText("So it is.")

    def _search(
        self, keys: Sequence[str], names: Sequence[str], done: int
    ) -> Reply | None:
        if done or not keys or "tool_search" not in names:
            return None
        batches = [keys[at : at + _AT_A_TIME] for at in range(0, len(keys), _AT_A_TIME)]
        return CallTools(
            [
                (
                    "tool_search",
                    {"query": " ".join(map(exposed, batch)), "limit": len(batch)},
                )
                for batch in batches
            ]
        )

    def _run(
        self,
        rounds: Sequence[Sequence[Call]],
        since: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        done: int,
    ) -> Reply:
        asked = {
            call["id"]: call["function"]["name"]
            for message in since
            for call in message.get("tool_calls") or ()
        }
        if since and since[-1]["role"] == "tool":
            for message in since[::-1]:
                if message["role"] != "tool":
                    break
                name = asked[message["tool_call_id"]]
                if name in _KEYS:
                    self.answers.append((_KEYS[name], _text(message["content"])))
        keys = dict.fromkeys(tool for calls in rounds for tool, _ in calls)
        # With those that are loaded already, which others may displace.
        wanted = [] if {*map(exposed, keys)} <= {*names} else list(keys)
        if (looking := self._search(wanted, names, done)) is not None:
            return looking
        turn = done - ("tool_search" in asked.values())
        if turn >= len(rounds):
            return SayText("It is done.")
        self.made += map(said, rounds[turn])
        return CallTools([(exposed(key), arguments) for key, arguments in rounds[turn]])


def failed(answer: str) -> bool:
    """Whether a tool's answer, as the model reads it, is anything but a good one."""
    try:
        told = json.loads(answer)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("status", "ok") != "ok"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or ())


def _latest(text: str, known: Any) -> str | None:
    """Which of the known utterances comes last in the text."""
    found = [(text.rfind(one), one) for one in known if one in text]
    return max(found)[1] if found else None
