"""Check the address of a model server and its API key."""

from __future__ import annotations

from urllib.parse import urlsplit

from glyphoxa_trio.secret import Secret


def check_address(base_url: str, api_key: Secret | None) -> None:
    """Check that an address and its key are usable.

    Raises:
      ValueError: for an address that is not plain http(s), or that carries credentials
        or a query (an address is shown; a key belongs in ``api_key``), and for a key
        that a header cannot hold.
    """
    address = urlsplit(base_url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError("base_url: must be http://… or https://…")
    if "@" in address.netloc or address.query or address.fragment:
        raise ValueError("base_url: must have no credentials, query or fragment")
    if api_key is not None:
        key = api_key.reveal()
        if not (key.isascii() and key.isprintable() and key) or " " in key:
            raise ValueError(
                "api_key: is empty, or has characters that no header can hold"
            )
