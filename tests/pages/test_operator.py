"""The operator's page, as operators use it: real servers, a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from .support import SERVERS, Table, log_in, tools, until, violations

pytestmark = pytest.mark.border

VIEWS = ("Turns", "Tools", "Servers", "Sessions")


def ask(table: Table, text: str, npc: str = "Bo", session: str = "evening") -> str:
    """Say something as another client, and return all that was answered."""
    url = f"{table.url}/api/sessions/{quote(session, safe='')}/npcs/{npc}/say"
    body = {"text": text, "speaker": "Aria"}
    return httpx2.post(url, json=body, timeout=30, trust_env=False).text


@contextmanager
def asked_meanwhile(table: Table, text: str) -> Iterator[None]:
    thread = threading.Thread(target=ask, args=(table, text))
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()


def opened(page: Page, table: Table, view: str = "Turns") -> None:
    page.goto(f"{table.url}/operator")
    expect(page.get_by_role("status").first).to_have_text("connected")
    page.get_by_role("tab", name=view).click()


def rows(page: Page) -> list[str]:
    return page.locator("#turn-list tbody tr").all_inner_texts()


def servers(table: Table) -> dict[str, dict[str, Any]]:
    answer = httpx2.get(f"{table.url}/mcp/status", trust_env=False, timeout=60).json()
    return {row["name"]: row for row in answer["servers"]}


@pytest.fixture(autouse=True)
def ready(table: Table) -> None:
    """Wait for the servers, and for the page of the last test to be gone."""
    until(lambda: all(x["state"] == "ready" for x in servers(table).values()))
    until(lambda: "turns ask no person" in tools(table))


def test_a_turn_is_seen_while_it_runs_and_afterwards(table: Table, page: Page) -> None:
    opened(page, table)
    before = len(rows(page))
    with asked_meanwhile(table, "Tell me a long story"):
        row = page.locator("#turn-list tbody tr").first
        expect(row).to_contain_text("running")
        row.click()
        detail = page.locator("#turn-detail")
        expect(detail).to_contain_text("model, round 1")
        httpx2.request(
            "DELETE",
            f"{table.url}/api/sessions/evening",
            headers={"Authorization": f"Bearer {table.token}"},
            trust_env=False,
        )
        expect(row).to_contain_text("interrupted")
    expect(detail).to_contain_text("interrupted: ")
    assert len(rows(page)) == before + 1
    page.reload()
    expect(page.locator("#turn-list tbody tr").first).to_contain_text("interrupted")
    page.get_by_label("Only").select_option("with tools")
    expect(page.get_by_text("a long story")).to_have_count(0)


@pytest.mark.long
def test_a_cut_tool_is_seen_at_the_ceiling(
    table: Table, page: Page, pictures: Path | None
) -> None:
    opened(page, table)
    log_in(page, table)
    with asked_meanwhile(table, 'use ponder {"seconds": 3}'):
        question = page.get_by_role("alertdialog")
        expect(question).to_contain_text("oracle.ponder")
        expect(question).to_contain_text('"seconds": 3')
        page.get_by_role("button", name="Approve this call").click()
    expect(question).to_have_count(0)
    row = page.locator("#turn-list tbody tr").first
    expect(row).to_contain_text("oracle.ponder timeout")
    row.click()
    detail = page.locator("#turn-detail")
    expect(detail).to_contain_text("the call of oracle.ponder was approved")
    expect(detail).to_contain_text(re.compile(r"cut after \d+ ms by the turn's limit"))
    # The cut ends at the ceiling, give or take what the machine takes.
    bar = detail.locator(".bar.cut").first.bounding_box()
    ceiling = detail.locator(".track .ceiling").first.bounding_box()
    assert bar is not None
    assert ceiling is not None
    assert abs(bar["x"] + bar["width"] - ceiling["x"]) < 0.1 * bar["width"]
    if pictures:
        page.screenshot(path=pictures / "operator-turns.png")
    with page.expect_download() as downloading:
        page.get_by_text("Download its events").click()
    lines = downloading.value.path().read_text().splitlines()
    assert [json.loads(x)["event"] for x in lines][-1] in ("TurnDone", "TurnKept")


def test_a_call_that_is_denied_is_not_run(table: Table, page: Page) -> None:
    opened(page, table)
    log_in(page, table)
    # A fast turn has no time for questions.
    with asked_meanwhile(table, 'Ponder it and use curse {"name": "Bob"}'):
        expect(page.get_by_role("alertdialog")).to_contain_text("oracle.curse")
        page.get_by_role("button", name="Deny").click()
    row = page.locator("#turn-list tbody tr").first
    expect(row).to_contain_text("oracle.curse denied")


def test_without_a_game_master_no_tool_that_needs_one_is_shown(table: Table) -> None:
    # Whoever watched has left; the answer comes at once and not after 30 s.
    until(lambda: "I know no curse" in ask(table, "use curse {}", session="alone"))


def test_a_server_is_added_gets_tiers_dies_and_comes_back(  # A52
    table: Table, page: Page
) -> None:
    opened(page, table, "Servers")
    log_in(page, table)
    page.get_by_role("button", name="Add a server").click()
    page.get_by_label("Name", exact=True).fill("clock")
    command = f"{sys.executable} -m mcp_server_time --local-timezone Europe/Berlin"
    page.get_by_label("Command").fill(command)
    page.get_by_label("Variables").fill("SHOWN_NEVER=a-secret-value")
    page.get_by_role("button", name="Save and reload").click()
    card = page.get_by_role("article", name="clock")
    expect(card).to_contain_text("ready")
    expect(card).to_contain_text("get_current_time")
    assert "a-secret-value" in table.shared.read_text()
    assert "a-secret-value" not in page.content()
    card.get_by_role("button", name="Test").click()
    expect(card).to_contain_text("connect:")
    expect(card).to_contain_text("2 tools")
    os.kill(servers(table)["clock"]["pid"], signal.SIGKILL)
    expect(card).to_contain_text("1 restart")
    expect(card).to_contain_text("ready")
    page.get_by_role("tab", name="Tools").click()
    row = page.get_by_role("row").filter(has_text="clock.get_current_time")
    expect(row).to_contain_text("not approved yet")
    row.get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Approve it as it is").click()
    expect(row.get_by_role("button")).to_have_text("Look…")
    row.get_by_role("button").click()
    page.get_by_role("button", name="Measure it").click()
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.locator("#measuring")).to_contain_text("measured 1 tool")
    page.get_by_role("button", name="Close").click()
    ask(table, 'use get_current_time {"timezone": "Europe/Berlin"}')
    expect(row).to_contain_text(re.compile("Lightning|Fast"))
    page.get_by_label("As seen by").select_option("Bo")
    expect(row).to_contain_text("fast")
    page.get_by_role("tab", name="Servers").click()
    card.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(card).to_have_count(0)
    assert json.loads(table.shared.read_text())["mcpServers"].keys() == SERVERS.keys()


@pytest.mark.long
def test_an_edit_that_another_overtook_is_refused_and_keeps_what_was_typed(
    table: Table, page: Page
) -> None:
    opened(page, table, "Servers")
    log_in(page, table)
    page.get_by_role("button", name="Add a server").click()
    page.get_by_label("Name", exact=True).fill("mine")
    page.get_by_label("Command").fill("true")
    before = table.shared.read_text()
    table.shared.write_text(before.replace("{", "{ ", 1))  # somebody else's edit
    # The page reads the list again; what is edited is the list that was seen.
    os.kill(servers(table)["time"]["pid"], signal.SIGKILL)
    card = page.get_by_role("article", name="time", include_hidden=True)
    expect(card).to_contain_text("1 restart")
    page.get_by_role("button", name="Save and reload").click()
    expect(page.get_by_role("alert")).to_contain_text("another edit came first")
    assert page.get_by_label("Name", exact=True).input_value() == "mine"
    assert page.get_by_label("Command").input_value() == "true"
    page.get_by_role("button", name="Cancel").click()
    assert table.shared.read_text() == before.replace("{", "{ ", 1)


def test_a_bad_entry_and_a_bad_token_are_told_in_words(
    table: Table, page: Page
) -> None:
    opened(page, table, "Servers")
    page.get_by_role("button", name="Add a server").click()
    page.get_by_label("Name", exact=True).fill("none")
    page.get_by_role("button", name="Save and reload").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("needs the right to operate")
    dialog.get_by_label("The token").fill("a-token-of-nobody")
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog).to_contain_text("the token is not valid")
    dialog.get_by_label("The token").fill(table.token)
    dialog.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("url, or the command")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Reload now").click()
    expect(page.get_by_text("reloaded, nothing changed")).to_be_visible()
    assert page.evaluate("document.cookie") == ""  # no script reads it
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("anybody")).to_be_visible()


def test_all_is_done_by_keyboard(table: Table, page: Page) -> None:
    ask(table, "Hail")
    page.goto(f"{table.url}/operator")
    expect(page.get_by_role("status").first).to_have_text("connected")
    page.keyboard.press("Tab")
    expect(page.get_by_role("tab", name="Turns")).to_be_focused()
    page.keyboard.press("ArrowLeft")  # from the first to the last
    expect(page.get_by_role("tab", name="Sessions")).to_be_focused()
    expect(page.get_by_role("row").filter(has_text="evening")).to_be_visible()
    page.keyboard.press("ArrowRight")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#turn-list tbody') !== null"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#turn-detail")).to_contain_text("What happened")
    ask(table, "Hail again")  # the list moves; the focus does not
    expect(page.locator("#turn-list tbody")).to_contain_text("Hail again")
    where = "document.activeElement.closest('#turn-list tbody tr')?.innerText ?? ''"
    assert "Hail" in page.evaluate(where)
    page.get_by_role("tab", name="Servers").press("Enter")
    page.get_by_role("button", name="Add a server").press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Add a server")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.long
def test_axe_finds_nothing_serious_on_any_view(
    table: Table, chromium: Browser, scheme: Any
) -> None:
    ask(table, "Hail")
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": 360, "height": 740}
    )
    page = context.new_page()
    opened(page, table)
    page.locator("#turn-list tbody tr button").first.click()
    for view in VIEWS:
        page.get_by_role("tab", name=view).click()
        until(lambda: page.locator("[role=tabpanel]:not([hidden])").inner_text() != "")
        page.wait_for_timeout(300)  # for the view's own request
        assert violations(page) == [], view
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, view
    context.close()


def test_foreign_text_stays_text(table: Table, page: Page) -> None:
    hostile = "<img src=x onerror=document.title='taken'> <b>bold</b>"
    ask(table, hostile, session="<img src=x onerror=alert(1)>")
    opened(page, table)
    row = page.locator("#turn-list tbody tr").first
    expect(row).to_contain_text(hostile)
    row.click()
    expect(page.locator("#turn-detail")).to_contain_text("<img src=x")
    page.get_by_role("tab", name="Sessions").click()
    expect(page.locator("#session-list")).to_contain_text("<img src=x")
    assert page.title().startswith("Glyphoxa")
    assert page.locator("main img, main script").count() == 0


@pytest.mark.long
def test_the_connection_is_opened_again(table: Table, page: Page) -> None:
    opened(page, table)
    page.context.set_offline(True)
    page.evaluate("import('/pages/service.mjs').then((x) => x.client().close())")
    expect(page.get_by_role("status").first).to_have_text("connecting")
    ask(table, "Said while it was away")
    page.context.set_offline(False)
    expect(page.get_by_role("status").first).to_have_text("connected")
    expect(page.locator("#turn-list tbody")).to_contain_text("Said while it was away")
