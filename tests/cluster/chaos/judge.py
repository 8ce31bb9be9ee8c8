"""The judge: what the database and the ledger show of what the cluster has done.

Triggers of its own judge each write where it is made: one in another epoch than that of
its session comes from a second writer, and so does a claim without a new epoch. They
also keep each turn that was written, which the journal itself drops one day.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs
import psycopg

_BEFORE, _AFTER = 8, 16  # lines of a story
_TRIGGERS: Final = """
    create schema judge;
    create table judge.second_writer (at timestamptz default now(), what text);
    create table judge.full_disk (at timestamptz default now());
    create table judge.turn (
        session bigint, n bigint, epoch bigint, npc text, turn bigint, data text
    );
    create table judge.story (
        session bigint, at timestamptz default clock_timestamp(), what text
    );
    create function judge.written() returns trigger language plpgsql as $$
    declare now_in bigint;
    begin
        if exists (select from judge.full_disk) then
            raise exception using errcode = 'disk_full', message = 'no space left';
        end if;
        select epoch into now_in from glyphoxa.session where id = new.session;
        if new.epoch <> now_in then
            insert into judge.second_writer (what) values (format(
                'session %s, %s %s: of epoch %s in epoch %s',
                new.session, tg_table_name, new.n, new.epoch, now_in));
        end if;
        if tg_table_name = 'entry' then
            insert into judge.story (session, what) values (new.session, format(
                'entry %s of epoch %s: %s%s', new.n, new.epoch, new.kind, (
                    select ' #' || max(m[1]::int)
                    from regexp_matches(new.data, '#(\\d+)', 'g') as m)));
            insert into judge.turn select new.session, new.n, new.epoch, new.npc,
                new.turn, new.data where new.kind = 'turn';
        end if;
        return new;
    end $$;
    create function judge.claimed() returns trigger language plpgsql as $$
    begin
        if new.epoch < old.epoch or new.last < old.last
            or (new.holder is distinct from old.holder and new.holder is not null
                and new.epoch <> old.epoch + 1)
        then
            insert into judge.second_writer (what) values (format(
                'session %s: from epoch %s and entry %s to %s and %s',
                new.id, old.epoch, old.last, new.epoch, new.last));
        end if;
        if new.epoch <> old.epoch or new.holder is distinct from old.holder then
            insert into judge.story (session, what) values (new.id, format(
                'epoch %s is held by %s, after entry %s',
                new.epoch, coalesce(new.holder::text, 'nobody'), new.last));
        end if;
        return new;
    end $$;
    create trigger written before insert on glyphoxa.entry
        for each row execute function judge.written();
    create trigger written before insert on glyphoxa.line
        for each row execute function judge.written();
    create trigger claimed before update on glyphoxa.session
        for each row execute function judge.claimed();
"""


@attrs.define(eq=False)
class Judge:
    """Looks at the database ``address`` and at the file ``ledger``. Blocks."""

    address: str
    ledger: Path

    def begin(self) -> None:
        """Make the triggers; the memory's tables must be there."""
        self._execute(_TRIGGERS)

    def fill_disk(self, full: bool) -> None:
        """Have each write refused as on a full disk, or no longer."""
        self._execute(
            "insert into judge.full_disk default values"
            if full
            else "delete from judge.full_disk"
        )

    def claiming(self) -> str | None:
        """Return the name of the application that waits for a lock in a claim."""
        rows = self._execute(
            "select application_name from pg_stat_activity where wait_event_type ="
            " 'Lock' and query like 'insert into session%' limit 1"
        )
        return str(rows[0][0]) if rows else None

    def campaign(self) -> int:
        return int(self._execute("select min(id) from glyphoxa.campaign")[0][0])

    def second_writers(self) -> list[str]:
        """Return each write that was made beside the session's owner, or twice."""
        found = [
            str(x) for (x,) in self._execute("select what from judge.second_writer")
        ]
        twice = self._execute(
            "select session, npc, turn, count(*) from judge.turn"
            " group by session, npc, turn having count(*) > 1"
        )
        falling = self._execute(
            "select session, n, epoch, before from (select *, lag(epoch) over ("
            " partition by session order by n) as before from judge.turn) as x"
            " where epoch < before"
        )
        found += [f"session {s}: turn {t} of {npc} x {n}" for s, npc, t, n in twice]
        found += [
            f"session {s}, entry {n}: epoch {e} after {b}" for s, n, e, b in falling
        ]
        return found

    def written(self) -> Counter[tuple[str, int]]:
        """Return how often each utterance was written, by its session and number."""
        rows = self._execute(
            "select name, m[1]::int from judge.turn"
            " join glyphoxa.session on session.id = turn.session,"
            " regexp_matches(turn.data, '#(\\d+)', 'g') as m"
        )
        return Counter((str(name), int(n)) for name, n in rows)

    def story(self, name: str, number: int) -> list[str]:
        """Return the claims and entries of a session about where an utterance was
        written; entries with the highest number of an utterance that they have."""
        rows = self._execute(
            "select name, to_char(story.at, 'HH24:MI:SS.MS'), what from judge.story"
            " join glyphoxa.session on session.id = story.session order by story.at"
        )
        story = [f"{at} {what}" for of, at, what in rows if of == name]
        written = (x for x, s in enumerate(story) if s.endswith(f": turn #{number}"))
        at = next(written, len(story))
        return story[max(0, at - _BEFORE) : at + _AFTER]

    def paid(self) -> Counter[str]:
        """Return how often each effect was run."""
        text = self.ledger.read_text() if self.ledger.exists() else ""
        return Counter(text.split())

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.address, autocommit=True) as connection:
            done = connection.execute(sql.encode())
            return done.fetchall() if done.description else []


def twice(counts: Counter[str]) -> list[str]:
    """Return what was counted more than once."""
    return [x for x, n in counts.items() if n > 1]
