"""The options of the service: addresses, certificate, tokens and limits, checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.http.limits import LOCAL_HOSTS, Access, Limits
from glyphoxa_trio.servers.http.options import (
    REMOTE_RATE,
    HttpOptions,
    bracketed,
    host_name,
    is_loopback,
    origin_name,
    parse_address,
)

from .limits import ServiceLimits
from .rights import ClientRole, ServiceClient, ServiceToken, ServiceTokens, new_token

DEFAULT_ADDRESS: Final = "127.0.0.1:8080"
_CONNECTIONS: Final = 4096
_SHORTEST: Final = 16  # characters of a token
_MOST_TOKENS: Final = 1000
_LONGEST_NAME: Final = 200  # as in the protocol


@attrs.frozen(kw_only=True)
class ServiceOptions:
    """The options of `open_service`.

    ``probes``: another address, for health and metrics only, without a token and TLS.
    ``printed``: the token of the operator that was made for this run; None if there is
    a file of tokens.
    """

    http: HttpOptions
    tokens: ServiceTokens
    limits: ServiceLimits = attrs.field(factory=ServiceLimits)
    probes: HttpOptions | None = None
    printed: Secret | None = None


def service_options(
    *,
    http: str = DEFAULT_ADDRESS,
    token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    behind_proxy: bool = False,
    allow_hosts: Sequence[str] = (),
    allow_origins: Sequence[str] = (),
    rate: float | None = None,
    probes: str | None = None,
) -> ServiceOptions:
    """Return the options, checked. Their names are those of ``glyphoxa run``.

    Without ``token_file`` there is one token, of an operator, that is made now.

    Raises:
      ValueError: for a bad option; the message names it. An address that other
        machines reach needs tokens, and TLS unless a proxy does that.
    """
    host, port = parse_address(http, "--http")
    # Through a proxy on this machine, others reach an address of this machine as well.
    local = is_loopback(host) and not behind_proxy
    if not local and token_file is None:
        raise ValueError(
            f"--http {host}: other machines reach it: that needs --token-file"
        )
    if (tls_cert is None) != (tls_key is None):
        raise ValueError("--tls-cert and --tls-key: one needs the other")
    if not local and tls_cert is None and not behind_proxy:
        raise ValueError(
            f"--http {host}: other machines reach it: that needs --tls-cert and"
            " --tls-key, or --behind-proxy if a proxy in front of it does TLS"
        )
    if rate is not None and not 0 < rate <= 1_000_000:
        raise ValueError(f"--rate-limit {rate:g}: must be more than 0")
    if rate is None and not local:
        rate = REMOTE_RATE
    printed: Secret | None = None
    if token_file is not None:
        known = read_tokens(token_file)
    else:
        printed = new_token()
        known = (
            ServiceToken(printed, ServiceClient(ClientRole.OPERATOR, name="printed")),
        )
    named = frozenset(host_name(x) for x in allow_hosts)
    access = Access(
        hosts=_hosts(host, local=local) | named,
        origins=frozenset(origin_name(x) for x in allow_origins),
        local=local,
    )
    limits = Limits(connections=_CONNECTIONS)
    return ServiceOptions(
        http=HttpOptions(
            host=host,
            port=port,
            remote=not is_loopback(host),
            access=access,
            limits=limits,
            certificate=tls_cert,
            key=tls_key,
            option="--http",
        ),
        tokens=ServiceTokens(known, open_to_all=local),
        limits=ServiceLimits(rate=rate),
        probes=None if probes is None else probes_options(probes, allow_hosts),
        printed=printed,
    )


def probes_options(address: str, allow_hosts: Sequence[str] = ()) -> HttpOptions:
    """Return the options of an address for health and metrics only, checked.

    Raises:
      ValueError: for a bad one; the message names its option.
    """
    named = frozenset(host_name(x) for x in allow_hosts)
    host, port = parse_address(address, "--probes")
    local = is_loopback(host)
    return HttpOptions(
        host=host,
        port=port,
        remote=not local,
        access=Access(hosts=_hosts(host, local=local) | named, local=local),
        limits=Limits(connections=64),
        option="--probes",
    )


def _hosts(host: str, *, local: bool) -> frozenset[str]:
    own = LOCAL_HOSTS if local else frozenset()
    return own | {bracketed(host).lower()}


def read_tokens(file: Path) -> tuple[ServiceToken, ...]:
    """Read a file of tokens: in each line a role and a token.

    A player's role has its session, as in ``player:table-42 x3Qd...``, and may have the
    name under which that player speaks: ``player:table-42 as Aria x3Qd...``. Empty
    lines, and lines that begin with ``#``, are left out.

    Raises:
      ValueError: the file cannot be read, or a line of it; the message has its number,
        and nothing of its text.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ValueError(f"--token-file {file}: {reason}") from None
    tokens: list[ServiceToken] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            tokens.append(_token_of(line, len(tokens)))
        except ValueError as error:
            raise ValueError(f"--token-file {file}, line {number}: {error}") from None
    if not tokens:
        raise ValueError(f"--token-file {file}: there is no token in it")
    if len({x.secret.reveal() for x in tokens}) < len(tokens):
        raise ValueError(f"--token-file {file}: the same token twice")
    if len(tokens) > _MOST_TOKENS:
        raise ValueError(f"--token-file {file}: more than {_MOST_TOKENS} tokens")
    return tuple(tokens)


def _token_of(line: str, number: int) -> ServiceToken:
    role, _, token = line.strip().rpartition(" ")
    role, _, session = role.strip().partition(":")
    session, named, speaker = (x.strip() for x in f"{session} ".partition(" as "))
    kinds = [x.value for x in ClientRole if x is not ClientRole.ANYBODY]
    if role not in kinds or not token:
        raise ValueError(f"write a role and a token; roles are {', '.join(kinds)}")
    if (role == ClientRole.PLAYER) != bool(session):
        raise ValueError("a player has a session, as in player:table-42, others none")
    if (named and not speaker) or len(speaker) > _LONGEST_NAME:
        raise ValueError(
            f"after 'as' comes a name, of at most {_LONGEST_NAME} characters"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token must be printable ASCII, without blanks")
    if len(token) < _SHORTEST:
        raise ValueError(f"a token has at least {_SHORTEST} characters")
    client = ServiceClient(
        ClientRole(role), session or None, str(number), speaker or None
    )
    return ServiceToken(Secret(token), client)
