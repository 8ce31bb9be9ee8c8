"""The layout of a memory file.

Who may know a line, a summary, a chunk or a fact is an *audience*: a set of NPCs. It is
stored once, and everything that this set may know has its number. A viewer's audiences
are looked up first, and each query is restricted to them. Audience 0 is every NPC.

Topics are a space-separated text of words in percent encoding, empty if there are none;
secrets have a column of their own.
"""

from __future__ import annotations

from typing import Final

from glyphoxa_trio.storage.database import Schema

_KNOWN: Final = """
    audience integer not null references audience,
    topics text not null default '',
    secret integer not null default 0,
    basis text not null,
    at real not null,
    evening text not null default '',
    player text not null default '',
    by text not null default '',
    confidence real not null,
    confirmed integer not null
"""

SCHEMA: Final = Schema(
    what="memory",
    mark=0x676C6D65,
    migrations=(
        f"""
        create table campaign (
            id integer primary key,
            tenant text not null,
            name text not null,
            unique (tenant, name)
        ) strict;

        -- Sets of NPCs. `members` are their names as a sorted JSON array.
        create table audience (
            id integer primary key,
            campaign integer references campaign on delete cascade,
            members text,
            unique (campaign, members)
        ) strict;
        insert into audience (id, campaign, members) values (0, null, null);
        create table listener (
            campaign integer not null references campaign on delete cascade,
            npc text not null,
            audience integer not null references audience on delete cascade,
            primary key (campaign, npc, audience)
        ) strict, without rowid;

        create table session (
            id integer primary key,
            tenant text not null,
            name text not null,
            campaign integer not null references campaign on delete cascade,
            epoch integer not null default 0,
            holder text not null default '',
            place text not null default '',
            last integer not null default 0,
            last_at real not null default 0,
            ended integer not null default 0,
            unique (tenant, name)
        ) strict;
        create index session_held on session (holder) where holder <> '';
        create table entry (
            id integer primary key,
            session integer not null references session on delete cascade,
            n integer not null,
            epoch integer not null,
            kind text not null,
            at real not null,
            npc text not null default '',
            turn integer not null default 0,
            data text not null default '{{}}',
            unique (session, n)
        ) strict;
        -- A session may have many more lines than other entries.
        create index entry_not_line on entry (session, n) where kind <> 'line';

        create table evening (
            id integer primary key,
            campaign integer not null references campaign on delete cascade,
            name text not null,
            session integer not null references session on delete cascade,
            began real not null,
            ended real,
            whole integer not null default 0,  -- each of its lines is in a chunk
            unique (campaign, name)
        ) strict;
        create index evening_of on evening (session, began);
        create index evening_when on evening (campaign, began);
        create index evening_cut on evening (id) where ended is not null and not whole;
        create table summary (
            evening integer not null references evening on delete cascade,
            audience integer not null references audience,
            text text not null,
            primary key (evening, audience)
        ) strict, without rowid;

        -- The entries of the kind line; `id` is the entry's.
        create table line (
            id integer primary key references entry on delete cascade,
            session integer not null,
            campaign integer not null,
            evening integer references evening,
            audience integer not null references audience,
            at real not null,
            speaker text not null,
            player text not null default '',
            addressee text not null default '',
            text text not null,
            corrected text not null default '',
            seconds real not null default 0
        ) strict;
        -- Whoever hears little in a long campaign finds it as fast as the others, since
        -- the audience comes before the time.
        create index line_when on line (campaign, audience, at);
        create index line_in on line (session, audience, at);
        create index line_of on line (campaign, audience, evening, at);
        -- The words of lines; `line_words` of the package writes and reads it.
        create virtual table line_words using fts5 (
            words, content='', contentless_delete=1, tokenize='ascii'
        );

        create table entity (
            id integer primary key,
            campaign integer not null references campaign on delete cascade,
            slug text not null,
            kind text not null,
            name text not null,
            summary text not null default '',
            attributes text not null default '{{}}',
            {_KNOWN},
            unique (campaign, slug)
        ) strict;
        -- All names of entities: the name itself at place 0, then the aliases. `folded`
        -- are its words, by which names are compared.
        create table name (
            campaign integer not null,
            entity integer not null references entity on delete cascade,
            place integer not null,
            name text not null,
            folded text not null,
            primary key (entity, place)
        ) strict, without rowid;
        create index name_folded on name (campaign, folded);
        create table relationship (
            source integer not null references entity on delete cascade,
            type text not null,
            target integer not null references entity on delete cascade,
            attributes text not null default '{{}}',
            {_KNOWN},
            primary key (source, type, target)
        ) strict, without rowid;
        create index relationship_to on relationship (target, type, source);

        create table fact (
            -- Not given twice: the game master judges by it, perhaps later.
            id integer primary key autoincrement,
            campaign integer not null references campaign on delete cascade,
            text text not null,
            standing text not null,
            {_KNOWN}
        ) strict;
        create index fact_of on fact (campaign, standing, at);
        create index fact_text on fact (campaign, substr(text, 1, 40));
        create table fact_about (
            fact integer not null references fact on delete cascade,
            entity integer not null references entity on delete cascade,
            place integer not null,
            primary key (entity, fact)
        ) strict, without rowid;
        create index fact_about_of on fact_about (fact, place);
        create virtual table fact_words using fts5 (
            -- `scope` is `c5` for campaign 5, `text` the words that `words_of` found.
            scope, text, content='', contentless_delete=1, tokenize="ascii"
        );
        create trigger fact_gone after delete on fact begin
            delete from fact_words where rowid = old.id;
        end;

        -- An id is never used again: a model's `reached` counts on it.
        create table chunk (
            id integer primary key autoincrement,
            campaign integer not null references campaign on delete cascade,
            evening integer references evening on delete cascade,
            fact integer references fact on delete cascade,
            audience integer not null references audience,
            topics text not null default '',
            secret integer not null default 0,
            at real not null,
            text text not null
        ) strict;
        create index chunk_of on chunk (evening);
        create index chunk_fact on chunk (fact);
        -- An accepted fact is a chunk, and a changed one another.
        create trigger fact_added after insert on fact when new.standing = 'accepted'
        begin
            insert into chunk (campaign, fact, audience, topics, secret, at, text)
            values (new.campaign, new.id, new.audience, new.topics, new.secret, new.at,
                new.text);
        end;
        create trigger fact_changed
        after update of text, standing, audience, topics, secret, at on fact
        when (old.text, old.standing, old.audience, old.topics, old.secret, old.at)
            <> (new.text, new.standing, new.audience, new.topics, new.secret, new.at)
        begin
            delete from chunk where fact = old.id;
            insert into chunk (campaign, fact, audience, topics, secret, at, text)
            select new.campaign, new.id, new.audience, new.topics, new.secret, new.at,
                new.text
            where new.standing = 'accepted';
        end;

        -- Models of embeddings. Chunks up to `reached` have a vector. A model without a
        -- name is being removed.
        create table model (
            id integer primary key,
            name text unique,
            dimensions integer not null,
            reached integer not null default 0
        ) strict;
        -- `full` has the length 1: 32-bit floats, and zeros up to a multiple of eight.
        create table vector (
            id integer primary key,
            model integer not null references model on delete cascade,
            chunk integer not null references chunk on delete cascade,
            full blob not null,
            unique (model, chunk)
        ) strict;
        create index vector_of on vector (chunk);
        -- A search reads these first, so they have no more than it needs: whether each
        -- number of the vector is above 0, and the audience, topics and secret of the
        -- chunk.
        create table code (
            model integer not null references model on delete cascade,
            campaign integer not null,
            chunk integer not null references chunk on delete cascade,
            audience integer not null,
            topics text not null,
            secret integer not null,
            bits blob not null,
            primary key (model, campaign, chunk)
        ) strict, without rowid;
        create index code_of on code (chunk);

        -- What was made of a line.
        create table source (
            line integer not null references line on delete cascade,
            fact integer references fact on delete cascade,
            chunk integer references chunk on delete cascade
        ) strict;
        create index source_line on source (line);
        create index source_fact on source (fact);
        create index source_chunk on source (chunk);

        -- Lines that are in no chunk any more are cut again. `appending` does the same
        -- for new ones.
        create trigger chunk_removed after delete on chunk
        when old.evening is not null
        begin
            update evening set whole = 0 where id = old.evening and whole;
        end;
        """,
        # The players whom a line answers, as a JSON array. Before, a line only said by
        # which name it addressed them.
        """
        alter table line add column answers text not null default '';
        update line set answers = called.players from (
            select session, speaker, json_group_array(distinct player) as players
            from line where player <> '' group by session, speaker
        ) as called
        where called.session = line.session and called.speaker = line.addressee
            and line.player = '';
        """,
        # Players who were forgotten in the last day, for the other holders.
        """
        create table forgotten (
            id integer primary key autoincrement,
            tenant text not null,
            digest text not null,
            holder text not null,
            at real not null
        ) strict;
        """,
        # Rows up to `upto` whose words an older version made; `rebuild` works on them.
        """
        create table stale_words (what text primary key, upto integer not null) strict;
        insert into stale_words
        select * from (
            select 'name' as what, max(id) as upto from entity
            union all select 'fact', max(id) from fact
            union all select 'line', max(id) from line
        ) where upto is not null;
        """,
        # Who summarises an evening now, how often that was put off, and until when.
        """
        alter table evening add column leased text not null default '';
        alter table evening add column put_off integer not null default 0;
        alter table evening add column due real;
        """,
        # Facts that are told in every turn, and a JSON array of words that find one.
        """
        alter table fact add column pinned integer not null default 0;
        alter table fact add column keywords text not null default '[]';
        create index fact_pinned on fact (campaign) where pinned;
        """,
    ),
)
