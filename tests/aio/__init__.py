"""Every test here is a plain function with an asyncio host of its own: pytest-trio
sees none of them. Both modes play each scene. Nothing waits for a time to pass; the
limits only keep a failure from taking for ever.
"""
