"""``glyphoxa memory``: search, review, import, export, backup, forget (G38)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.cli import memory_summarise
from glyphoxa_trio.config import Config
from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.importing.archiving import all_facts
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Standing,
)
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import EVERYONE, CampaignKey, Reach
from glyphoxa_trio.providers.llm import LLM, Finished, LLMEvent, LLMRequest
from glyphoxa_trio.testing.model_server import SayText, open_model_server

from ..npc.support import ScriptedLLM
from .support import beside, run, terminal, written

KEY = CampaignKey("nights")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration whose memory is ``kept.db`` beside it."""
    (tmp_path / ".git").mkdir()
    return written(tmp_path, memory={"store": "kept.db", "campaign": "nights"})


async def fill(place: str) -> None:
    """A campaign of one session, whose facts wait, are claimed or secret."""
    async with open_memory(place) as memory:
        claim = await memory.journal.claim("", "table", KEY)
        evening = await memory.transcripts.begin_evening(claim, 100_000)
        lines = [
            Line(text="A dragon!", speaker="Ann", player="p1", reach=Reach.of("Bo"),
                 evening=evening.id),
            Line(text="Where is the dragon?", speaker="Bo", reach=EVERYONE,
                 evening=evening.id),
        ]  # fmt: skip
        await memory.journal.append(
            claim,
            [
                Entry(kind=EntryKind.LINE, at=100_001.0 + n, line=x)
                for n, x in enumerate(lines)
            ],
        )
        await memory.journal.release(claim)
        told = Provenance(basis=Basis.INFERRED, confidence=0.5)
        claimed = Provenance(basis=Basis.CLAIMED, player="p1", by="Ann")
        await memory.graph.put(
            KEY,
            entities=[
                Entity(id="smaug", kind=EntityKind.NPC, name="Smaug",
                       reach=Reach(secret=True))
            ],
            facts=[
                Fact(text="The dragon sleeps.", standing=Standing.QUEUED,
                     provenance=told),
                Fact(text="Ann is a queen.", standing=Standing.CLAIMED,
                     provenance=claimed),
                Fact(text="The dragon is old.", reach=Reach(secret=True)),
            ],
        )  # fmt: skip


@pytest.fixture
def filled(path: Path) -> Path:
    trio.run(fill, str(path.parent / "kept.db"))
    return path


def said(*words: str | Path) -> dict[str, Any]:
    ran = run(*words, "--json")
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_show_says_where_it_is_and_how_much(filled: Path) -> None:
    shown = said("memory", "show", filled)
    assert shown["place"] == str(filled.parent / "kept.db")
    assert shown["bytes"] > 0
    assert shown["campaigns"] == [
        {
            "campaign": "nights", "tenant": "", "sessions": 1, "evenings": 1,
            "lines": 2, "entities": 1, "facts": 2, "to_review": 2,
        }
    ]  # fmt: skip
    table = run("memory", "show", filled.parent / "kept.db").stdout
    assert "nights" in table
    assert "glyphoxa memory review" in table


def test_without_a_memory_nothing_is_made(path: Path) -> None:
    for words in (("show",), ("search", "x"), ("review",), ("export",)):
        ran = run("memory", words[0], path, *words[1:])
        assert ran.returncode == 2
        assert "nothing is remembered yet: there is no" in ran.stderr
    assert not (path.parent / "kept.db").exists()
    off = written(path.parent, memory={"store": "off"})
    assert "switched off @ memory.store" in run("memory", "show", off).stderr


