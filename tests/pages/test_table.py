"""The table page in a real browser: people talk, interrupt, approve, direct, review."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import trio

from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact, Standing
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import CampaignKey, Reach

from .support import (
    SERVERS,
    Table,
    answer_with_token,
    log_in,
    opened_table,
    show_token,
    violations,
)

pytestmark = pytest.mark.border

EVIL = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
FACTS = (
    Fact(text="The tower burnt down.", standing=Standing.QUEUED),
    Fact(text="Ann is the heir.", reach=Reach(secret=True)),
)
TOWER = Entity(
    id="tower", kind=EntityKind.LOCATION, name="Black Tower", reach=Reach(secret=True)
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Generator[Table]:
    """A service with a memory, whose time and oracle are real servers."""
    folder = tmp_path_factory.mktemp("table")
    tiers = {name: {"ceiling_ms": 20_000} for name in ("fast", "standard", "deep")}
    memory = {"store": str(folder / "kept.db"), "campaign": "saltmarsh"}
    trust = {"allow_tools": ["oracle.ponder"]}
    config: dict[str, Any] = {"memory": memory, "tiers": tiers, "trust": trust}
    with opened_table(folder, SERVERS, **config) as table:
        yield table


def sit_down(page: Page, url: str, name: str = "Aria", table: str = "one") -> None:
    page.goto(f"{url}/table")
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Table", exact=True).fill(table)
    page.get_by_role("button", name="Sit down").click()
    expect(page.get_by_role("radio", name="Bo", exact=True)).to_be_visible()


def say(page: Page, text: str, to: str = "Bo") -> Locator:
    """Say something; the next entry of that NPC in the conversation."""
    page.get_by_role("radio", name=to, exact=True).check()
    answers = page.locator("#talk li.answer")
    count = answers.count()
    line = page.get_by_label("What you say")
    line.fill(text)
    line.press("Enter")
    return answers.nth(count)


def aloud(page: Page) -> str:
    return page.get_by_role("log").inner_text()


def master(page: Page, table: Table, session: str) -> None:
    sit_down(page, table.url, "The master", session)
    log_in(page, table)
    expect(page.get_by_role("heading", name="Game master")).to_be_visible()
    expect(page.get_by_role("region", name="Bo", exact=True)).to_be_visible()


@pytest.fixture
def other(chromium: Browser) -> Generator[Page]:
    """The page of another person, in a browser of their own."""
    context = chromium.new_context(viewport={"width": 900, "height": 700})
    yield context.new_page()
    context.close()


def test_a_player_talks_and_the_answer_streams(table: Table, page: Page) -> None:
    sit_down(page, table.url)
    answer = say(page, "Tell me a story.")
    expect(answer).to_contain_text("Sentence number 1 of the tale.")
    expect(answer.locator(".live")).to_be_visible()  # it goes on
    assert "Bo: Sentence number 0 of the tale." in aloud(page)
    expect(page.locator("#talk li.said").last).to_contain_text("Tell me a story.")
    page.keyboard.press("Escape")
    expect(answer).to_contain_text("interrupted")
    expect(answer.locator(".live")).to_have_count(0)
    assert "Sentence number 59" not in answer.inner_text()
    heard = aloud(page).count("Sentence number 0")
    assert heard == 1  # once, though this page watches the table as well


def test_what_is_sent_while_an_npc_speaks_interrupts_it(
    table: Table, page: Page
) -> None:
    sit_down(page, table.url, table="two")
    story = say(page, "Tell me a story.")
    expect(story).to_contain_text("number 0")
    answer = say(page, "Never mind.")
    expect(answer).to_contain_text("Never mind.. So it is.")
    expect(story).to_contain_text("interrupted")
    expect(page.locator("#talk li")).to_have_count(4)


@pytest.mark.long
def test_everybody_means_who_is_named(table: Table, page: Page) -> None:
    sit_down(page, table.url, table="names")
    expect(say(page, "Ann, hello!", to="Everybody")).to_contain_text("Ann")
    expect(say(page, "Bo, and you?", to="Everybody")).to_contain_text("Bo")


def test_tools_are_chips(table: Table, page: Page) -> None:
    sit_down(page, table.url, table="tools")
    answer = say(page, 'use ponder {"seconds": 1}')
    expect(answer.locator(".chip.runs")).to_contain_text("ponder")
    expect(answer.locator(".chip.good")).to_contain_text("ok")
    expect(answer).to_contain_text("It told me this")


@pytest.mark.long
def test_what_is_said_stays_text(table: Table, page: Page) -> None:
    sit_down(page, table.url, name="<b>Eve</b>", table="<b>evil</b>")
    title = page.title()
    expect(say(page, EVIL)).to_contain_text("<script>document.title=2</script>")
    assert EVIL in page.locator("#talk").inner_text()
    expect(page.locator("#seat")).to_have_text("<b>Eve</b> at <b>evil</b>")
    assert page.locator("#talk img, #talk script, #seat b").count() == 0
    assert page.title() == title


def test_a_reload_keeps_the_conversation_and_says_what_was_cut(
    table: Table, page: Page
) -> None:
    sit_down(page, table.url, table="again")
    expect(say(page, "Hello!")).to_contain_text("So it is.")
    story = say(page, "Tell me a story.")
    expect(story).to_contain_text("number 1")
    page.reload()
    expect(page.get_by_role("radio", name="Bo", exact=True)).to_be_checked()
    expect(page.locator("#talk li")).to_have_count(4)
    expect(page.locator("#talk li").last).to_contain_text("interrupted")
    expect(page.locator("#talk li").nth(1)).to_contain_text("Hello!. So it is.")
    expect(say(page, "And now?")).to_contain_text("And now?. So it is.")


def test_a_connection_that_breaks_is_opened_again(table: Table, page: Page) -> None:
    page.add_init_script("""
        const Real = WebSocket;
        window.sockets = [];
        window.WebSocket = class extends Real {
          constructor(...given) { super(...given); sockets.push(this); }
        };
    """)
    sit_down(page, table.url, table="broken")
    story = say(page, "Tell me a story.")
    expect(story).to_contain_text("number 1")
    page.evaluate("sockets.at(-1).close()")
    expect(story).to_contain_text("interrupted")
    expect(page.locator("#state")).to_have_text("connected")
    expect(say(page, "Are you there?")).to_contain_text("Are you there?. So it is.")


def test_a_game_master_sees_others_and_approves_a_tool(
    table: Table, page: Page, other: Page, pictures: Path | None
) -> None:
    master(page, table, "approvals")
    sit_down(other, table.url, "Zoe", "approvals")
    answer = say(other, 'use curse {"name": "Zed"}')
    card = page.get_by_role("alertdialog")
    expect(card).to_contain_text("Zed")
    expect(page.locator("#talk")).to_contain_text("Zoe to Bo")
    if pictures:
        page.screenshot(path=pictures / "table-approval.png")
    card.get_by_role("button", name="Approve this call").click()
    expect(card).to_have_count(0)
    assert page.evaluate("document.activeElement.id") == "line"
    expect(answer).to_contain_text("Zed is cursed")
    expect(page.locator("#talk")).to_contain_text("Zed is cursed")
    expect(other.get_by_role("alertdialog")).to_have_count(0)
    expect(other.locator("#directing")).to_be_hidden()


@pytest.mark.long
def test_a_game_master_directs(
    table: Table, page: Page, other: Page, pictures: Path | None
) -> None:
    master(page, table, "directed")
    sit_down(other, table.url, "Zoe", "directed")

    # Interrupt what is said to another.
    story = say(other, "Tell me a story.")
    expect(story).to_contain_text("number 1")
    expect(page.get_by_role("region", name="Bo", exact=True)).to_contain_text("answers")
    page.get_by_role("button", name="Interrupt Bo").click()
    expect(story).to_contain_text("interrupted")

    # Speak as an NPC, and the others have heard it.
    page.get_by_role("combobox", name="NPC", exact=True).select_option("Ann")
    page.get_by_role("textbox", name="Words").fill("Silence, all of you!")
    page.get_by_role("button", name="Say it").click()
    spoken = page.locator("#talk li.answer").last
    expect(spoken).to_contain_text("Silence, all of you!")
    expect(spoken).to_contain_text("words of The master")
    expect(other.locator("#talk")).to_contain_text("Silence, all of you!")
    expect(say(other, "Bo, repeat all.")).to_contain_text("Silence, all of you!")

    # A puppet gets all that is said, and a muted NPC says nothing.
    page.get_by_role("button", name="Puppet Ann").click()
    expect(page.get_by_role("button", name="Puppet Ann")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(say(other, "Who is there?")).to_contain_text("Ann")
    page.get_by_role("button", name="Puppet Ann").click()
    expect(page.get_by_role("button", name="Puppet Ann")).to_have_attribute(
        "aria-pressed", "false"
    )
    mute = page.get_by_role("button", name="Mute Bo")
    mute.click()
    expect(mute).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.activeElement.dataset.key") == "mute-Bo"
    say(other, "Bo, speak!")
    expect(other.locator("#talk li.said").last).to_contain_text("Bo is muted")
    mute.click()
    expect(mute).to_have_attribute("aria-pressed", "false")

    # The scene is in the prompt; the override and an elevation are in the tier.
    page.get_by_text("Scene", exact=True).click()
    page.get_by_label("What every NPC knows").fill("It is night.\nIt rains.")
    page.get_by_role("button", name="Set the scene").click()
    expect(page.locator("#told")).to_contain_text("every NPC knows the scene")
    page.get_by_label("Answered as").select_option("standard")
    expect(say(page, "Hm.")).to_contain_text("standard")
    assert page.get_by_label("Answered as").input_value() == ""
    expect(say(page, "Hm, hm.")).to_contain_text("fast")
    page.get_by_role("button", name="Elevate Ann").click()
    expect(page.get_by_role("region", name="Ann", exact=True)).to_contain_text(
        "up to deep until"
    )
    page.get_by_label("Answered as").select_option("deep")
    raised = say(page, "Ann, think about it.", to="Ann")
    expect(raised).to_contain_text("deep")
    if pictures:
        page.screenshot(path=pictures / "table.png")
    page.reload()
    expect(page.get_by_label("What every NPC knows")).to_have_value(
        "It is night.\nIt rains."
    )


async def remember(table: Table) -> None:
    """Write into the memory of the running service, as another program may."""
    async with open_memory(str(table.folder / "kept.db")) as memory:
        campaign = CampaignKey("saltmarsh")
        await memory.graph.put(campaign, entities=[TOWER], facts=FACTS)


def remembered(table: Table) -> dict[str, str]:
    """The facts of the memory's file: text and standing."""
    with closing(sqlite3.connect(table.folder / "kept.db")) as file:
        return dict(file.execute("SELECT text, standing FROM fact"))


