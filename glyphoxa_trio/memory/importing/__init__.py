"""World data of other programs, and of campaign files, on its way into the graph.

Readers are pure: parsed data in, `Drafts` out, with a report of what was skipped.
"""

from .data import Imported as Imported
from .data import ImportKind as ImportKind
from .data import ImportRefused as ImportRefused
from .data import Skipped as Skipped
from .drafts import Drafts as Drafts