def test_demo_is_the_memory_of_the_demo(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    ran = run("memory", "show", "demo", env=env, cwd=tmp_path)
    assert "nothing is remembered yet" in ran.stderr
    assert "tavern-" in ran.stderr


def test_search_shows_an_npc_only_what_it_may_know(filled: Path) -> None:
    def found(*words: str) -> list[tuple[str, str]]:
        hits = said("memory", "search", filled, "dragon", *words)["found"]
        return sorted((x["kind"], x["text"]) for x in hits)

    first, second = ("line", "A dragon!"), ("line", "Where is the dragon?")
    assert found() == [("fact", "The dragon is old."), first, second]
    assert found("--npc", "bo") == [first, second]
    wrong = run("memory", "search", filled, "dragon", "--npc", "Boo")
    assert (wrong.returncode, "did you mean Bo?" in wrong.stderr) == (2, True)
    wrong = run("memory", "search", filled, "dragon", "--campaign", "night")
    assert (wrong.returncode, "did you mean nights?" in wrong.stderr) == (2, True)
    assert "nothing matches 'zebra'" in run("memory", "search", filled, "zebra").stdout
    assert run("memory", "search", filled, "?!").returncode == 2


def test_review_lists_and_decides(filled: Path) -> None:
    facts = said("memory", "review", filled)["facts"]
    ids = {x["text"]: x["id"] for x in facts}
    assert ids.keys() == {"The dragon sleeps.", "Ann is a queen."}
    assert "Ann says so" in run("memory", "review", filled).stdout
    wrong = run("memory", "review", filled, "--accept", "99", "--reject", "1")
    assert (wrong.returncode, "no fact '99'" in wrong.stderr) == (2, True)
    assert len(said("memory", "review", filled)["facts"]) == 2
    secret, no = str(ids["The dragon sleeps."]), str(ids["Ann is a queen."])
    said("memory", "review", filled, "--secret", secret, "--reject", no)
    assert said("memory", "review", filled)["facts"] == []
    hits = said("memory", "search", filled, "sleeps queen")["found"]
    assert [(x["text"], x["known_to"]) for x in hits] == [
        ("The dragon sleeps.", "no NPC (secret)")
    ]
    said("memory", "reveal", filled, secret, "smaug")
    hits = said("memory", "search", filled, "sleeps smaug", "--npc", "Bo")["found"]
    assert [x["text"] for x in hits] == ["The dragon sleeps."]
    wrong = run("memory", "reveal", filled, "smog")
    assert (wrong.returncode, "did you mean Smaug?" in wrong.stderr) == (2, True)


async def claim_more(place: str) -> None:
    """What two players say of the tower, some of it long ago."""
    async with open_memory(place) as memory:
        await memory.graph.put(
            KEY,
            entities=[
                Entity(id="tower", kind=EntityKind.LOCATION, name="Black Tower")
            ],
            facts=[
                Fact(
                    text=text,
                    about=about,
                    standing=Standing.CLAIMED,
                    provenance=Provenance(
                        basis=Basis.CLAIMED, player=player, by=by,
                        at=at, confidence=sure,
                    ),
                )
                for text, about, player, by, at, sure in (
                    ("It burnt.", ("tower",), "p2", "Éva", 1_000.0, 0.9),
                    ("The black tower is hers.", (), "p2", "Éva", 4e9, 0.3),
                    ("Éva is tall.", (), "p2", "Éva", 1_000.0, 0.3),
                )
            ],
        )  # fmt: skip


def test_review_decides_about_many(filled: Path) -> None:
    trio.run(claim_more, str(filled.parent / "kept.db"))

    def waiting(*words: str) -> set[str]:
        return {x["text"] for x in said("memory", "review", filled, *words)["facts"]}

    tower = {"It burnt.", "The black tower is hers."}
    hers = {*tower, "Éva is tall."}
    assert waiting("--player", "EVA") == waiting("--player", "p2") == hers
    assert waiting("--about", "black tower") == waiting("--about", "tower") == tower
    assert waiting("--player", "Éva", "--older-than", "30") == hers - {
        "The black tower is hers."
    }
    assert waiting("--player", "Éva", "--below", "0.5") == hers - {"It burnt."}
    assert waiting("--player", "Nobody") == set()

    wrong = run("memory", "review", filled, "--about", "Blak Tower", "--all", "reject")
    assert (wrong.returncode, "did you mean Black Tower?" in wrong.stderr) == (2, True)
    wrong = run("memory", "review", filled, "--all", "burn")
    assert (wrong.returncode, "accept, reject, secret" in wrong.stderr) == (2, True)
    wrong = run("memory", "review", filled, "--accept", "1", "--player", "Éva")
    assert wrong.returncode == 2
    assert waiting() == {*hers, "The dragon sleeps.", "Ann is a queen."}

    done = run("memory", "review", filled, "--about", "tower", "--all", "reject")
    assert "2 rejected" in done.stdout
    assert waiting() == {"Éva is tall.", "The dragon sleeps.", "Ann is a queen."}
    assert "3 accepted" in run("memory", "review", filled, "--all", "accept").stdout
    assert waiting() == set()


@pytest.mark.border
def test_review_asks_on_a_terminal(filled: Path) -> None:
    with terminal("memory", "review", filled) as screen:
        screen.expect("[later]")
        screen.type("what\n")
        screen.expect("[later]")
        screen.type("a\n")
        screen.expect("[later]")
        screen.type("q\n")
        screen.expect("1 accepted")
        assert screen.ends() == 0
    assert len(said("memory", "review", filled)["facts"]) == 1


WORLD = """
entities:
  - {name: Tower, kind: location, summary: It burnt., facts: [It burnt twice.]}
relationships:
  - {from: Tower, type: home_of, to: Smaug}
"""


def test_an_import_is_whole_and_can_be_repeated(filled: Path) -> None:
    world = filled.parent / "world.yaml"
    world.write_text(WORLD)
    dry = said("memory", "import", filled, world, "--dry-run")
    assert (dry["entities_new"], dry["facts_new"], dry["dry_run"]) == (1, 1, True)
    assert said("memory", "show", filled)["campaigns"][0]["entities"] == 1
    first = said("memory", "import", filled, world)
    assert (first["campaign"], first["entities_new"], first["facts_new"]) == (
        "nights",
        1,
        1,
    )
    again = said("memory", "import", filled, world)
    assert (again["entities_new"], again["entities_changed"], again["facts_new"]) == (
        0,
        0,
        0,
    )
    broken = filled.parent / "broken.yaml"
    broken.write_text(WORLD.replace("Smaug", "Smog").replace("Tower", "Keep"))
    ran = run("memory", "import", filled, world, broken)
    assert ran.returncode == 2
    assert "there is no entity 'Smog', did you mean Smaug?" in ran.stderr
    assert "@ broken.yaml.relationships[0]" in ran.stderr
    assert said("memory", "show", filled)["campaigns"][0]["entities"] == 2


def test_a_file_that_is_imported_again_replaces_what_it_stated(filled: Path) -> None:
    world = filled.parent / "world.yaml"
    facts = ["He fears fire.", "He is old.", "He is a liar.", "He was a lich."]
    start = "entities:\n  - {name: Greymantle, kind: npc, facts: "

    def imported(*texts: str, at: Path = world, options: str = "") -> dict[str, Any]:
        at.write_text(f"{start}{json.dumps(texts)}}}\n")
        return said("memory", "import", filled, at, *options.split())

    def known() -> set[str]:
        found = said("memory", "search", filled, "he", "--limit", "99")["found"]
        return {x["text"] for x in found if x["kind"] == "fact"}

    imported(*facts)
    before = known()
    assert set(facts) <= before
    ids = {x["text"]: x["id"] for x in found_facts(filled)}
    run("memory", "review", filled, "--reject", ids["He is a liar."])
    run("memory", "review", filled, "--secret", ids["He was a lich."])
    trio.run(put_by_hand, str(filled.parent / "kept.db"))
    dry = imported("He fears ice.", "He was a lich.", options="--dry-run")
    assert [x["text"] for x in dry["removed"]] == ["He fears fire.", "He is old."]
    assert dry["facts_removed"] == 2
    assert "He is old." in known()
    ran = run("memory", "import", filled, world)
    assert "no longer known" in ran.stdout
    assert "He is old." in ran.stdout
    left = {x["text"] for x in found_facts(filled)}
    # What was judged, said, or written by hand stays.
    assert {"He fears ice.", "He was a lich.", "He is a liar.", "He limps."} <= left
    assert left.isdisjoint({"He fears fire.", "He is old."})
    assert before - set(facts) <= known()
    # The same name, and nothing of what it stated: another file.
    other = filled.parent / "other"
    other.mkdir()
    (other / "world.yaml").write_text("facts: [The tower fell.]")
    assert said("memory", "import", filled, other)["removed"] == []


def test_a_name_that_no_npc_has_is_told_by_import_and_check(filled: Path) -> None:
    written(
        filled.parent,
        npcs=[{"name": "Mirela"}],
        memory={"store": "kept.db", "campaign": "nights"},
    )
    world = filled.parent / "world.yaml"
    world.write_text("facts: [{text: It burnt., known_to: [Mirella]}]")
    known = "did you mean Mirela?"
    assert [known in x for x in said("memory", "import", filled, world)["notes"]] == [
        True
    ]
    assert known in run("memory", "import", filled, world).stdout
    assert known in run("check", filled, "--no-servers").stdout
    wrong = run("memory", "import", filled, world, "--same", "Tower=Mirelo")
    assert (wrong.returncode, known in wrong.stderr) == (2, True)
    world.write_text("facts: [{text: It burnt., known_to: [mirela]}]")
    assert said("memory", "import", filled, world)["notes"] == []
    hits = said("memory", "search", filled, "burnt", "--npc", "Mirela")["found"]
    assert [x["text"] for x in hits] == ["It burnt."]
    assert known not in run("check", filled, "--no-servers").stdout


def test_a_secret_of_the_game_master_outlives_an_import(filled: Path) -> None:
    world = filled.parent / "world.yaml"
    world.write_text("facts: [He was a lich., He is old.]")
    said("memory", "import", filled, world)
    ids = {x["text"]: x["id"] for x in found_facts(filled)}
    run("memory", "review", filled, "--secret", ids["He was a lich."])
    run("memory", "review", filled, "--reject", ids["He is old."])
    said("memory", "import", filled, world)
    hits = said("memory", "search", filled, "he lich old", "--npc", "Bo")["found"]
    assert [x["text"] for x in hits if x["kind"] == "fact"] == []


async def put_by_hand(place: str) -> None:
    async with open_memory(place) as memory:
        told = Provenance(basis=Basis.STATED, by="world.yaml")
        facts = [Fact(text="He limps."), Fact(text="He hums.", provenance=told)]
        await memory.graph.put(KEY, facts=facts)


def found_facts(filled: Path) -> list[dict[str, Any]]:
    """All facts, of every standing, as an export has them, with their ids."""

    async def read() -> list[dict[str, Any]]:
        async with open_memory(str(filled.parent / "kept.db")) as memory:
            facts = await all_facts(memory, KEY)
            return [{"text": x.text, "id": str(x.id)} for x in facts]

    return trio.run(read)


def test_an_import_makes_a_memory_and_names_what_it_left_out(path: Path) -> None:
    journal = [
        {"_id": "a", "name": "A", "content": "x", "permission": {"default": 2}},
        7,
    ]
    export = path.parent / "journal.json"
    export.write_text(json.dumps(journal))
    ran = run("memory", "import", path, export)
    assert ran.returncode == 0
    assert (
        "1 entity (1 new, 0 changed), 0 relationships, 1 fact (1 new, 0 removed)"
        in ran.stdout
    )
    assert "journal.json: document 2" in ran.stdout
    unclear = path.parent / "unclear.json"
    unclear.write_text("{}")
    assert "--as" in run("memory", "import", path, unclear).stderr
    wrong = run("memory", "import", path, export, "--as", "word")
    assert "one of campaign, memory, foundry" in wrong.stderr


def test_the_file_of_a_campaign_server_is_imported(path: Path) -> None:
    from glyphoxa_trio.campaign.model import Campaign, Character
    from glyphoxa_trio.campaign.rules import add, join
    from glyphoxa_trio.campaign.sqlite import SqliteFile

    at = "2026-01-01T10:00:00Z"
    kept = path.parent / "campaigns.db"
    file = SqliteFile.open(kept)

    def fill(records: Any) -> None:
        add(
            records,
            Campaign(id="camp_a", name="N", gm_mode="AI", created_at=at, updated_at=at),
        )
        for n in range(300):
            join(
                records,
                Character(
                    id=f"actor_{n}",
                    campaign_id="camp_a",
                    name=f"Bo {n}",
                    kind="NPC",
                    notes="x" * 300,
                    created_at=at,
                    updated_at=at,
                ),
            )

    file.write(fill)
    file.close()
    done = said("memory", "import", path, kept)
    assert done["entities_new"] == 300
    kept.write_bytes(kept.read_bytes()[:5000])
    assert run("memory", "import", path, kept).returncode == 2
    other = path.parent / "other.db"
    sqlite3.connect(other).execute("create table x (y)").connection.commit()
    ran = run("memory", "import", path, other)
    assert (ran.returncode, "not a file of campaigns" in ran.stderr) == (2, True)


def test_an_export_is_imported_elsewhere(filled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    ran = run("memory", "export", filled, "-o", out)
    assert "2 lines, 1 entity, 3 facts" in ran.stdout
    assert out.stat().st_mode & 0o777 == 0o600
    assert json.loads(out.read_text()) == json.loads(
        run("memory", "export", filled).stdout
    )
    elsewhere = written(tmp_path, memory={"store": "other.db", "campaign": "nights"})
    done = said("memory", "import", elsewhere, out)
    assert (done["lines_new"], done["evenings_new"], done["facts_new"]) == (2, 1, 3)
    again = run("memory", "export", elsewhere).stdout
    assert json.loads(again)["lines"] == json.loads(out.read_text())["lines"]
    nowhere = run("memory", "export", filled, "-o", tmp_path / "none" / "x.json")
    assert (nowhere.returncode, "No such file" in nowhere.stderr) == (2, True)


def test_a_backup_is_a_memory(filled: Path) -> None:
    copy = filled.parent / "copy.db"
    assert said("memory", "backup", filled, copy)["bytes"] == copy.stat().st_size
    assert said("memory", "show", copy)["campaigns"][0]["lines"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("memory", "backup", "PATH", "FILE"),
        ("memory", "export", "PATH", "-o", "FILE"),
        ("sessions", "export", "PATH", "table", "-o", "FILE"),
    ],
)
def test_what_writes_leaves_a_file_that_is_there_unless_forced(
    filled: Path, words: tuple[str, ...]
) -> None:
    there = filled.parent / "swap.yaml"
    there.write_text("mine")
    dangling = filled.parent / "link"
    dangling.symlink_to("nowhere")
    for file in (there, dangling):
        command = [{"PATH": filled, "FILE": file}.get(x, x) for x in words]
        ran = run(*command)
        assert (ran.returncode, "--force" in ran.stderr) == (2, True)
        assert (there.read_text(), dangling.is_symlink()) == ("mine", True)
    command = [{"PATH": filled, "FILE": there}.get(x, x) for x in words]
    assert run(*command, "--force").returncode == 0
    assert there.read_bytes()[:4] != b"mine"


def test_a_backup_never_replaces_the_memory_itself(filled: Path) -> None:
    ran = run("memory", "backup", filled, filled.parent / "kept.db", "--force")
    assert (ran.returncode, "the memory itself" in ran.stderr) == (2, True)


@pytest.mark.border
def test_a_player_is_forgotten_by_id_and_after_a_question(filled: Path) -> None:
    ran = run("memory", "forget", filled, "p1")
    assert (ran.returncode, "--yes" in ran.stderr) == (2, True)
    ran = run("memory", "forget", filled, "Ann", "--yes")
    assert ran.returncode == 1
    assert "did you mean p1 (called Ann)?" in ran.stdout
    ran = run("memory", "forget", filled, "p1", "--yes")
    assert (ran.returncode, "removed for good: 1 line, 1 fact" in ran.stdout) == (
        0,
        True,
    )
    assert "backups and exports still have it" in ran.stdout
    assert said("memory", "search", filled, "dragon", "--npc", "Bo")["found"][0][
        "text"
    ] == ("Where is the dragon?")
    with terminal("memory", "forget", filled, "p1") as screen:
        screen.expect("[no]")
        screen.type("no\n")
        assert screen.ends() == 2


async def hear_alex(place: str) -> None:
    async with open_memory(place) as memory:
        for name in ("north", "south"):
            claim = await memory.journal.claim("", name, CampaignKey(name))
            line = Line(text="A crown!", speaker="Alex", player="alex", reach=EVERYONE)
            entry = Entry(kind=EntryKind.LINE, at=1.0, line=line)
            await memory.journal.append(claim, [entry])
            await memory.journal.release(claim)


def test_a_name_in_several_campaigns_is_forgotten_in_the_one_that_is_named(
    path: Path,
) -> None:
    place = str(path.parent / "kept.db")
    trio.run(hear_alex, place)

    def left() -> list[str]:
        hits = said("memory", "search", place, "crown")["found"]
        return sorted(x["campaign"] for x in hits)

    ran = run("memory", "forget", place, "Alex", "--yes")
    assert (ran.returncode, "north, south" in ran.stderr) == (2, True)
    assert left() == ["north", "south"]
    one = "memory", "forget", place, "ALEX", "--yes"
    assert run(*one, "--campaign", "west").returncode == 2
    assert run(*one, "--campaign", "north").returncode == 0
    assert left() == ["south"]
    trio.run(hear_alex, place)
    assert run(*one, "--everywhere").returncode == 0
    assert left() == []


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"", None])
def test_a_file_that_is_no_memory_is_refused_and_stays(
    path: Path, content: bytes | None
) -> None:
    kept = path.parent / "kept.db"
    if content is None:
        with closing(sqlite3.connect(kept)) as other, other:
            other.execute("create table x (y)")
    elif content:
        kept.write_bytes(content)
    else:
        trio.run(fill, str(kept))
        with closing(sqlite3.connect(kept)) as newer, newer:
            newer.execute("pragma user_version = 99")
    before = kept.read_bytes()
    for words in (("show",), ("review",), ("forget", "p1", "--yes")):
        ran = run("memory", words[0], path, *words[1:])
        assert ran.returncode == 2
        assert "kept.db" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
    assert kept.read_bytes() == before


