"""L2, the tool host: which tools there are, what they cost, and running them.

`catalogue` is read by everyone, `calibrator` measures, `executor` runs calls
inside their limits, `host` is the door to all three.
"""

from .calibrator import CalibratorSettings, Probed
from .catalogue import Catalogue, Listing, Snapshot, UnknownTool
from .executor import Caller
from .host import HostStatistics, ToolHost, open_host

__all__ = [
    "CalibratorSettings",
    "Caller",
    "Catalogue",
    "HostStatistics",
    "Listing",
    "Probed",
    "Snapshot",
    "ToolHost",
    "UnknownTool",
    "open_host",
]
