"""What each store's transcripts promise: searches, last lines, evenings, summaries.

The last tests write random lines of several campaigns into a store and into the model
of a store, and ask both the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.memory.contract import FoundLine, Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import QueryRefused, UnknownItem
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import (
    EVERYONE,
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.memory.words import words_in_line, words_in_query
from tests.memory.conftest import OpenStore
from tests.memory.examples import in_postgres, in_quick_stores

BARROW = CampaignKey("barrow")
BO, MIRA = Viewer("Bo"), Viewer("Mira")
DAY = 86400.0


def said(
    text: str,
    at: float = 1000.0,
    *,
    reach: Reach = EVERYONE,
    evening: str = "",
    corrected: str = "",
) -> Entry:
    line = Line(
        text=text,
        speaker="Ann",
        player="p1",
        to="Bo",
        reach=reach,
        evening=evening,
        corrected=corrected,
        seconds=1.5,
    )
    return Entry(kind=EntryKind.LINE, at=at, line=line)


BO_ONLY = Reach.of("Bo")


async def claimed(
    store: Memory, session: str = "table", campaign: CampaignKey = BARROW
) -> Claim:
    return await store.journal.claim(campaign.tenant, session, campaign)


def texts(lines: Iterable[FoundLine]) -> list[str]:
    return [found.line.text for found in lines]


async def found(
    store: Memory, query: str, viewer: Viewer = GAME_MASTER, *, limit: int = 10
) -> list[str]:
    answer = await store.transcripts.search(BARROW, viewer, query, limit=limit)
    return texts(answer.lines)


async def test_a_found_line_is_the_line_that_was_said(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        evening = await store.transcripts.begin_evening(claim, 1000.0)
        entry = said(
            "The red wurm!",
            1001.0,
            reach=Reach.of("Bo"),
            evening=evening.id,
            corrected="The Red Wyrm!",
        )
        n = await store.journal.append(claim, [entry])
        answer = await store.transcripts.search(BARROW, BO, "wyrm")
        (line,) = answer.lines
        assert (line.session, line.n, line.at) == ("table", n, 1001.0)
        assert line.line == entry.line
        assert line.score > 0
        assert "Wyrm" in line.snippet
        assert not answer.partial


async def test_only_lines_with_rare_words_are_found_if_these_are_asked_for(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        # Of what Mira did not hear, nothing counts.
        texts_ = ["the tower"] * 40 + ["a bell"] * 12 + ["a gong"] * 12 + ["a crown"]
        lines = [said(text, float(at)) for at, text in enumerate(texts_)]
        lines += [said("a bell and a gong", 90.0), said("a crown", 91.0, reach=BO_ONLY)]
        lines += [said("a crown", 92.0 + n, reach=BO_ONLY) for n in range(40)]
        await store.journal.append(claim, lines)

        async def rare(query: str, viewer: Viewer = MIRA) -> list[str]:
            search = store.transcripts.search
            return texts((await search(BARROW, viewer, query, rare=True)).lines)

        assert await rare("The tower!") == []
        assert await rare("Where is the crown of the tower?") == ["a crown"]
        assert await rare("The crown?", BO) == []
        assert await rare("bell") == []
        assert await rare("a bell, a gong") == ["a bell and a gong"]
        assert await rare("nothing") == []
        with pytest.raises(QueryRefused):
            await rare("?!")


async def test_what_stands_beside_a_line_is_what_the_viewer_heard_of_its_evening(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim, other = await claimed(store), await claimed(store, "other")
        numbers = {}
        evenings = [
            (await store.transcripts.begin_evening(claim, DAY * n)).id for n in (1, 2)
        ]
        for place, (text, reach, evening) in enumerate(
            [
                ("a", EVERYONE, 0),
                ("b", BO_ONLY, 0),
                ("c", EVERYONE, 0),
                ("d", EVERYONE, 1),
                ("e", EVERYONE, 1),
            ]
        ):
            line = said(text, DAY + place, reach=reach, evening=evenings[evening])
            numbers[text] = await store.journal.append(claim, [line])
            await store.journal.append(other, [said(f"not {text}", DAY + place)])
        far = [said("x", DAY + 50, reach=BO_ONLY, evening=evenings[1])] * 50
        last = said("z", DAY + 60, evening=evenings[1])
        numbers["z"] = await store.journal.append(claim, [*far, last])

        async def beside(viewer: Viewer, text: str, session: str = "table") -> str:
            found_ = await store.transcripts.beside(
                BARROW, viewer, session, numbers[text]
            )
            return "".join(texts(found_))

        assert await beside(BO, "a") == "ab"
        assert await beside(BO, "b") == "abc"
        assert await beside(MIRA, "a") == "ac"
        assert await beside(MIRA, "b") == ""
        assert await beside(MIRA, "c") == "ac"
        assert await beside(MIRA, "d") == "de"
        assert await beside(MIRA, "e") == "de"  # the next is too far away
        assert await beside(GAME_MASTER, "e") == "dex"
        assert await beside(MIRA, "a", "nothing") == ""
        assert await store.transcripts.beside(CampaignKey("no"), BO, "table", 1) == ()


async def test_lines_with_all_words_come_before_lines_with_some(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        lines = [
            "a dragon dragon dragon",
            "the silver dragon of the barrow is asleep in its cave this winter",
            "silver",
            "nothing of that",
        ]
        for at, text in enumerate(lines):
            await store.journal.append(claim, [said(text, float(at))])
        answer = await found(store, "silver dragon")
        assert answer[0] == lines[1]
        assert set(answer[1:]) == {lines[0], lines[2]}
        assert await found(store, "silver dragon", limit=1) == [lines[1]]
        assert await found(store, "silver dragon", limit=0) == []
        assert await found(store, "silver dragon", limit=-1) == []


async def test_of_lines_alike_the_newest_comes_first(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        for at in range(5):
            await store.journal.append(claim, [said("a dragon", 100.0 + at)])
        answer = await store.transcripts.search(BARROW, GAME_MASTER, "dragon", limit=3)
        assert [x.at for x in answer.lines] == [104.0, 103.0, 102.0]


async def test_accents_and_case_do_not_matter(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        await store.journal.append(claim, [said("Où est ÉLOÏSE von Großberg?")])
        for query in ("eloise", "Éloïse", "GROSSBERG", "großberg"):
            assert len(await found(store, query)) == 1, query
        assert await found(store, "elo") == []


@pytest.mark.parametrize(
    "query",
    [
        'dragon" OR "x',
        "dragon AND",
        "NEAR(dragon)",
        "dragon*",
        "words : dragon",
        "-dragon",
        "^dragon",
        "{dragon}",
        "dragon\0",
        "dragon'; drop table line; --",
        "(((((dragon",
        "dragon \ud800",
        "dragon & !dragon | <-> :*",
    ],
)
async def test_nothing_in_a_query_is_syntax(open_store: OpenStore, query: str) -> None:
    async with open_store() as store:
        await store.journal.append(await claimed(store), [said("a dragon")])
        assert await found(store, query) == ["a dragon"]


@pytest.mark.parametrize("query", ["", " ", "?!", "\0", "\ud800", "dragon " * 100_000])
async def test_a_query_without_words_or_too_long_is_refused(
    open_store: OpenStore, query: str
) -> None:
    async with open_store() as store:
        await store.journal.append(await claimed(store), [said("a dragon")])
        with pytest.raises(QueryRefused):
            await store.transcripts.search(BARROW, GAME_MASTER, query)


async def test_a_question_of_common_words_finds_lines_that_have_them(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        await store.journal.append(
            await claimed(store), [said("who are you"), said("the dragon")]
        )
        assert await found(store, "who are you?") == ["who are you"]
        assert await found(store, "who is the dragon") == ["the dragon"]


async def test_a_long_line_has_a_short_snippet(open_store: OpenStore) -> None:
    async with open_store() as store:
        text = f"{'word ' * 500}dragon{' more' * 500}"
        await store.journal.append(await claimed(store), [said(text)])
        answer = await store.transcripts.search(BARROW, GAME_MASTER, "dragon")
        (line,) = answer.lines
        assert line.line.text == text
        assert "dragon" in line.snippet
        assert len(line.snippet) <= 200


async def test_the_same_search_in_another_campaign_finds_nothing(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        await store.journal.append(await claimed(store), [said("a dragon")])
        for other in (CampaignKey("peak"), CampaignKey("barrow", "other")):
            answer = await store.transcripts.search(other, GAME_MASTER, "dragon")
            assert answer.lines == ()
            assert await store.transcripts.recent(other, GAME_MASTER) == ()
            assert await store.transcripts.evenings(other, GAME_MASTER) == ()


async def test_the_score_does_not_depend_on_what_the_viewer_did_not_hear(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        for at, text in enumerate(("a dragon", "the dragon of gold", "gold")):
            heard = said(text, float(at), reach=Reach.of("Bo"))
            await store.journal.append(claim, [heard])
        before = await store.transcripts.search(BARROW, BO, "gold dragon")
        hidden = [said("dragon", 5.0 + x, reach=Reach.of("Mira")) for x in range(9)]
        await store.journal.append(claim, hidden)
        assert await store.transcripts.search(BARROW, BO, "gold dragon") == before


async def test_the_last_lines_are_the_last_before_a_time(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim, other = await claimed(store), await claimed(store, "other")
        for at in range(10):
            to = Reach.of("Bo") if at % 2 else Reach.of("Bo", "Mira")
            line = said(f"line {at}", float(at), reach=to)
            await store.journal.append(other if at == 4 else claim, [line])
        recent = store.transcripts.recent
        assert texts(await recent(BARROW, BO, limit=2)) == ["line 8", "line 9"]
        assert texts(await recent(BARROW, MIRA, limit=2)) == ["line 6", "line 8"]
        assert texts(await recent(BARROW, MIRA, before=8.0, limit=2)) == [
            "line 4",
            "line 6",
        ]
        assert texts(await recent(BARROW, GAME_MASTER, session="other")) == ["line 4"]
        assert await recent(BARROW, Viewer("Ann")) == ()
        assert await recent(BARROW, BO, limit=0) == ()
        assert await recent(BARROW, BO, session="nothing") == ()
        assert await recent(BARROW, BO, evening="nothing") == ()


async def test_an_evening_ends_when_the_next_begins(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        first = await store.transcripts.begin_evening(claim, DAY)
        second = await store.transcripts.begin_evening(claim, DAY + 10)
        third = await store.transcripts.begin_evening(claim, 9 * DAY)
        assert len({first.id, second.id, third.id}) == 3
        await store.transcripts.end_evening(BARROW, third.id, 9 * DAY + 5)
        await store.transcripts.end_evening(BARROW, third.id, 9 * DAY + 7)
        evenings = await store.transcripts.evenings(BARROW, GAME_MASTER)
        assert [(x.id, x.ended) for x in evenings] == [
            (third.id, 9 * DAY + 5),
            (second.id, 9 * DAY),
            (first.id, DAY + 10),
        ]
        with pytest.raises(UnknownItem):
            await store.transcripts.end_evening(BARROW, "nothing", 1.0)


@pytest.mark.parametrize(
    "reach", [EVERYONE, Reach.of("Bo"), Reach.of()], ids=["all", "Bo", "nobody"]
)
async def test_an_evening_goes_on_within_a_time_after_its_last_line(
    open_store: OpenStore, reach: Reach
) -> None:
    async with open_store() as store:
        transcripts = store.transcripts
        claim = await claimed(store)
        first = await transcripts.begin_evening(claim, DAY, within=100)
        line = said("hm", DAY + 90, reach=reach, evening=first.id)
        await store.journal.append(claim, [line])
        await store.journal.release(claim)
    async with open_store() as store:  # as after the end of a program
        transcripts = store.transcripts
        claim, other = await claimed(store), await claimed(store, "other")
        assert await transcripts.begin_evening(claim, DAY + 190, within=100) == first
        await transcripts.begin_evening(other, DAY + 191, within=100)
        second = await transcripts.begin_evening(claim, DAY + 191, within=100)
        evenings = await transcripts.evenings(BARROW, GAME_MASTER)
        assert [(x.id, x.ended) for x in evenings if x.session == "table"] == [
            (second.id, None),
            (first.id, DAY + 90),
        ]


async def test_evenings_that_nobody_goes_on_with_end_with_their_last_lines(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        transcripts = store.transcripts
        names = {}
        for session, last in (("a", 10), ("b", 20), ("c", 0), ("d", 0)):
            claim = await claimed(store, session)
            evening = await transcripts.begin_evening(claim, DAY)
            names[evening.id] = session
            if last:
                line = said("hm", DAY + last, evening=evening.id)
                await store.journal.append(claim, [line])
            if session == "d":
                await transcripts.end_evening(BARROW, evening.id, DAY + 1)

        async def ends() -> dict[str, float | None]:
            found = await transcripts.evenings(BARROW, GAME_MASTER)
            return {names[x.id]: x.ended for x in found}

        await transcripts.end_idle(before=DAY)
        assert await ends() == {"a": None, "b": None, "c": None, "d": DAY + 1}
        await transcripts.end_idle(before=DAY + 20)
        assert await ends() == {"a": DAY + 10, "b": None, "c": DAY, "d": DAY + 1}


async def test_only_the_lines_of_an_evening_are_searched_and_listed(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim, other = await claimed(store), await claimed(store, "other")
        names = []
        for at in range(4):
            names.append((await store.transcripts.begin_evening(claim, DAY + at)).id)
            for place, (one, evening) in enumerate(
                ((claim, names[-1]), (other, ""), (claim, names[-1]))
            ):
                line = said(f"gold {at} {place}", DAY + at, evening=evening)
                await store.journal.append(one, [line])
        answer = await store.transcripts.search(BARROW, BO, "gold", evening=names[1])
        assert set(texts(answer.lines)) == {"gold 1 0", "gold 1 2"}
        recent = await store.transcripts.recent(BARROW, BO, evening=names[1])
        assert texts(recent) == ["gold 1 0", "gold 1 2"]
        evenings = await store.transcripts.evenings(BARROW, BO)
        assert [x.id for x in evenings] == names[::-1]
        evenings = await store.transcripts.evenings(BARROW, BO, limit=2)
        assert [x.id for x in evenings] == names[:1:-1]
        assert await store.transcripts.evenings(BARROW, BO, limit=0) == ()


async def test_an_evening_that_was_not_heard_does_not_exist_for_the_viewer(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        evening = await store.transcripts.begin_evening(claim, DAY)
        line = said("a dragon", DAY, reach=Reach.of("Bo"), evening=evening.id)
        await store.journal.append(claim, [line])
        assert (await store.transcripts.evening(BARROW, BO, evening.id)) == evening
        assert await store.transcripts.evenings(BARROW, BO) == (evening,)
        assert await store.transcripts.evenings(BARROW, MIRA) == ()
        messages = []
        for name in (evening.id, "nothing"):
            with pytest.raises(UnknownItem) as refused:
                await store.transcripts.evening(BARROW, MIRA, name)
            messages.append(str(refused.value).replace(name, "..."))
        assert messages[0] == messages[1]


async def test_a_summary_is_for_those_who_heard_all_of_it(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        evening = await store.transcripts.begin_evening(claim, DAY)
        await store.journal.append(claim, [said("hello", DAY, evening=evening.id)])
        await store.transcripts.end_evening(BARROW, evening.id, DAY + 9)
        asked = store.transcripts.unsummarised
        assert await asked(before=DAY + 10) == ((BARROW, evening.id),)
        assert await asked(before=DAY + 9) == ()
        for text, reach in (
            ("everything", Reach.of()),
            ("Bo's", Reach.of("Bo")),
            ("everyone's", EVERYONE),
            ("both", Reach.of("Bo", "Mira")),
            ("Bo's own", Reach.of("Bo")),
        ):
            await store.transcripts.set_summary(BARROW, evening.id, text, reach)
        assert await asked(before=DAY + 10) == ()
        for viewer, text in (
            (BO, "Bo's own"),
            (MIRA, "both"),
            (Viewer("Ann"), "everyone's"),
            (GAME_MASTER, "everything"),
        ):
            one = await store.transcripts.evening(BARROW, viewer, evening.id)
            assert one.summary == text
            assert one.reach is not None
            assert one.reach.reaches(viewer)
            assert await store.transcripts.evenings(BARROW, viewer) == (one,)
        with pytest.raises(UnknownItem):
            await store.transcripts.set_summary(BARROW, "nothing", "", EVERYONE)
        with pytest.raises(ValueError, match="topics"):
            hidden = Reach(topics=frozenset({"gold"}))
            await store.transcripts.set_summary(BARROW, evening.id, "", hidden)


async def test_one_living_holder_at_a_time_summarises_an_evening(
    open_store: OpenStore,
) -> None:
    async with open_store() as store, open_store() as other:
        claim = await claimed(store)
        evening = (await store.transcripts.begin_evening(claim, DAY)).id
        lease, back = store.transcripts.lease_summary, store.transcripts.end_lease
        assert await lease(BARROW, evening, before=DAY + 99) is None  # it goes on
        await store.transcripts.end_evening(BARROW, evening, DAY + 9)
        assert await lease(BARROW, evening, before=DAY + 9) is None
        assert await lease(BARROW, evening, before=DAY + 10) == 0
        for one in (store, other):
            assert await one.transcripts.lease_summary(BARROW, evening) is None
        await other.transcripts.end_lease(BARROW, evening)  # it is not its own
        assert await other.transcripts.lease_summary(BARROW, evening) is None
        for count in (1, 2):
            await back(BARROW, evening, until=DAY + 50)
            for at, there in ((DAY + 49, ()), (DAY + 50, ((BARROW, evening),))):
                assert await store.transcripts.unsummarised(before=at) == there
            assert await lease(BARROW, evening, before=DAY + 49) is None
            assert await lease(BARROW, evening, before=DAY + 50) == count
        await store.transcripts.set_summary(BARROW, evening, "Hm.", EVERYONE)
        await back(BARROW, evening, until=DAY + 60)  # it is to be done better
        assert await other.transcripts.lease_summary(BARROW, evening, before=2e9) == 3
        await other.transcripts.end_lease(BARROW, evening)
        assert await store.transcripts.unsummarised(before=2e9) == ()
        assert await lease(BARROW, evening) == 0  # whatever there is
        with pytest.raises(UnknownItem):
            await lease(BARROW, "nothing")
        await back(BARROW, "nothing")
        await back(CampaignKey("nowhere"), evening)


async def test_a_lease_ends_with_its_holder(open_store: OpenStore) -> None:
    async with open_store() as store:
        claim = await claimed(store)
        evening = (await store.transcripts.begin_evening(claim, DAY)).id
        async with open_store() as dying:
            assert await dying.transcripts.lease_summary(BARROW, evening) == 0
            assert await store.transcripts.lease_summary(BARROW, evening) is None
        assert await store.transcripts.lease_summary(BARROW, evening) == 0


# Lines of three sessions in two campaigns and a third of another tenant.
TABLES = (("one", "a", ""), ("two", "a", ""), ("three", "b", ""), ("one", "a", "t"))
NPCS = ("Bo", "Mira", "Ann")
_LETTERS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8
)
_WORD = st.sampled_from(
    ["dragon", "Dragon!", "gold", "GÖLD", "the", "you", "key,", "Straße", "x_y", "42"]
)
_WORD |= st.sampled_from(
    ["黑塔", "知道黑塔的事", "龙", "ドラゴンは井戸に", "게임을", "หอคอยดำ", "โจร"]
)
_TEXTS = st.lists(_WORD | _LETTERS, max_size=8).map(" ".join)
_REACHES = st.none() | st.frozensets(st.sampled_from(NPCS))


@attrs.frozen
class Said:
    """One line of a random history; ``begins``: an evening begins before it."""

    table: int
    text: str
    reach: Reach
    corrected: str
    begins: bool


_HISTORIES = st.lists(
    st.builds(
        Said,
        st.integers(0, len(TABLES) - 1),
        _TEXTS,
        _REACHES.map(Reach),
        st.just("") | _TEXTS,
        st.booleans(),
    ),
    max_size=25,
)
_QUERIES = st.one_of(
    st.sampled_from(["dragon", "gold", "the dragon", "you", "gold key strasse"]),
    st.sampled_from(["塔", "黑塔吗?", "井戸", "게임이", "คอย", "किला dragon"]),
    _TEXTS,
    st.text(max_size=30),
)


@attrs.frozen
class Told:
    """Where a history was told: the campaigns, and the names of the evenings."""

    campaigns: tuple[CampaignKey, ...]
    evenings: tuple[tuple[CampaignKey, str], ...]


async def tell(store: Memory, history: Sequence[Said], number: int) -> Told:
    """Tell a history in campaigns of its own, one for each ``number``."""
    claims, evenings = list[Claim](), list[str]()
    for session, campaign, tenant in TABLES:
        key = CampaignKey(f"{campaign}{number}", f"{tenant}{number}")
        claims.append(await store.journal.claim(key.tenant, f"{session}{number}", key))
        evenings.append("")
    told = []
    for at, one in enumerate(history):
        claim = claims[one.table]
        if one.begins:
            evening = await store.transcripts.begin_evening(claim, DAY + at)
            evenings[one.table] = evening.id
            told.append((claim.campaign, evening.id))
        line = said(
            one.text,
            DAY + at,
            reach=one.reach,
            evening=evenings[one.table],
            corrected=one.corrected,
        )
        await store.journal.append(claim, [line])
    return Told(tuple({x.campaign: None for x in claims}), tuple(told))


def keys(lines: Iterable[FoundLine]) -> list[tuple[str, int]]:
    return [(x.session, x.n) for x in lines]


async def compare(
    store: Memory, model: Memory, told: Told, query: str, limit: int
) -> None:
    viewers = (GAME_MASTER, BO, MIRA, Viewer("Nobody"))
    asked = [("", key) for key in told.campaigns]
    asked += [(name, key) for key, name in told.evenings[:2]]
    for (evening, key), viewer in itertools.product(asked, viewers):
        every = await model.transcripts.search(
            key, viewer, query, evening=evening, limit=1000
        )
        all_found = await store.transcripts.search(
            key, viewer, query, evening=evening, limit=1000
        )
        assert sorted(keys(all_found.lines)) == sorted(keys(every.lines))
        rare, all_rare = [
            await one.transcripts.search(
                key, viewer, query, evening=evening, rare=True, limit=1000
            )
            for one in (model, store)
        ]
        assert keys(all_rare.lines) == keys(rare.lines)
        for found_line in all_found.lines[:3]:
            place = found_line.session, found_line.n
            near = await store.transcripts.beside(key, viewer, *place)
            assert near == await model.transcripts.beside(key, viewer, *place)
        best = await store.transcripts.search(
            key, viewer, query, evening=evening, limit=limit
        )
        wanted = {(x.session, x.n): x for x in every.lines}
        assert len(best.lines) == min(limit, len(wanted))
        words = words_in_query(query)[0]
        for answer in (all_found, best):
            assert not answer.partial
            whole = [
                set(words_in_line(x.line.text, x.line.corrected)).issuperset(words)
                for x in answer.lines
            ]
            assert whole == sorted(whole, reverse=True)
            for line in answer.lines:
                assert line.line.reach.reaches(viewer)
                assert line.line == wanted[line.session, line.n].line
        for before in (None, DAY + 5) if not evening else (None,):
            last = await model.transcripts.recent(
                key, viewer, evening=evening, before=before, limit=limit
            )
            same = await store.transcripts.recent(
                key, viewer, evening=evening, before=before, limit=limit
            )
            assert [(x.session, x.n, x.line) for x in same] == [
                (x.session, x.n, x.line) for x in last
            ]
        if not evening:
            assert await store.transcripts.evenings(
                key, viewer, limit=limit
            ) == await model.transcripts.evenings(key, viewer, limit=limit)


def finds_what_the_model_finds(
    open_store: OpenStore, history: list[Said], query: str, limit: int
) -> None:
    async def run() -> None:
        model = InMemory()
        async with open_store() as store:
            number = len(await store.journal.sessions())
            told = await tell(store, history, number)
            await tell(model, history, number)
            try:
                words_in_query(query)
            except QueryRefused:
                for one in (store, model):
                    with pytest.raises(QueryRefused):
                        await one.transcripts.search(told.campaigns[0], BO, query)
            else:
                await compare(store, model, told, query, limit)

    trio.run(run)


@in_quick_stores
@given(history=_HISTORIES, query=_QUERIES, limit=st.integers(0, 12))
def test_every_store_finds_what_the_model_finds(
    open_store: OpenStore, history: list[Said], query: str, limit: int
) -> None:
    finds_what_the_model_finds(open_store, history, query, limit)


@in_postgres
@given(history=_HISTORIES, query=_QUERIES, limit=st.integers(0, 12))
def test_postgres_finds_what_the_model_finds(
    open_store: OpenStore, history: list[Said], query: str, limit: int
) -> None:
    finds_what_the_model_finds(open_store, history, query, limit)
