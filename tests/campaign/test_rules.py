"""The rules of campaigns on two programs' files, against lists of dictionaries.

Real files, the disk and SQLite included; no threads and no clock.
"""

from __future__ import annotations

import copy
import itertools
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.campaign import changing, rules, schema, sqlite
from glyphoxa_trio.campaign.errors import (
    AlreadyExists,
    CampaignError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from glyphoxa_trio.campaign.listing import listed
from glyphoxa_trio.campaign.model import (
    LISTS,
    Campaign,
    CampaignMember,
    CampaignRecord,
    Character,
    GameSession,
    Participant,
    SessionStatus,
)
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.stamps import Timestamp, rfc3339
from glyphoxa_trio.campaign.store import Records

from .table import BEGIN

WHO = st.integers(0, 1)
NAMES = st.sampled_from(["Ann", "Böse", "山田", " x ", "'"])
KEYS = st.sampled_from([None, None, None, None, "k1", "k2"])
KINDS = st.sampled_from(list(LISTS.values()))
PICK = st.integers(0, 5)
# One in four is looked for in another campaign, if there is one.
ASTRAY = st.sampled_from([False, False, False, True])
NOWHERE = "camp_gone"
# What a field is called that every kind of member may be given anew.
NAMED = {Participant: "display_name", Character: "name", GameSession: "name"}


class Model:
    """All there is, in lists of plain dictionaries in the order of their making."""

    def __init__(self) -> None:
        self.rows: dict[type[CampaignRecord], list[dict[str, Any]]] = {
            Campaign: [],
            **{kind: [] for kind in LISTS.values()},
        }
        self.keys: dict[str, tuple[Any, str, float]] = {}

    def find(self, kind: type[CampaignRecord], record_id: str) -> dict[str, Any]:
        for row in self.rows[kind]:
            if row["id"] == record_id:
                return row
        raise NotFound

    def member(self, kind: type[CampaignMember], campaign: str, record_id: str) -> Any:
        self.find(Campaign, campaign)
        row = self.find(kind, record_id)
        if row["campaign_id"] != campaign:
            raise InvalidArgument
        return row

    def active(self, campaign: str) -> list[dict[str, Any]]:
        return [
            row
            for row in self.rows[GameSession]
            if row["campaign_id"] == campaign and row["status"] == "ACTIVE"
        ]

    def counted(self, campaign: dict[str, Any]) -> dict[str, Any]:
        """The counters of a campaign are what can be counted (F32)."""

        def count(kind: type[CampaignRecord]) -> int:
            return sum(r["campaign_id"] == campaign["id"] for r in self.rows[kind])

        return campaign | {
            "participant_count": count(Participant),
            "actor_count": count(Character),
        }


class RulesMachine(RuleBasedStateMachine):
    """Two programs do things in turn; everything is as in the model."""

    @initialize()
    def open_files(self) -> None:
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name) / "campaigns.db"
        self.files = [SqliteFile.open(path) for _ in range(2)]
        self.model = Model()
        self.now = BEGIN
        self.numbers = itertools.count(1)
        # Something to begin with, so that little is refused for want of it.
        for which in range(2):
            self.create_campaign(0, "Ann", None)
            for who in range(2):
                self.create_participant(who, which, "Ann", None)
                self.create_actor(who, which, "Ann", None)
            self.start_session(0, which, "Ann", None)

    def moment(self) -> Timestamp:
        return Timestamp(
            self.now, rfc3339(self.now), lambda prefix: f"{prefix}{next(self.numbers)}"
        )

    def both(self, who: int, real: Any, model: Any) -> Any:
        """Do it to the file and to the model: both say the same, or both refuse with
        the same code. What is refused has changed nothing."""
        before = copy.deepcopy((self.model.rows, self.model.keys))
        moment = self.moment()

        def work(records: Records) -> Any:
            return real(records, moment)

        refusal: type[CampaignError] | None = None
        try:
            wanted = model(self.model)
        except CampaignError as error:
            self.model.rows, self.model.keys = before
            refusal = type(error)
        if refusal is not None:
            with pytest.raises(CampaignError) as raised:
                self.files[who].write(work)
            assert raised.type is refusal
            return None
        found = self.files[who].write(work)
        if isinstance(found, CampaignRecord) and isinstance(wanted, dict):
            assert found.as_json() == wanted | {"id": found.id}
            wanted["id"] = found.id  # a new one has an id that the model cannot know
        else:
            assert found == wanted
        return found

    def campaign(self, pick: int) -> str:
        """One of those there are; now and then one that is gone."""
        ids = [row["id"] for row in self.model.rows[Campaign]]
        return ids[pick % len(ids)] if ids and pick != 5 else NOWHERE

    def member(
        self, kind: type[CampaignMember], pick: int, astray: bool
    ) -> tuple[str, str]:
        """One of those there are with its campaign, or with another one."""
        rows = self.model.rows[kind]
        if not rows:
            return self.campaign(pick), f"{kind.PREFIX}gone"
        row = rows[pick % len(rows)]
        return (self.campaign(pick) if astray else row["campaign_id"]), row["id"]

    def once(
        self, key: str | None, chosen: Any, make: Any, kind: type[CampaignRecord]
    ) -> dict[str, Any]:
        kept = self.model.keys.get(key) if key else None
        if kept is not None and self.now - kept[2] <= rules.KEY_EXPIRY:
            if kept[0] != (kind, chosen):
                raise AlreadyExists
            try:
                return self.model.find(kind, kept[1])
            except NotFound:
                raise FailedPrecondition from None
        row: dict[str, Any] = make()
        self.model.rows[kind].append(row)
        return row

    def kept(self, key: str | None, chosen: Any, made: CampaignRecord | None) -> None:
        if made is not None and key is not None:
            known = self.model.keys.get(key)
            if known is None or self.now - known[2] > rules.KEY_EXPIRY:
                self.model.keys = {
                    key: kept
                    for key, kept in self.model.keys.items()
                    if self.now - kept[2] <= rules.KEY_EXPIRY
                }
                self.model.keys[key] = ((type(made), chosen), made.id, self.now)

    @precondition(lambda self: len(self.model.rows[Campaign]) < 3)
    @rule(who=WHO, name=NAMES, key=KEYS)
    def create_campaign(self, who: int, name: str, key: str | None) -> None:
        now = rfc3339(self.now)
        chosen = (name.strip(), "AI")
        made = self.both(
            who,
            lambda records, moment: rules.create_campaign(
                records, moment, name=name, gm_mode="ai", key=key
            ),
            lambda model: model.counted(
                self.once(
                    key,
                    chosen,
                    lambda: {
                        "id": "",
                        "name": name.strip(),
                        "gm_mode": "AI",
                        "participant_count": 0,
                        "actor_count": 0,
                        "theme_prompt": "",
                        "created_at": now,
                        "updated_at": now,
                    },
                    Campaign,
                )
            ),
        )
        if made is not None:
            for row in self.model.rows[Campaign]:
                row["id"] = row["id"] or made.id
        self.kept(key, chosen, made)

    @rule(who=WHO, pick=PICK, name=NAMES, key=KEYS)
    def create_participant(
        self, who: int, pick: int, name: str, key: str | None
    ) -> None:
        campaign = self.campaign(pick)
        now = rfc3339(self.now)
        chosen = (campaign, name.strip())

        def make() -> dict[str, Any]:
            self.model.find(Campaign, campaign)
            return {
                "id": "",
                "campaign_id": campaign,
                "display_name": name.strip(),
                "role": "PLAYER",
                "controller": "HUMAN",
                "created_at": now,
                "updated_at": now,
            }

        made = self.both(
            who,
            lambda records, moment: rules.create_participant(
                records, moment, campaign, display_name=name, role="Player", key=key
            ),
            lambda model: self.once(key, chosen, make, Participant),
        )
        self.kept(key, chosen, made)

    @rule(who=WHO, pick=PICK, name=NAMES, key=KEYS)
    def create_actor(self, who: int, pick: int, name: str, key: str | None) -> None:
        campaign = self.campaign(pick)
        now = rfc3339(self.now)
        chosen = (campaign, name.strip())

        def make() -> dict[str, Any]:
            self.model.find(Campaign, campaign)
            return {
                "id": "",
                "campaign_id": campaign,
                "name": name.strip(),
                "kind": "NPC",
                "notes": "n",
                "created_at": now,
                "updated_at": now,
            }

        made = self.both(
            who,
            lambda records, moment: rules.create_character(
                records, moment, campaign, name=name, kind="npc", notes=" n ", key=key
            ),
            lambda model: self.once(key, chosen, make, Character),
        )
        self.kept(key, chosen, made)

    @rule(who=WHO, pick=PICK, name=NAMES, key=KEYS)
    def start_session(self, who: int, pick: int, name: str, key: str | None) -> None:
        campaign = self.campaign(pick)
        now = rfc3339(self.now)
        chosen = (campaign, name.strip())

        def make() -> dict[str, Any]:
            self.model.find(Campaign, campaign)
            if self.model.active(campaign):
                raise FailedPrecondition
            return {
                "id": "",
                "campaign_id": campaign,
                "name": name.strip(),
                "status": "ACTIVE",
                "started_at": now,
                "updated_at": now,
            }

        made = self.both(
            who,
            lambda records, moment: rules.start_session(
                records, moment, campaign, name=name, key=key
            ),
            lambda model: self.once(key, chosen, make, GameSession),
        )
        self.kept(key, chosen, made)

    @rule(
        who=WHO,
        pick=PICK,
        active=st.booleans(),
        astray=ASTRAY,
        to=st.sampled_from(
            [*SessionStatus, SessionStatus.PAUSED, SessionStatus.ACTIVE]
        ),
    )
    def move_session(
        self, who: int, pick: int, active: bool, astray: bool, to: SessionStatus
    ) -> None:
        campaign, found = self.member(GameSession, pick, astray)
        one = None if active else found

        def move(model: Model) -> dict[str, Any]:
            model.find(Campaign, campaign)
            if one is None:
                if not model.active(campaign):
                    raise FailedPrecondition
                (session,) = model.active(campaign)
            else:
                session = model.member(GameSession, campaign, one)
            if session["status"] == to:
                return session
            if session["status"] == "ENDED":
                raise FailedPrecondition
            if to is SessionStatus.ACTIVE and model.active(campaign):
                raise FailedPrecondition
            session["status"] = str(to)
            now = max(session["updated_at"], rfc3339(self.now))
            session["updated_at"] = now
            if to is SessionStatus.ENDED:
                session["ended_at"] = now
            found: dict[str, Any] = session
            return found

        self.both(
            who,
            lambda records, moment: changing.move_session(
                records, moment, campaign, one, to
            ),
            move,
        )

    @rule(who=WHO, kind=KINDS, pick=PICK, astray=ASTRAY, name=NAMES)
    def rename(
        self, who: int, kind: type[CampaignMember], pick: int, astray: bool, name: str
    ) -> None:
        campaign, one = self.member(kind, pick, astray)
        field = NAMED[kind]

        def renamed(model: Model) -> dict[str, Any]:
            row: dict[str, Any] = model.member(kind, campaign, one)
            if row[field] != name.strip():
                row[field] = name.strip()
                row["updated_at"] = max(row["updated_at"], rfc3339(self.now))
            return row

        self.both(
            who,
            lambda records, moment: changing.update(
                records, moment, kind, campaign, one, {field: name}
            ),
            renamed,
        )

    @rule(who=WHO, pick=PICK, astray=ASTRAY, other=st.none() | PICK)
    def set_controller(
        self, who: int, pick: int, astray: bool, other: int | None
    ) -> None:
        campaign, one = self.member(Character, pick, astray)
        by = "gm" if other is None else self.member(Participant, other, False)[1]

        def control(model: Model) -> dict[str, Any]:
            row: dict[str, Any] = model.member(Character, campaign, one)
            wanted = "GM"
            if by != "gm":
                wanted = model.member(Participant, campaign, by)["id"]
            if row.get("controller") != wanted:
                row["controller"] = wanted
                row["updated_at"] = max(row["updated_at"], rfc3339(self.now))
            return row

        self.both(
            who,
            lambda records, moment: changing.set_controller(
                records, moment, campaign, one, by
            ),
            control,
        )

    @rule(who=WHO, kind=KINDS, pick=PICK, astray=ASTRAY)
    def delete_member(
        self, who: int, kind: type[CampaignMember], pick: int, astray: bool
    ) -> None:
        campaign, one = self.member(kind, pick, astray)

        def delete(model: Model) -> int:
            model.rows[kind].remove(model.member(kind, campaign, one))
            released = 0
            for row in model.rows[Character]:
                if kind is Participant and row.get("controller") == one:
                    del row["controller"]
                    row["updated_at"] = max(row["updated_at"], rfc3339(self.now))
                    released += 1
            return released

        self.both(
            who,
            lambda records, moment: changing.delete(
                records, moment, kind, campaign, one
            ),
            delete,
        )

    @precondition(lambda self: len(self.model.rows[Campaign]) > 1)
    @rule(who=WHO, pick=PICK)
    def delete_campaign(self, who: int, pick: int) -> None:
        campaign = self.campaign(pick)

        def delete(model: Model) -> int:
            model.rows[Campaign].remove(model.find(Campaign, campaign))
            for kind in LISTS.values():
                model.rows[kind] = [
                    row for row in model.rows[kind] if row["campaign_id"] != campaign
                ]
            return 0

        self.both(
            who,
            lambda records, moment: changing.delete(
                records, moment, Campaign, campaign, campaign
            ),
            delete,
        )

    @rule(by=st.sampled_from([-100.0, 1.0, 3600.0, rules.KEY_EXPIRY, 1e6]))
    def time_passes(self, by: float) -> None:
        self.now += by

    @rule(who=WHO)
    def open_again(self, who: int) -> None:
        path = self.files[who].path
        self.files[who].close()
        self.files[who] = SqliteFile.open(path)

    @invariant()
    def both_programs_see_what_the_model_has(self) -> None:
        rows = self.model.rows
        for file in self.files:
            found = file.read(lambda records: listed(records, Campaign, size=10**9))
            assert found.records == [self.model.counted(x) for x in rows[Campaign]]
            for campaign in rows[Campaign]:
                for kind in LISTS.values():
                    mine = file.read(lambda r: _all(r, kind, campaign["id"]))  # noqa: B023
                    assert mine == [
                        row
                        for row in rows[kind]
                        if row["campaign_id"] == campaign["id"]
                    ]

    def teardown(self) -> None:
        for file in self.files:
            file.close()
        self.folder.cleanup()


