"""``glyphoxa verify``: what a configuration can reach, and what it breaks.

`verdict` puts it together, `reach` calls every tool that can be reached once, `expect`
is what should come true in it, `evenings` looks for broken promises at random.
"""

from .verdict import Called, Finding, Known, Reach, Severity, Verdict, verify

__all__ = ["Called", "Finding", "Known", "Reach", "Severity", "Verdict", "verify"]
