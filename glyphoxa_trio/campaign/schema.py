"""The layout of campaigns in SQLite; each field of a record is a column."""

from __future__ import annotations

from typing import Final

from glyphoxa_trio.storage.database import Schema

SCHEMA: Final = Schema(
    what="campaigns",
    mark=0x676C7863,
    # Every ``number`` is used only once, in the order of commits, since one program
    # writes at a time.
    migrations=(
        """
        create table campaign (
            number integer primary key autoincrement,
            id text not null unique,
            name text not null,
            gm_mode text not null,
            participant_count integer not null check (participant_count >= 0),
            actor_count integer not null check (actor_count >= 0),
            theme_prompt text not null,
            created_at text not null,
            updated_at text not null
        ) strict;
        create table participant (
            number integer primary key autoincrement,
            id text not null unique,
            campaign_id text not null references campaign (id) on delete cascade,
            display_name text not null,
            role text not null,
            controller text not null,
            created_at text not null,
            updated_at text not null
        ) strict;
        create index participant_of on participant (campaign_id, number);
        create table character (
            number integer primary key autoincrement,
            id text not null unique,
            campaign_id text not null references campaign (id) on delete cascade,
            name text not null,
            kind text not null,
            notes text not null,
            controller text,
            created_at text not null,
            updated_at text not null
        ) strict;
        create index character_of on character (campaign_id, number);
        create index character_by on character (controller)
            where controller is not null and controller <> 'GM';
        create table session (
            number integer primary key autoincrement,
            id text not null unique,
            campaign_id text not null references campaign (id) on delete cascade,
            name text not null,
            status text not null,
            started_at text not null,
            updated_at text not null,
            ended_at text
        ) strict;
        create index session_of on session (campaign_id, number);
        create unique index session_active on session (campaign_id)
            where status = 'ACTIVE';
        create table creation (
            number integer primary key autoincrement,
            key text not null unique,
            arguments text not null,
            record_id text not null,
            at real not null
        ) strict;
        create index creation_at on creation (at);
        create table change (
            number integer primary key autoincrement,
            campaign_id text not null,
            program text not null
        ) strict;
        """,
    ),
)
