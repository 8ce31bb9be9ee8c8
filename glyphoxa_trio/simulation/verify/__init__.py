"""``glyphoxa verify``: what a configuration can reach, and what it breaks.

`looking` puts it together to a `verdict`, `reach` calls every tool that can be reached
once, `expect` is what should come true in it, `scenarios` looks for broken promises at
random.
"""

from .looking import verify
from .verdict import Called, Finding, NpcReach, Severity, Verdict, VerifyInputs

__all__ = [
    "Called",
    "Finding",
    "NpcReach",
    "Severity",
    "Verdict",
    "VerifyInputs",
    "verify",
]
