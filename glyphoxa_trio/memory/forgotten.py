"""The marks of players who were forgotten, by which other processes learn of it. Pure.

A store keeps a mark for a day. It has a digest in place of the player's id: only who
knows the id can tell whose mark it is.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import attrs

from .entries import fit

KEPT: Final = 86_400.0  # seconds


def digest_of(tenant: str, player: str, campaign: str | None = None) -> str:
    """Return the digest of a player's id, in one campaign or in all."""
    both = f"{len(tenant)} {fit(tenant)} {fit(player)}"
    # A player's id may look like another one's with a campaign behind it.
    where = b"" if campaign is None else b"in a campaign"
    if campaign is not None:
        both = f"{both} {len(player)} {fit(campaign)}"
    digest = blake2b(both.encode(), digest_size=16, person=where)
    return digest.hexdigest()


@attrs.frozen(kw_only=True)
class ForgottenPlayer:
    """The mark that a player of a tenant was forgotten.

    A later one has a higher number ``n``.
    """

    n: int
    tenant: str
    digest: str

    def is_of(self, player: str, campaign: str | None = None) -> bool:
        """Return True if it is the mark of this player, in that campaign or in all."""
        return digest_of(self.tenant, player, campaign) == self.digest
