"""L2, the tool host: which tools there are, what they cost, and running them.

`catalogue` is read by everyone, `calibrator` measures, `executor` runs calls
inside their limits, `host` is the door to all three.
"""

from .approvals import Approvals, ApprovalStore, ChangedAgain
from .calibrator import CalibratorSettings, Probed
from .catalogue import Catalogue, Listing, Snapshot, UnknownTool
from .executor import Caller
from .host import HostStatistics, ToolHost, open_host
from .search import Shelf, Showing, showing

__all__ = [
    "ApprovalStore",
    "Approvals",
    "CalibratorSettings",
    "Caller",
    "Catalogue",
    "ChangedAgain",
    "HostStatistics",
    "Listing",
    "Probed",
    "Shelf",
    "Showing",
    "Snapshot",
    "ToolHost",
    "UnknownTool",
    "open_host",
    "showing",
]
