"""Modules are imported in a thread where an import would hold the loop."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from glyphoxa_trio.loading import load


async def test_a_module_is_imported_in_another_thread_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import threading\nBY = threading.get_ident()\n"
    (tmp_path / "takes_long.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        await load("takes_long", "not_installed_at_all")
        made = sys.modules["takes_long"]
        assert threading.get_ident() != made.BY
        await load("takes_long")
        assert sys.modules["takes_long"] is made
    finally:
        sys.modules.pop("takes_long", None)