@pytest.mark.border
def test_evenings_are_summarised_at_once_and_anew(filled: Path) -> None:
    def told(text: str) -> str:
        return json.dumps({"summary": text, "facts": []})

    # Each of the two audiences is asked about, and asked again for what is no JSON.
    script = ["I will not.", "No.", "Never.", "No!", told("A dragon."), told("A man.")]
    again = [told("A wyrm."), told("A woman.")]
    evening = "table-1970-01-02"
    with beside(open_model_server(list(map(SayText, script + again)))) as server:
        model = {"provider": "chat_completions", "model": "m"}
        memory = {"store": "kept.db", "campaign": "nights"}
        llm = {**model, "base_url": server.base_url}
        path = written(filled.parent, memory=memory, llm=llm)
        unread = run("memory", "summarise", path)
        assert unread.returncode == 1
        assert f"{evening}: not summarised" in unread.stdout
        for text, words in (("A dragon.", ()), ("A wyrm.", (evening, "--again"))):
            done = said("memory", "summarise", path, *words)
            assert (done["summarised"], done["unread"]) == ([evening], [])
            (shown,) = said("sessions", "show", path, "table")["evenings"]
            assert text in [x["text"] for x in shown["summaries"]]
        assert len(server.requests) == 8
        assert said("memory", "summarise", path)["summarised"] == []
        refused = run("memory", "summarise", path, evening)
        assert "--again writes it anew" in refused.stderr
        assert len(server.requests) == 8


