"""What a runtime promises, as a monitor that has seen nothing of how it is kept.

`monitor` is told every event and judges; `calls` is what it remembers of them, `rights`
who may use what at which moment, `gate` whether what was shown and run was permitted,
`turn` one turn as a whole, `journal` what really ran where tools run.
"""

from .calls import Broken, Promise
from .monitor import Monitor, conversation_faults

__all__ = ["Broken", "Monitor", "Promise", "conversation_faults"]
