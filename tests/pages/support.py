"""A `glyphoxa run` with real servers, as a process, for pages in a real browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
from playwright.sync_api import Page

from ..cli.support import Terminal, terminal

HERE = Path(__file__).parent
MIND, ORACLE = HERE / "mind.py", HERE / "oracle.py"
AXE = HERE.parent / "peers" / "node_modules" / "axe-core" / "axe.min.js"
LIMIT = 60.0
SERVERS = {
    "time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]},
    "oracle": {"command": sys.executable, "args": [str(ORACLE)]},
}


@attrs.frozen
class Table:
    """A running service, and its folder."""

    url: str
    token: str
    folder: Path
    shown: Terminal

    @property
    def shared(self) -> Path:
        """The ``.mcp.json``."""
        return self.folder / ".mcp.json"


@contextmanager
def opened_table(
    folder: Path,
    servers: dict[str, Any] = SERVERS,
    *,
    options: Sequence[str | Path] = (),
    **config: Any,
) -> Generator[Table]:
    """Run the service with two NPCs, and the servers in a ``.mcp.json``.

    With ``--token-file`` among the options there is no token of the run.
    """
    mind = subprocess.Popen(
        [sys.executable, str(MIND)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert mind.stdout is not None
        address = mind.stdout.readline().strip()
        llm = {"provider": "chat_completions", "model": "m", "base_url": address}
        bo = {"name": "Bo", "tools": ["*"], "budget_tier": "standard"}
        ann = {"name": "Ann", "tools": ["dice"], "budget_tier": "fast"}
        path = folder / "table.json"
        path.write_text(json.dumps({"llm": llm, "npcs": [bo, ann], **config}))
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
        (folder / ".git").mkdir()  # the project ends here
        words = ("run", path, "--yes", "--http", "127.0.0.1:0", *options)
        with terminal(*words) as shown:
            shown.expect("serving 2 NPCs at ")
            if "--token-file" not in options:
                shown.expect("token: ")
            shown.expect("\n")
            (url,) = re.findall(r"NPCs at (http://127\.0\.0\.1:\d+)", shown.screen)
            token = "".join(re.findall(r"token: (\S+)", shown.screen))
            yield Table(url, token, folder, shown)
    finally:
        mind.kill()
        mind.communicate()


def show_token(page: Page, token: str) -> None:
    """Log in with this token, as a person does."""
    page.get_by_role("button", name="Log in").click()
    answer_with_token(page, token)


def answer_with_token(page: Page, token: str) -> None:
    """Answer the page's question for a token."""
    page.get_by_label("The token").fill(token)
    page.get_by_role("dialog").get_by_role("button", name="Log in").click()
    page.get_by_role("dialog").wait_for(state="detached")


def log_in(page: Page, table: Table) -> None:
    """Log in as the operator, and wait until NPCs know that somebody may approve."""
    show_token(page, table.token)
    until(lambda: "turns ask no person" not in tools(table))


def tools(table: Table) -> str:
    """All that the service says of why Bo's tools are hidden."""
    found = httpx2.get(
        f"{table.url}/api/tools?npc=Bo", trust_env=False, timeout=60
    ).json()
    return " ".join(x["hidden"] or "" for x in found["tools"])


def violations(page: Page) -> list[str]:
    """What axe finds serious or worse on the page as it is now."""
    # By evaluation: the policy of the page lets no script in.
    if not AXE.exists() and os.environ.get("GLYPHOXA_PEERS") != "required":
        pytest.skip("axe-core is not installed (make peers)")
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run()")
    return [
        f"{x['id']}: {x['help']}: {[y['html'] for y in x['nodes']][:3]}"
        for x in found["violations"]
        if x["impact"] in ("serious", "critical")
    ]


def until(holds: Callable[[], bool], within: float = LIMIT) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