def test_an_evening_that_another_program_summarises_meanwhile_is_not_paid_for_twice(
    filled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(filled.parent / "kept.db")

    async def two_more() -> None:
        async with open_memory(place) as memory:
            for tenant in ("guild", "order"):
                key = CampaignKey("nights", tenant)
                claim = await memory.journal.claim(tenant, "hall", key)
                evening = await memory.transcripts.begin_evening(claim, 200_000)
                line = Line(text="A toast!", speaker="Ann", player="p1",
                            reach=EVERYONE, evening=evening.id)  # fmt: skip
                entry = Entry(kind=EntryKind.LINE, at=200_001.0, line=line)
                await memory.journal.append(claim, [entry])
                await memory.journal.release(claim)

    class Slow(ScriptedLLM):
        @asynccontextmanager
        async def stream(
            self, request: LLMRequest
        ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
            if not self.requests:
                async with open_memory(place) as memory:  # of the other program
                    for tenant in ("guild", "order"):
                        key = CampaignKey("nights", tenant)
                        await memory.transcripts.set_summary(
                            key, "hall-1970-01-03", "They drank.", EVERYONE
                        )
            async with super().stream(request) as events:
                yield events

    told = json.dumps({"summary": "A dragon.", "facts": []})
    llm = Slow(lambda _: [told, Finished()])

    @asynccontextmanager
    async def the_model(_: Config) -> AsyncIterator[LLM]:
        yield llm

    trio.run(two_more)
    monkeypatch.setattr(memory_summarise, "_model_of", the_model)

    def summarise(*, again: bool) -> dict[str, Any]:
        memory_summarise.summarise(
            place, (), again=again, campaign=None, tenant=None, as_json=True
        )
        done: dict[str, Any] = json.loads(capsys.readouterr().out)
        return done

    done = summarise(again=False)
    assert done["summarised"] == ["table-1970-01-02"]
    assert len(llm.requests) == 2  # one for each audience of the first
    # Tenants may have evenings of the same name.
    both = ["hall-1970-01-03", "hall-1970-01-03"]
    assert sorted(summarise(again=True)["summarised"])[:2] == both
    assert len(llm.requests) == 2 + 4


def test_only_evenings_that_are_there_and_a_model_that_can_write(filled: Path) -> None:
    ran = run("memory", "summarise", filled, "table-1970-01-03")
    assert ran.returncode == 2
    assert "did you mean table-1970-01-02?" in ran.stderr
    ran = run("memory", "summarise", filled)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "the offline stand-in writes no summaries" in ran.stderr


def test_facts_are_added_changed_and_removed_by_hand(filled: Path) -> None:
    added = said(
        *("memory", "add", filled, "Ann seeks Kael.", "--about", "smaug", "--pin"),
        *("--keyword", "brother", "--known-to", "bo"),
    )["fact"]

    def found(query: str, *more: str) -> list[str]:
        shown = said("memory", "search", filled, query, *more)["found"]
        return [x["text"] for x in shown if x["kind"] == "fact"]

    assert found("brother") == found("brother", "--npc", "Bo") == ["Ann seeks Kael."]
    fact = exported(filled)[added]
    assert (fact["pinned"], fact["about"]) == (True, ["smaug"])
    assert fact["reach"]["npcs"] == ["Bo"]
    edited = said(
        *("memory", "edit", filled, str(added), "--text", "Ann found Kael."),
        *("--no-pin", "--secret", "--keyword", "sister"),
    )
    assert edited["fact"] == added
    assert (found("brother"), found("sister")) == ([], ["Ann found Kael."])
    assert not exported(filled)[added]["pinned"]
    said("memory", "edit", filled, str(added), "--everyone")
    assert exported(filled)[added]["reach"]["npcs"] is None
    for words in (("edit", "99", "--pin"), ("delete", str(added), "nobody")):
        ran = run("memory", words[0], filled, *words[1:])
        assert (ran.returncode, "there is no fact" in ran.stderr) == (2, True)
    assert said("memory", "delete", filled, str(added), "Smaug")["removed"] == [
        str(added),
        "smaug",
    ]
    assert found("sister") == []


def exported(path: Path) -> dict[int, dict[str, Any]]:
    """Return the facts by their number."""

    async def read() -> dict[int, dict[str, Any]]:
        async with open_memory(str(path.parent / "kept.db")) as memory:
            return {
                x.id: {
                    "pinned": x.pinned,
                    "about": list(x.about),
                    "reach": {
                        "npcs": None if x.reach.npcs is None else sorted(x.reach.npcs)
                    },
                }
                for x in await all_facts(memory, KEY)
            }

    return trio.run(read)


def test_a_fact_begins_a_campaign(path: Path) -> None:
    assert said("memory", "add", path, "Aria seeks Kael.")["campaign"] == "nights"
    ran = run("memory", "add", path, "Aria limps.", "--about", "Aria")
    assert (ran.returncode, "there is no entity 'Aria'" in ran.stderr) == (2, True)
    ran = run("memory", "add", path, "It rains.", "--known-to", "Nobody")
    assert "no NPC is called 'Nobody'" in ran.stderr
