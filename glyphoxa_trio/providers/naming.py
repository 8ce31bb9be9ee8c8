"""The names of models and providers, for logs and traces."""

from __future__ import annotations

from typing import Protocol


class Labelled(Protocol):
    """A model of any kind; ``label`` names it in messages."""

    @property
    def label(self) -> str: ...


def asked_first(model: Labelled) -> Labelled:
    """Return the model itself of one that is recorded, and the first one of a chain."""
    while hasattr(model, "spoken_by"):
        model = model.spoken_by
    return model


def provider_of(model: Labelled) -> str:
    """Return the folder of a provider of this package, or the label of another one."""
    model = asked_first(model)
    ours, _, rest = type(model).__module__.partition("glyphoxa_trio.providers.")
    return rest.partition(".")[0] if rest and not ours else model.label
