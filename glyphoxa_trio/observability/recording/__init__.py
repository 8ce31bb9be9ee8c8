"""Recordings of sessions: what came in, and what came of it (docs/recording.md).

`recording` opens one, `recorder` keeps it; `players`, `models`, `tools`, `handlers` and
`history` stand between a runtime and what it meets; `format`, `kinds`, `lines` and
`config` are the file, `hiding` takes secrets out of it.
"""

from .recording import Recorder, open_recording, recorder_of

__all__ = ["Recorder", "open_recording", "recorder_of"]
