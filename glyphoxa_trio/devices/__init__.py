"""Microphones and loudspeakers: devices of this machine, WAV files, and null devices.

A device has a clock and a thread of its own, which must never wait for ours. Between
the two is a `RingBuffer`, bounded and without locks:

    PortAudio's thread ── write ──> ring ── take ──> trio      `SoundInput`
    trio ── play ──> ring ── fill ──> PortAudio's thread       `SoundOutput`

A WAV file is a device whose thread is a task: what is played into one takes as long as
a loudspeaker would.
"""

from .files import open_file_input, open_file_output
from .portaudio import (
    DeviceInfo,
    list_devices,
    open_loudspeaker,
    open_microphone,
)
from .ring import RingBuffer
from .sound import DeviceError, SoundInput, SoundOutput

__all__ = [
    "DeviceError",
    "DeviceInfo",
    "RingBuffer",
    "SoundInput",
    "SoundOutput",
    "list_devices",
    "open_file_input",
    "open_file_output",
    "open_loudspeaker",
    "open_microphone",
]
