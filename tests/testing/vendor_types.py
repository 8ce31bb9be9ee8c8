"""The vendors' own types as judges of what is on a wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from google.genai import types as gemini
from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import BaseModel


def _by_type(union: Any) -> dict[str, type[BaseModel]]:
    return {
        literal: model
        for model in get_args(get_args(union)[0])
        for literal in get_args(model.model_fields["type"].annotation)
    }


_REALTIME_SERVER = _by_type(RealtimeServerEvent)
_REALTIME_CLIENT = _by_type(RealtimeClientEvent)


def _extras(model: Any, path: str = "") -> list[str]:
    """Fields that the vendor does not know. Its models let them all pass."""
    if isinstance(model, BaseModel):
        own = [f"{path}.{key}" for key in model.model_extra or {}]
        fields = type(model).model_fields
        return own + [
            extra
            for key in fields
            for extra in _extras(getattr(model, key), f"{path}.{key}")
        ]
    if isinstance(model, list):
        return [
            x for i, each in enumerate(model) for x in _extras(each, f"{path}[{i}]")
        ]
    return []


def judge_realtime(
    sent: Iterable[Mapping[str, Any]], received: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Raise unless OpenAI's types know every event: of a server, and of its client."""
    for messages, models in ((sent, _REALTIME_SERVER), (received, _REALTIME_CLIENT)):
        for message in messages:
            model = models[message["type"]].model_validate(message)
            assert not _extras(model), (message, _extras(model))


def judge_gemini(
    sent: Iterable[Mapping[str, Any]], received: Iterable[Mapping[str, Any]] = ()
) -> None:
    """Raise unless Google's types know every message. They forbid what is extra."""
    for message in sent:
        gemini.LiveServerMessage.model_validate(message)
    for message in received:
        checked = dict(message)
        if "setup" in checked:  # the type of a setup lacks this one
            setup = dict(checked["setup"])
            config = setup.pop("realtimeInputConfig", {})
            gemini.RealtimeInputConfig.model_validate(config)
            checked["setup"] = setup
        gemini.LiveClientMessage.model_validate(checked)
