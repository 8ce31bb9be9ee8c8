"""The tool host (L2): the catalogue of tools, their measurements, and their calls.

`catalogue` holds the tools and may be read from anywhere, `calibrator` measures them,
`executor` runs calls within their limits. `host` is the entry point to all three.
"""

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .approvals import Approvals, ApprovalStore, ChangedAgain
from .calibrator import PROBES, Probed, Sampled
from .calls_for_others import CallForOthers
from .catalogue import Catalogue, CatalogueEntry, Snapshot, UnknownTool
from .elsewhere import AnswerElsewhere, CallSharer
from .executor import Caller, CallsOfTurn, RunsCalls
from .history import HistoryFile, HistoryStatistics, SampleHistory
from .host import (
    BreakerOpened,
    GroupWritten,
    HostStatistics,
    ToolHost,
    UnlistedGrant,
    open_host,
)
from .measurements import CalibratorSettings
from .search import LoadedTools, VisibleTools, showing
from .speculative_calls import SpeculativeCalls, SpeculativeCallStatistics
from .stalls import ToolStalled

__all__ = [
    "PROBES",
    "AnswerElsewhere",
    "ApprovalStore",
    "Approvals",
    "BreakerOpened",
    "CalibratorSettings",
    "CallForOthers",
    "CallSharer",
    "Caller",
    "CallsOfTurn",
    "Catalogue",
    "CatalogueEntry",
    "ChangedAgain",
    "GroupWritten",
    "HistoryFile",
    "HistoryStatistics",
    "HostStatistics",
    "LoadedTools",
    "Probed",
    "RunsCalls",
    "SampleHistory",
    "Sampled",
    "Snapshot",
    "SpeculativeCallStatistics",
    "SpeculativeCalls",
    "ToolHost",
    "ToolStalled",
    "UnknownTool",
    "UnlistedGrant",
    "VisibleTools",
    "open_host",
    "showing",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        Ahead="SpeculativeCalls",
        AheadStatistics="SpeculativeCallStatistics",
        History="SampleHistory",
        Listing="CatalogueEntry",
        Shelf="LoadedTools",
        Showing="VisibleTools",
    )
