"""The promises of a runtime, checked by a monitor that does not use its code.

`monitor` is told every event and asks the judges. What it remembers is in `calls`,
`said` (by players and models) and `offered` (tools). The judges: `rights` (who may use
what at which moment), `gate_checker` (what was shown and run), `call_judge` (the end of
each call), `turn` (one turn as a whole), `journal` (what really ran where tools run).
"""

from .calls import BrokenPromise, Promise
from .monitor import Monitor
from .said import conversation_faults

__all__ = ["BrokenPromise", "Monitor", "Promise", "conversation_faults"]