def test_a_game_master_reviews_what_npcs_know(
    table: Table, page: Page, pictures: Path | None
) -> None:
    trio.run(remember, table)
    master(page, table, "memory")
    page.get_by_text("What NPCs know").click()
    page.locator("#knower").select_option("Bo")
    facts = page.locator("#facts")
    expect(facts).to_contain_text("Waits for your word (1)")
    if pictures:
        page.screenshot(path=pictures / "table-memory.png")

    page.get_by_role("button", name="Confirm: The tower burnt down.").click()
    expect(facts).to_contain_text("Known to Bo (1)")
    assert remembered(table)["The tower burnt down."] == "accepted"

    page.get_by_role("button", name="Correct: The tower burnt down.").click()
    page.get_by_label("What is true").fill("The tower stands.")
    page.get_by_role("button", name="Correct it").click()
    expect(facts).to_contain_text("The tower stands.")
    assert "The tower burnt down." not in remembered(table)

    page.get_by_role("button", name="Reveal: Ann is the heir.").click()
    expect(facts).to_contain_text("Known to Bo (2)")
    page.get_by_role("button", name="Reveal: Black Tower").click()
    expect(facts).to_contain_text("Secret from Bo (0)")
    page.get_by_role("button", name="Forget: The tower stands.").click()
    page.get_by_role("button", name="Forget it").click()
    expect(facts).to_contain_text("Known to Bo (1)")
    assert remembered(table) == {"Ann is the heir.": "accepted"}
    # The focus was on what is gone.
    assert page.evaluate("document.activeElement !== document.body")


