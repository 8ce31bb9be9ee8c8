"""The campaign that each client has chosen, with a session and a participant of it.

Kept in memory only, for as long as the client's session lasts.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from .errors import FailedPrecondition, ResourceExhausted
from .model import Campaign, GameSession, Participant
from .rules import find, member
from .store import Records

MOST_CONTEXTS: Final = 10_000


@attrs.frozen(kw_only=True)
class CampaignContext:
    """The ids that tools use where a call does not give them."""

    campaign_id: str
    session_id: str | None = None
    participant_id: str | None = None

    def as_json(self) -> dict[str, str]:
        """Return the ids that are set."""
        return {key: value for key, value in attrs.asdict(self).items() if value}


def checked(
    records: Records,
    campaign_id: str,
    session_id: str | None = None,
    participant_id: str | None = None,
) -> CampaignContext:
    """Return a context whose ids exist and belong together.

    Raises:
      NotFound: if one of them does not exist.
      InvalidArgument: if one of them is empty, or belongs to another campaign.
    """
    find(records, Campaign, campaign_id)
    if session_id is not None:
        member(records, GameSession, campaign_id, session_id)
    if participant_id is not None:
        member(records, Participant, campaign_id, participant_id)
    return CampaignContext(
        campaign_id=campaign_id, session_id=session_id, participant_id=participant_id
    )


@attrs.define(eq=False)
class Contexts:
    """The contexts of all clients, by their session."""

    most: int = MOST_CONTEXTS
    _contexts: dict[str, CampaignContext] = attrs.field(factory=dict, init=False)

    def of(self, session: str) -> CampaignContext | None:
        return self._contexts.get(session)

    def require(self, session: str) -> None:
        """Check that a context can be kept for this client.

        Raises:
          FailedPrecondition: if the client's requests have no session, so that nothing
            can be kept for it.
          ResourceExhausted: if there are too many other contexts.
        """
        if not session:
            raise FailedPrecondition(
                "without a session there is no context: give campaign_id with each call"
            )
        if len(self._contexts) >= self.most and session not in self._contexts:
            raise ResourceExhausted(f"{self.most} clients have a context already")

    def put(self, session: str, context: CampaignContext) -> None:
        """Replace the client's context as a whole.

        Raises the errors of `require`.
        """
        self.require(session)
        self._contexts[session] = context

    def forget(self, session: str) -> None:
        self._contexts.pop(session, None)

    def as_json(self, session: str) -> dict[str, Any]:
        """Return all ids, with null for those that are not set."""
        context = self.of(session)
        names = [field.name for field in attrs.fields(CampaignContext)]
        return {
            "context": dict.fromkeys(names)
            if context is None
            else attrs.asdict(context)
        }
