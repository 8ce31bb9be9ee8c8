"""The operator's page at the gateway of a cluster, in a real browser."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from ..cli.support import COMMAND, environment
from ..cluster.test_command import CONFIG, a_worker
from ..nats.server import RealServer, a_server


@contextmanager
def a_gateway(bus: RealServer) -> Generator[str]:
    """`glyphoxa cluster gateway`; yields its address."""
    words = [str(COMMAND), "cluster", "gateway", "--nats", bus.url]
    with subprocess.Popen(
        [*words, "--http", "127.0.0.1:0"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            page = "the page for operators: "
            (found,) = islice(
                (x for x in iter(process.stderr.readline, "") if page in x), 1
            )
            yield found.partition(page)[2].strip().removesuffix("/operator")
        finally:
            process.kill()


@pytest.mark.long
def test_an_operator_sees_the_turns_of_workers(page: Page, tmp_path: Path) -> None:
    config = tmp_path / "inn.yaml"
    config.write_text(CONFIG)
    with a_server() as bus, a_worker(config, bus), a_gateway(bus) as url:

        def say(text: str) -> None:
            path = f"{url}/api/sessions/table/npcs/Bo/say"
            said = httpx2.post(path, json={"text": text}, timeout=30, trust_env=False)
            assert "TurnDone" in said.text

        say("Good evening!")
        page.goto(f"{url}/operator")
        expect(page.get_by_role("status").first).to_have_text("connected")
        rows = page.locator("#turn-list tbody tr")
        expect(rows).to_have_count(1)
        say("roll 2d6 for me")  # while it is watched
        expect(rows).to_have_count(2)
        for text in ("Good evening!", "roll 2d6 for me"):
            rows.filter(has_text=text).click()
            expect(page.locator("#turn-detail")).to_contain_text(text)
        page.get_by_role("tab", name="Tools").click()
        expect(page.get_by_text("dice.roll").first).to_be_visible()
        page.get_by_role("tab", name="Sessions").click()
        sessions = page.get_by_role("tabpanel", name="Sessions")
        expect(sessions.get_by_role("rowheader", name="table")).to_be_visible()
