"""Hostile servers, and what users see of them."""

import pytest

pytest.register_assert_rewrite("tests.mcp.hostile.support")
