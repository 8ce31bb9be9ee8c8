"""The microphone and the loudspeaker of ``glyphoxa talk``, and the list of all."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import attrs
from rich.table import Table

from glyphoxa_trio.devices import (
    SoundInput,
    SoundOutput,
    list_devices,
    open_file_input,
    open_file_output,
    open_loudspeaker,
    open_microphone,
)
from glyphoxa_trio.devices.portaudio import LOUDSPEAKER, MICROPHONE, chosen

from .common import run_orderly
from .console import say, say_json, wide_console
from .render import on_screen

NULL: Final = "null"  # the name of a device that hears or plays nothing


@attrs.frozen(kw_only=True)
class TalkDevices:
    """The microphone and the loudspeaker that are asked for, by name or number; a file
    takes the place of a device. None is the default."""

    microphone: str | None = None
    loudspeaker: str | None = None
    file_in: Path | None = None
    file_out: Path | None = None

    async def check(self) -> None:
        """Look whether they are there, without opening them.

        Raises:
          DeviceError: one is not there.
        """
        if not (self._hears_file and self._speaks_file):
            found = await list_devices()
            if not self._hears_file:
                chosen(found, self.microphone, MICROPHONE)
            if not self._speaks_file:
                chosen(found, self.loudspeaker, LOUDSPEAKER)
        if self.file_in is not None:
            async with open_file_input(self.file_in):
                pass

    @property
    def _hears_file(self) -> bool:
        return self.file_in is not None or self.microphone == NULL

    @property
    def _speaks_file(self) -> bool:
        return self.file_out is not None or self.loudspeaker == NULL

    def hear(self) -> AbstractAsyncContextManager[SoundInput]:
        """Open the microphone.

        Raises:
          DeviceError: on entering, if that is not possible.
        """
        if self._hears_file:
            return open_file_input(self.file_in)
        return open_microphone(self.microphone)

    def speak(self) -> AbstractAsyncContextManager[SoundOutput]:
        """Open the loudspeaker.

        Raises:
          DeviceError: on entering, if that is not possible.
        """
        if self._speaks_file:
            return open_file_output(self.file_out)
        return open_loudspeaker(self.loudspeaker)


def show_devices(*, as_json: bool) -> int:
    """Show the devices of this machine."""

    async def main() -> int:
        found = await list_devices()
        if as_json:
            say_json({"devices": [attrs.asdict(one) for one in found]})
            return 0
        console = wide_console()
        if not found:
            say(console, "this machine has no devices")
            return 0
        table = Table(box=None, header_style="dim")
        for heading in ("number", "name", "system", "microphone", "loudspeaker", "Hz"):
            table.add_column(
                heading, justify="right" if heading == "number" else "left"
            )
        for one in found:
            able = [
                ""
                if not one.channels(kind)
                else "default"
                if kind in one.default_for
                else "yes"
                for kind in (MICROPHONE, LOUDSPEAKER)
            ]
            table.add_row(
                str(one.number), on_screen(one.name), one.system, *able, str(one.rate)
            )
        console.print(table)
        return 0

    return run_orderly(main)
