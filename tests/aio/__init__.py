"""Tests of asyncio. Each is a plain function with a loop of its own, which pytest-trio
ignores. Both modes run each scenario. Nothing waits for a time to pass; the limits only
keep a failure from taking for ever."""
