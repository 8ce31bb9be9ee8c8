"""A deterministic stand-in for a language model: no network, no key, no model.

It reads the tools and the words of a request, and calls the tools that fit. It is for
demonstrations, and to see tiers and budgets at work before there is a key.
"""

from __future__ import annotations

from .link import Offline as Offline
from .wire import respond as respond