def test_a_keyboard_is_enough(table: Table, page: Page) -> None:
    page.goto(f"{table.url}/")
    keys = page.keyboard
    expect(page.get_by_label("Your name")).to_be_focused()
    keys.type("Aria")
    keys.press("Tab")
    keys.press("Control+a")
    keys.type("keys")
    keys.press("Enter")
    expect(page.get_by_label("What you say")).to_be_focused()
    everybody = page.get_by_role("radio", name="Everybody", exact=True)
    expect(everybody).to_be_checked()  # the table's NPCs are there
    keys.press("Shift+Tab")  # back to them
    expect(everybody).to_be_focused()
    keys.press("ArrowDown")
    expect(page.get_by_role("radio", name="Bo", exact=True)).to_be_checked()
    keys.press("Tab")
    keys.type("Tell me a story.")
    keys.press("Enter")
    answer = page.locator("#talk li.answer").last
    expect(answer).to_contain_text("number 0")
    keys.press("Tab")
    keys.press("Tab")
    expect(page.get_by_role("button", name="Stop")).to_be_focused()
    keys.press("Enter")
    expect(answer).to_contain_text("interrupted")
    expect(page.get_by_label("What you say")).to_be_focused()


@pytest.mark.parametrize(
    "colours", ["light", pytest.param("dark", marks=pytest.mark.long)]
)
def test_it_is_readable_on_a_phone_and_by_axe(
    table: Table, page: Page, colours: Any, pictures: Path | None
) -> None:
    page.emulate_media(color_scheme=colours)
    page.goto(f"{table.url}/table")
    expect(page.get_by_label("Your name")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    master(page, table, f"phone-{colours}")
    expect(say(page, "W" * 200)).to_contain_text("So it is.")
    page.get_by_text("What NPCs know").click()
    page.get_by_text("Scene", exact=True).click()
    expect(page.locator("#memory-told")).to_contain_text("saltmarsh")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    assert violations(page) == []
    if pictures:
        page.screenshot(path=pictures / f"table-phone-{colours}.png")


def test_each_token_shows_its_own_side(tmp_path: Path, page: Page) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(
        "player:one a-player-of-table-one\ngame_master the-master-of-all\n"
        "player:one as Vex the-token-of-vex-alone\n"
    )
    options = ("--token-file", tokens)
    with opened_table(tmp_path, {}, options=options, memory={"store": "off"}) as table:
        page.goto(f"{table.url}/table")
        login = page.locator("#login")
        expect(login).to_have_text("Log in")
        login.click()
        login.dispatch_event("click")  # as whoever asks in the same moment
        expect(page.locator("dialog")).to_have_count(1)
        answer_with_token(page, "a-player-of-table-one")
        expect(page.get_by_label("Table", exact=True)).to_have_value("one")
        expect(page.get_by_label("Table", exact=True)).to_be_disabled()
        page.get_by_label("Your name").fill("Aria")
        page.get_by_role("button", name="Sit down").click()
        answer = say(page, 'use roll {"expression": "2d6+3"}')
        expect(answer.locator(".chip.good")).to_contain_text("roll")
        expect(answer).to_contain_text("It told me this")
        expect(page.locator("#directing")).to_be_hidden()
        expect(page.get_by_role("link", name="Operator")).to_be_hidden()
        assert violations(page) == []
        page.reload()  # the browser itself has kept what was said
        expect(page.locator("#talk li.answer")).to_contain_text("It told me this")
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("#role")).to_have_text("anybody")
        expect(page.locator("dialog")).to_have_count(0)  # the page asks for nothing
        show_token(page, "the-master-of-all")
        # Without a memory it says how to have one.
        page.get_by_text("What NPCs know").click()
        expect(page.locator("#memory-told")).to_contain_text("memory.store")
        page.get_by_role("button", name="Log out").click()
        show_token(page, "the-token-of-vex-alone")
        expect(page.locator("#seat")).to_have_text("Vex at one")
        page.get_by_role("button", name="Change").click()
        expect(page.get_by_label("Your name")).to_have_value("Vex")
        expect(page.get_by_label("Your name")).to_be_disabled()
        page.reload()  # and sits where this token may sit
        expect(page.locator("#state")).to_have_text("connected")
        say(page, "Who am I?")
        expect(page.locator("#talk li.said").last).to_contain_text("Vex")
