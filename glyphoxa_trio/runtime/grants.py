"""Checks that the tools granted to NPCs exist. They need a catalogue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar, Final

import attrs

from glyphoxa_trio.config import Config, ConfigError, LeftOut, NpcConfig, ServerSpec
from glyphoxa_trio.host import CatalogueEntry, Snapshot, UnlistedGrant
from glyphoxa_trio.mcp import ServerPrompt, ServerState
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Grant, TrustMode
from glyphoxa_trio.tools.naming import (
    Collision,
    NamingStyle,
    exposed_name,
    head_of,
    is_glob,
    matches,
    nearest,
)

_NOT_REACHED: Final = (
    ServerState.STARTING,
    ServerState.RESTARTING,
    ServerState.FAILED,
)
# This many characters of an exposed name remain even if its end was cut.
_KEPT: Final = 55


@attrs.frozen
class _UnmatchedGrant:
    npc: str
    pattern: str
    text: str
    error: bool
    section: str = "npcs"
    key: ClassVar[str] = "tools"

    def __str__(self) -> str:
        return f"{self.text} @ {self.section}[{self.npc}].{self.key}"


@attrs.frozen
class GrantProblem(_UnmatchedGrant):
    """A granted name or pattern that means no tool.

    It is an ``error`` if no server can still bring such a tool.
    """


@attrs.frozen
class NameProblem:
    """Tools of servers that are left out because they would share one exposed name.

    The problem belongs to no NPC, so ``npc`` is empty. ``shared`` are the servers of a
    ``.mcp.json``, which cannot say ``expose_as``.
    """

    collision: Collision
    shared: Collection[str] = ()
    npc: str = ""
    error: bool = True

    @property
    def pattern(self) -> str:
        """The exposed name that they would share."""
        return self.collision.name

    @property
    def text(self) -> str:
        return str(self.collision)

    def __str__(self) -> str:
        names = [key.partition(".") for key in reversed(self.collision.left_out)]
        ours = [x for x in names if x[0] not in self.shared]
        server, _, name = (ours or names)[0]
        place = f"mcp.servers[{server}].tools.{name}.expose_as"
        if ours:
            return f"{self.text} @ {place}"
        has = f"for which the configuration must have the server {server!r} itself"
        return f"{self.text}, {has} @ {place}"


@attrs.frozen
class HiddenToolProblem:
    """A granted tool that an NPC is not shown for now, since it was too slow, failed or
    blocked the event loop. The text says when it is tried again.

    ``pattern`` is the tool's key.
    """

    npc: str
    pattern: str
    text: str
    section: str = "npcs"
    error: bool = False

    def __str__(self) -> str:
        place = f"{self.section}[{self.npc}].tools"
        return f"{self.pattern} is hidden for now: {self.text} @ {place}"


@attrs.frozen
class PromptGrantProblem(_UnmatchedGrant):
    """A granted name or pattern that means no prompt of a server.

    It is an ``error`` if no server can still bring such a prompt.
    """

    key: ClassVar[str] = "prompts"


Problem = GrantProblem | NameProblem | HiddenToolProblem | PromptGrantProblem


def section_of(npc: NpcConfig) -> str:
    """The section of the configuration that the NPC is in."""
    return "contexts" if npc.context_name else "npcs"


def grant_of(npc: NpcConfig, config: Config, *, approver: bool) -> Grant:
    """Return the tools that the configuration lets an NPC use, and how far it trusts
    them."""
    trust = npc.trust or config.trust
    return Grant(
        npc=npc.name,
        tools=npc.tools,
        trust=trust.mode,
        allow_tools=trust.allow_tools,
        approver=approver,
    )


def grants_of(config: Config) -> tuple[Grant, ...]:
    """Return the grant of each NPC, of tools that need no answer from a person."""
    return tuple(grant_of(npc, config, approver=False) for npc in config.npcs)


def approved_by(config: Config) -> Callable[[ToolDefinition, str], bool]:
    """Return a function that says if the configuration approves an external tool.

    It takes a definition and an exposed name, and returns True if any NPC's grant
    approves the tool. Such a tool is held back when its description changes. Full trust
    approves any tool, so it counts as the approval of none.
    """
    limited = [
        grant
        for npc in config.npcs
        if not (grant := grant_of(npc, config, approver=False)).trusts_fully
    ]
    return lambda definition, exposed: any(
        grant.approves(definition, exposed) for grant in limited
    )


@attrs.frozen
class Unapproved:
    """An external tool that NPCs are granted and that is not approved as it is now.

    ``changed``: it was approved, and its server describes it differently now.
    """

    listing: CatalogueEntry
    npcs: tuple[str, ...]
    changed: bool

    @property
    def key(self) -> str:
        return self.listing.key

    @property
    def hints(self) -> str:
        """The effects that a call may have, as its server states them, in words."""
        definition = self.listing.definition
        said = ["only reads" if definition.read_only else "may write"]
        if definition.destructive and not definition.read_only:
            said.append("may destroy")
        if definition.open_world:
            said.append("reaches the open world")
        if self.changed:
            said.append("changed since it was approved")
        return ", ".join(said)


def unapproved(
    config: Config,
    snapshot: Snapshot,
    *,
    held: Collection[str],
    agreed: Collection[str],
) -> list[Unapproved]:
    """Return every external tool that an NPC is granted but may not use until it is
    approved.

    Args:
      held, agreed: the host's `Approvals.held` and `Approvals.agreed`.
    """
    grants = [grant_of(npc, config, approver=False) for npc in config.npcs]
    found: list[Unapproved] = []
    for listing in sorted(snapshot.listings, key=lambda x: x.key):
        definition, exposed = listing.definition, listing.exposed
        changed = listing.key in held
        if not definition.external or (listing.key in agreed and not changed):
            continue
        whose = tuple(
            grant.npc
            for grant in grants
            if not grant.trusts_fully
            and grant.covers(definition, exposed)
            and (changed or not grant.approves(definition, exposed))
        )
        if whose:
            found.append(Unapproved(listing, whose, changed))
    return found


def may_need_approval(config: Config) -> bool:
    """Return True if a grant may bring tools of a server that the grant does not
    approve."""
    return any(
        grant_of(npc, config, approver=False).trust is not TrustMode.FULL
        and (is_glob(pattern) or pattern == spec.name)
        and _may_mean(pattern, spec.name, config.mcp.naming)
        for npc in config.npcs
        for pattern in npc.tools
        for spec in config.mcp.servers
        if config.mcp.enabled
    )


def check_grants(
    config: Config, snapshot: Snapshot, *, absent: Sequence[ServerSpec]
) -> list[GrantProblem]:
    """Return a problem for each granted name or pattern that no tool matches.

    Args:
      absent: servers that are configured and not ready (yet): they may still bring it.
    """
    known = [*snapshot.by_exposed, *snapshot.by_key]
    groups = {listing.definition.group for listing in snapshot.listings}
    problems: list[GrantProblem] = []
    for npc in config.npcs:
        for pattern in npc.tools:
            # A tool left out because of its name has a `NameProblem` already.
            if any(matches(pattern, x.definition, x.exposed) for x in snapshot.offered):
                continue
            naming = config.mcp.naming
            waiting = [x.name for x in absent if may_be_of(pattern, x, naming)]
            near = nearest(pattern, [*known, *groups])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            certain = not (waiting or is_glob(pattern))
            if waiting:
                text = f"{pattern!r} waits for the server {waiting[0]!r}"
            elif is_glob(pattern):
                text = f"{pattern!r} matches no tool"
            elif other := _in_another_style(pattern, snapshot, naming):
                text = f"no tool {pattern!r}{other}"
            elif npc.context_name and not _is_of(pattern, groups):
                # Such lists also name tools of the application itself: hangup_call.
                text = f"no tool {pattern!r} yet{hint or ', unless a program adds it'}"
                certain = False
            else:
                text = f"no tool {pattern!r}{hint}"
            if not waiting:
                for left in config.mcp.left_out:
                    if (sure := _asks_for(pattern, left, naming)) is None:
                        continue
                    text, certain = _without(left, pattern, text), sure or certain
                    if left.switched_off:
                        certain = False
                    break
            problems.append(
                GrantProblem(npc.name, pattern, text, certain, section_of(npc))
            )
    return problems


def check_prompt_grants(
    config: Config, prompts: Collection[ServerPrompt], *, absent: Sequence[ServerSpec]
) -> list[PromptGrantProblem]:
    """Return a problem for each granted name or pattern that no prompt matches.

    Args:
      prompts: those that servers offer.
      absent: servers that are configured and not ready (yet): they may still bring it.
    """
    problems: list[PromptGrantProblem] = []
    keys, servers = [x.key for x in prompts], [x.name for x in config.mcp.servers]
    for npc in config.npcs:
        for pattern in npc.prompts:
            if any(covers_prompt(pattern, x) for x in prompts):
                continue
            server = pattern.partition(".")[0]
            waiting = [x.name for x in absent if fnmatchcase(x.name, server)]
            near = nearest(pattern, keys) or nearest(pattern, servers)
            text = f"{pattern!r} matches no prompt of a server"
            if waiting:
                text = f"{pattern!r} waits for the server {waiting[0]!r}"
            elif near and not is_glob(pattern):
                text += f", did you mean {' or '.join(near)}?"
            for left in () if waiting else config.mcp.left_out:
                if _asks_for(pattern, left, config.mcp.naming) is not None:
                    text = _without(left, pattern, text)
                    break
            certain = not (waiting or is_glob(pattern))
            problems.append(
                PromptGrantProblem(npc.name, pattern, text, certain, section_of(npc))
            )
    return problems


def covers_prompt(pattern: str, prompt: ServerPrompt) -> bool:
    """Return whether a grant means a prompt: by its key, its server's name, or a
    glob."""
    return pattern == prompt.server or fnmatchcase(prompt.key, pattern)


def unlisted_grants(
    npc: str,
    config: Config,
    servers: Iterable[ServerSpec],
    states: Mapping[str, ServerState],
    snapshot: Snapshot,
) -> list[UnlistedGrant]:
    """Return what an NPC is granted of servers that have not listed their tools yet.

    Args:
      states: of the servers; one without a state is starting.
    """
    starting = ServerState.STARTING
    absent = [x for x in servers if states.get(x.name, starting) in _NOT_REACHED]
    if not absent:  # as in nearly every turn
        return []
    listed = {x.definition.group for x in snapshot.offered}
    return [
        UnlistedGrant(pattern, x.name, states.get(x.name, starting) is starting)
        for person in config.npcs
        if person.name == npc
        for pattern in person.tools
        for x in absent
        if x.name not in listed and may_be_of(pattern, x, config.mcp.naming)
    ]


def _in_another_style(pattern: str, snapshot: Snapshot, naming: NamingStyle) -> str:
    """Return the remedy, if ``pattern`` would be right under another `mcp.naming`."""
    for style in NamingStyle:
        for x in snapshot.listings:
            named_by_rule = x.definition.external and x.definition.expose_as is None
            if named_by_rule and exposed_name(x.definition, style) == pattern:
                return (
                    f": with mcp.naming {naming} it is {x.exposed}; grant that, or set"
                    f" naming: {style}"
                )
    return ""


def _is_of(pattern: str, groups: Iterable[str]) -> bool:
    """Return True if ``pattern`` has the form of a tool of one of these servers or
    groups."""
    return any(
        pattern.startswith((f"{group}.", *_heads(group, NamingStyle.DOUBLE)))
        for group in groups
    )


def _asks_for(pattern: str, left: LeftOut, naming: NamingStyle) -> bool | None:
    """Return True if a pattern that means no tool names a server that was left out.

    False: it may mean a tool of that server. None: it cannot. A file that cannot be
    read may hold any server, so any pattern may name a tool of it, unless it begins
    with a wildcard.
    """
    if left.name is None:
        return not is_glob(pattern) or pattern[0] not in "*?["
    if names_server(pattern, left.name, naming):
        return True
    return False if _may_mean(pattern, left.name, naming) else None


def _without(left: LeftOut, pattern: str, text: str) -> str:
    if left.name is None:
        return f"{text}; it may be in a file that cannot be used: {left.why}"
    how = "switched off" if left.switched_off else "left out"
    return f"{pattern!r} asks for the server {left.name!r}, which is {how}: {left.why}"


def names_server(pattern: str, server: str, naming: NamingStyle) -> bool:
    """Return True if a grant names this very server.

    It does so with a tool of it in full, with the server's bare name, or with a glob
    that begins with it.
    """
    if "." in pattern:
        return pattern.partition(".")[0] == server
    if pattern == server:
        return True
    head = head_of(server, naming)[:_KEPT]
    return bool(head) and pattern.startswith(head)


@attrs.frozen
class NeededServer:
    """A grant that names a server."""

    npc: str
    pattern: str
    server: str
    section: str = "npcs"


def needs(config: Config) -> list[NeededServer]:
    """Return every grant that names a configured server, in the order of the NPCs."""
    return [
        NeededServer(npc.name, pattern, spec.name, section_of(npc))
        for npc in config.npcs
        for pattern in npc.tools
        for spec in config.mcp.servers
        if names_server(pattern, spec.name, config.mcp.naming)
        or any(x.expose_as == pattern for x in spec.tools.values())
    ]


def shadowed_groups(servers: Iterable[ServerSpec], snapshot: Snapshot) -> list[str]:
    """Return a problem for each server that has the name of a group of built-in or own
    tools.

    Its list of tools would replace that group.
    """
    ours = {x.definition.group for x in snapshot.listings if not x.definition.external}
    return [
        f"{spec.name!r} is a group of built-in tools @ mcp.servers"
        for spec in servers
        if spec.name in ours
    ]


def refuse_faults(config: Config, snapshot: Snapshot, problems: Iterable[str]) -> None:
    """Refuse a configuration that is wrong whatever tools its servers bring.

    Args:
      problems: further problems, which are reported with the others.

    Raises:
      ConfigError: with all problems at once.
    """
    servers = config.mcp.servers
    grants = check_grants(config, snapshot, absent=servers)
    faults = [
        *problems,
        *shadowed_groups(servers, snapshot),
        *(str(problem) for problem in grants if problem.error),
    ]
    if faults:
        raise ConfigError(*faults)


def may_be_of(pattern: str, server: ServerSpec, naming: NamingStyle) -> bool:
    """Return True if the pattern has the form of a name of a tool of ``server``."""
    if any(override.expose_as == pattern for override in server.tools.values()):
        return True
    return _may_mean(pattern, server.name, naming)


def _may_mean(pattern: str, server: str, naming: NamingStyle) -> bool:
    if "." in pattern:
        return fnmatchcase(server, pattern.partition(".")[0])
    heads = _heads(server, naming)
    return is_glob(pattern) or pattern == server or pattern.startswith(heads)


def _heads(server: str, naming: NamingStyle) -> tuple[str, ...]:
    """Return the possible beginnings of the names of a server's tools.

    They are those of the naming style in force and of the styles with a prefix. A name
    in the wrong style is reported when the server is ready.
    """
    styles = {naming, NamingStyle.DOUBLE, NamingStyle.SINGLE}
    return tuple({head_of(server, style)[:_KEPT] for style in styles})
