"""The vendor's own types judge what is on the Realtime wire, strictly.

The SDK's models let unknown keys pass, so the whole beta protocol would; and their
union is tried member by member. Here the ``type`` chooses the model, and a key that
the model does not have is a fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel


def client_event(message: str | bytes | Mapping[str, Any]) -> BaseModel:
    """A message as a client may send it, as the SDK's model.

    Raises:
      AssertionError: for an unknown type, or a key that the type does not have.
      pydantic.ValidationError: for a wrong value.
    """
    return _judged(message, _models("client"))


def server_event(message: str | bytes | Mapping[str, Any]) -> BaseModel:
    """A message as the server may send it, as the SDK's model; see `client_event`."""
    return _judged(message, _models("server"))


def unknown_keys(model: object, place: str = "") -> list[str]:
    """The places of all keys that the SDK's models do not know, at any depth."""
    if isinstance(model, BaseModel):
        here = [f"{place}.{key}" for key in model.model_extra or {}]
        for name in type(model).model_fields:
            here += unknown_keys(getattr(model, name), f"{place}.{name}")
        return here
    if isinstance(model, list):
        return [
            found
            for index, value in enumerate(model)
            for found in unknown_keys(value, f"{place}[{index}]")
        ]
    return []


def _judged(
    message: str | bytes | Mapping[str, Any], models: Mapping[str, type[BaseModel]]
) -> BaseModel:
    fields = message if isinstance(message, Mapping) else json.loads(message)
    kind = str(fields.get("type"))
    assert kind in models, f"no event type {kind!r}"
    event = models[kind].model_validate(fields)
    assert not (unknown := unknown_keys(event)), f"{kind}: unknown {unknown}"
    return event


@cache
def _models(side: str) -> Mapping[str, type[BaseModel]]:
    """The SDK's models by event type. Loaded on use: the SDK takes over a second."""
    if side == "client":
        from openai.types.realtime.realtime_client_event import (
            RealtimeClientEvent as Union,
        )
    else:
        from openai.types.realtime.realtime_server_event import (
            RealtimeServerEvent as Union,
        )
    members = get_args(get_args(Union)[0])
    return {
        kind: model
        for model in members
        for kind in get_args(model.model_fields["type"].annotation)
    }
