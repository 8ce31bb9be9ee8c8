"""The keys for what NPCs remember after the session: the store, and its use."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import attrs

from glyphoxa_trio.secret import Secret

from .fields import (
    LIVE,
    NEXT_START,
    InMs,
    Text,
    above_zero,
    if_given,
    not_empty,
    not_negative,
)
from .problems import ConfigError
from .servers import web_address

OFF = "off"


class Durability(StrEnum):
    """The events that a committed entry survives.

    ``NORMAL``: the end of this process at any moment. ``FULL``: a loss of power too.
    """

    NORMAL = "normal"
    FULL = "full"


@attrs.frozen(kw_only=True)
class EmbeddingsConfig:
    """A model that makes vectors of texts: at an OpenAI-compatible ``base_url``, or in
    the folder ``path`` on this machine."""

    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    model: str | None = attrs.field(default=None, validator=if_given(not_empty))
    api_key: Secret | None = None
    dimensions: int | None = attrs.field(default=None, validator=if_given(above_zero))
    path: Path | None = None

    def __attrs_post_init__(self) -> None:
        if (self.base_url is None) == (self.path is None):
            raise ConfigError("embeddings need either base_url or path")
        if self.base_url is not None and self.model is None:
            raise ConfigError("embeddings at a base_url need model")


@attrs.frozen(kw_only=True)
class RecallConfig:
    """The parts of memory that are added to the prompt of each turn: so many tokens of
    each and of all together, ready within ``timeout``. 0 leaves a part out. What comes
    first has the tokens of ``total`` first."""

    total: int = attrs.field(default=700, validator=not_negative)
    identity: int = attrs.field(default=150, validator=not_negative)
    relationships: int = attrs.field(default=100, validator=not_negative)
    summaries: int = attrs.field(default=250, validator=not_negative)
    facts: int = attrs.field(default=400, validator=not_negative)
    transcript: int = attrs.field(default=200, validator=not_negative)
    timeout: InMs = attrs.field(default=0.05, validator=above_zero)


@attrs.frozen(kw_only=True)
class MemoryConfig:
    """The memory of NPCs beyond the session.

    ``store``: ``off``, a file, or the ``postgresql://`` address of a database; unset,
    the command keeps a file in its state folder, and a program that embeds the runtime
    keeps nothing. ``name`` names that file. ``campaign`` is that of sessions that name
    none. Extracted facts with a confidence of ``accept_above`` need no confirmation.
    Lines are removed after ``keep_days``, unset never. Claims that nobody decided about
    are removed after ``claim_days``, 0 never, if nothing later is about an entity of
    theirs.
    """

    store: str | None = attrs.field(
        default=None, validator=if_given(not_empty), metadata=NEXT_START
    )
    name: Text | None = attrs.field(default=None, metadata=NEXT_START)
    campaign: Text | None = attrs.field(default=None, metadata=NEXT_START)
    durability: Durability = attrs.field(default=Durability.NORMAL, metadata=NEXT_START)
    keep_days: int | None = attrs.field(
        default=None, validator=if_given(above_zero), metadata=NEXT_START
    )
    claim_days: int = attrs.field(
        default=60, validator=not_negative, metadata=NEXT_START
    )
    recall: RecallConfig = attrs.field(factory=RecallConfig, metadata=LIVE)
    afterwards: bool = attrs.field(default=True, metadata=NEXT_START)
    model: str | None = attrs.field(
        default=None, validator=if_given(not_empty), metadata=NEXT_START
    )
    accept_above: float = attrs.field(
        default=0.8,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
        metadata=NEXT_START,
    )
    embeddings: EmbeddingsConfig | None = attrs.field(default=None, metadata=NEXT_START)

    @property
    def off(self) -> bool:
        """True if the configuration switches memory off."""
        return self.store == OFF
