"""Sends telemetry into a file, or to an address. Import it lazily: it imports the HTTP
client.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2

import trio

from glyphoxa_trio.certificates import CertificatesUnreadable, trusted_for
from glyphoxa_trio.config.disk import edit_file
from glyphoxa_trio.config.secrecy import of_address
from glyphoxa_trio.config.servers import is_private, without_secrets
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask

PATIENCE: Final = 10.0  # seconds for connecting, and for each read and write
_JSON: Final = {"Content-Type": "application/json"}


class NotSent(GlyphoxaError):
    """A report was not taken; the text names the address without its secrets."""


async def write(path: Path, report: str) -> None:
    """Put ``report`` in the place of a file, whole or not at all.

    Raises:
      ConfigError: if it cannot be written.
    """
    edit = partial(edit_file, path, lambda _: report)
    await trio.to_thread.run_sync(edit, abandon_on_cancel=True)


async def post(url: str, report: str) -> None:
    """POST ``report`` as JSON; the answer is not read.

    Redirects are not followed: the operator named this address and no other.

    Raises:
      NotSent: saying why.
    """

    local = is_private(url) and urlsplit(url).scheme == "http"
    with quiet(Mask.of(of_address(url)).text):
        try:
            async with (
                # No proxy reaches a server on this machine.
                httpx2.AsyncClient(
                    verify=await trusted_for(url),
                    timeout=PATIENCE,
                    trust_env=not local,
                ) as client,
                client.stream(
                    "POST", url, content=report.encode(), headers=_JSON
                ) as response,
            ):
                status = response.status_code
        except CertificatesUnreadable as error:
            raise NotSent(f"{without_secrets(url)}: {error}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
            where = without_secrets(url)
            raise NotSent(f"{where}: {type(error).__name__}") from None
    if not 200 <= status < 300:
        raise NotSent(f"{without_secrets(url)}: HTTP {status}")
