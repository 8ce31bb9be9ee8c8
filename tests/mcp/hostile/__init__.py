"""What users see of servers that are bad to them."""

import pytest

pytest.register_assert_rewrite("tests.mcp.hostile.support")
