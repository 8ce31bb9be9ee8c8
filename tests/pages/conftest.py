"""A browser for the tests of pages: Debian's Chromium, driven by Playwright.

Without Chromium they are skipped. With ``GLYPHOXA_CHROMIUM=required``, as in CI, they
fail instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from .support import LIMIT, Table, opened_table

expect.set_options(timeout=LIMIT * 1000)


@contextmanager
def launched(*arguments: str) -> Generator[Browser]:
    """Chromium with these arguments."""
    path = shutil.which("chromium")
    if path is None:
        missing = "chromium is not installed (apt install chromium)"
        if os.environ.get("GLYPHOXA_CHROMIUM") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        alone = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=path, args=[*alone, *arguments]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Generator[Table]:
    """A service that the tests of one file share."""
    with opened_table(tmp_path_factory.mktemp("table")) as table:
        yield table


@pytest.fixture
def page(chromium: Browser) -> Generator[Page]:
    """A page of its own, which must raise no error and load nothing from elsewhere."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(LIMIT * 1000)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda told: errors.append(told.text) if "Policy" in told.text else None,
    )
    hosts: set[str] = set()
    page.on("request", lambda asked: hosts.add(asked.url.split("/")[2].split(":")[0]))
    yield page
    context.close()
    assert not errors
    assert hosts <= {"127.0.0.1"}


@pytest.fixture
def pictures() -> Path | None:
    """The folder for pictures of pages; None unless they are wanted."""
    folder = os.environ.get("GLYPHOXA_PICTURES")
    return Path(folder) if folder else None
