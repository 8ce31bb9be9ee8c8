"""L2, the tool host: which tools there are, what they cost, and running them.

`catalogue` is read by everyone, `calibrator` measures, `executor` runs calls
inside their limits, `host` is the door to all three.
"""

from .ahead import Ahead, AheadStatistics
from .approvals import Approvals, ApprovalStore, ChangedAgain
from .calibrator import PROBES, Probed, Sampled
from .catalogue import Catalogue, Listing, Snapshot, UnknownTool
from .executor import Caller, RunsCalls
from .history import History, HistoryFile, HistoryStatistics
from .host import HostStatistics, ToolHost, open_host
from .measurements import CalibratorSettings
from .search import Shelf, Showing, showing
from .stalls import ToolStalled

__all__ = [
    "PROBES",
    "Ahead",
    "AheadStatistics",
    "ApprovalStore",
    "Approvals",
    "CalibratorSettings",
    "Caller",
    "Catalogue",
    "ChangedAgain",
    "History",
    "HistoryFile",
    "HistoryStatistics",
    "HostStatistics",
    "Listing",
    "Probed",
    "RunsCalls",
    "Sampled",
    "Shelf",
    "Showing",
    "Snapshot",
    "ToolHost",
    "ToolStalled",
    "UnknownTool",
    "open_host",
    "showing",
]