def _all(
    records: Records, kind: type[CampaignMember], campaign: str
) -> list[dict[str, Any]]:
    return listed(records, kind, campaign, size=10**9).records


def _numbered(records: Records, n: int) -> None:
    moment = Timestamp(BEGIN, rfc3339(BEGIN), lambda prefix: f"{prefix}{n}")
    made = rules.create_campaign(
        records, moment, name=f"C{n}", gm_mode="AI", key=f"key {n}"
    )
    records.touch(made.id)


TestRules = RulesMachine.TestCase
TestRules.settings = settings(stateful_step_count=30)


def test_what_is_kept_for_retries_and_for_others_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MOST_KEYS", 5)
    monkeypatch.setattr(sqlite, "MOST_CHANGES", 7)
    file = SqliteFile.open(tmp_path / "campaigns.db")
    for n in range(20):
        file.write(partial(_numbered, n=n))

    def counts(records: Any) -> list[int]:
        return [
            records._connection.execute(f"select count(*) from {table}").get
            for table in ("creation", "change", "campaign")
        ]

    assert file.read(counts) == [5, 7, 20]
    file.close()


def test_what_a_clock_that_was_put_back_changes_is_no_older_than_before() -> None:
    file = SqliteFile.open(None)
    later, earlier = (
        Timestamp(at, rfc3339(at), lambda prefix: f"{prefix}1") for at in (BEGIN, 0.0)
    )

    def work(records: Records) -> tuple[GameSession, Campaign]:
        rules.create_campaign(records, later, name="C", gm_mode="AI")
        rules.start_session(records, later, "camp_1")
        return (
            changing.move_session(
                records, earlier, "camp_1", "sess_1", SessionStatus.ENDED
            ),
            changing.update(records, earlier, Campaign, "", "camp_1", {"name": "D"}),
        )

    session, campaign = file.write(work)
    assert session.ended_at == session.updated_at == session.started_at == later.text
    assert campaign.updated_at == campaign.created_at == later.text
    file.close()


def test_a_schema_is_only_ever_added_to() -> None:
    assert schema.SCHEMA.mark == 0x676C7863
    assert len(schema.SCHEMA.migrations) == 1
