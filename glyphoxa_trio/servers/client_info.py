"""The client of each request, known by its handshake or by the request. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from . import protocol_versions
from .dispatch import Dispatch
from .jsonrpc import INVALID_REQUEST, RpcCall
from .request import INVALID_PARAMS, METHOD_NOT_FOUND, Client, RpcError


@attrs.define(eq=False)
class ClientInfo:
    """The state of a connection's handshake.

    Args:
      info: name and version of this server, for the answer to ``initialize``.
      stateless: None until the first request has shown which way the client speaks.
      client: the client of the handshake; None before it, and without one.
    """

    _dispatch: Dispatch
    info: Mapping[str, Any]
    stateless: bool | None = attrs.field(default=None, init=False)
    client: Client | None = attrs.field(default=None, init=False)

    def shake_hands(self, params: Mapping[str, Any]) -> tuple[Client, dict[str, Any]]:
        """Return the client, and the answer to its ``initialize``.

        A second ``initialize`` agrees on version and capabilities again; the client's
        subscriptions stay.

        Raises:
          RpcError: if this connection works without a handshake, or a parameter is
            wrong.
        """
        if self.stateless:
            raise protocol_versions.unsupported(params.get("protocolVersion"))
        self.stateless = False
        client, answer = protocol_versions.shake_hands(
            self._dispatch, self.info, params
        )
        if self.client is None:
            self.client = client
        else:
            self.client.agree(client.version, client.capabilities)
        return self.client, answer

    def asker(self, call: RpcCall) -> Client:
        """Return the client that sends a request other than ``initialize``.

        Raises:
          RpcError: if the request is not allowed on this connection, or not yet.
        """
        stateless = protocol_versions.is_stateless(call.params)
        if self.stateless is None:
            self.stateless = stateless
        if self.stateless:
            client = protocol_versions.envelope(call.params)
            protocol_versions.check(call.method, stateless=True)
            return client
        if stateless:
            wrong = "this connection began with a handshake, in an older version"
            raise RpcError(INVALID_REQUEST, wrong)
        protocol_versions.check(call.method, stateless=False)
        if call.method != "ping" and call.method not in self._dispatch.methods:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", call.method)
        if not isinstance(call.params.get("_meta"), Mapping | None):
            raise RpcError(INVALID_PARAMS, "params._meta must be an object")
        if self.client is not None:
            return self.client
        if call.method == "ping":
            return Client()
        raise RpcError(INVALID_PARAMS, "initialize must be sent first")
