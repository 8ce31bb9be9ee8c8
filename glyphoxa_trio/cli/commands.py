"""The commands of `play`, as its help lists them."""

from __future__ import annotations

from typing import Final

HELP: Final = """\
TEXT               for the NPC that it names, else for the one you talk to
@Name TEXT         say TEXT to another NPC, and stay with that one
/whisper NAME TEXT  say TEXT to that NPC alone: no other hears it
/npc [NAME]        who is here; talk to NAME from now on
/who               who is here, and how: muted, puppet, the scene
/tools [TIER]      what this NPC could use in a turn of TIER, and why not the rest
/why               what the runtime decided in the last turn
/dm TIER           the DM's choice of tier for the next utterance (or /tier)
/elevate [NAME] TIER [S]  lift an NPC's ceiling to TIER for S seconds (60)
/as NAME TEXT      the DM says TEXT as that NPC: no model
/mute NAME         that NPC says nothing of its own; /unmute NAME
/puppet NAME       everything you say is for that NPC; /puppet off
/scene TEXT        tell every NPC about the scene; /scene off
/mcp [NAME]        the MCP servers with their tools; all about one of them
/servers           the MCP servers and how they are
/prompt [NAME [ARG=TEXT]...]  the prompts of servers; say one; ARG? asks for its values
/approve TOOL [yes]  a tool that is held back because its server changed it
/reload            read the configuration again
/quit              leave; so does Ctrl-C, twice"""

# What needs no runtime in this process.
_FROM_AFAR: Final = {"whisper"}.union(
    ("npc", "who", "why", "dm", "elevate", "as", "mute", "puppet", "scene", "quit")
)


def help_from_afar() -> str:
    """Return the lines of `HELP` about what can be done where the NPCs are elsewhere,
    and one more."""
    lines = [
        line
        for line in HELP.splitlines()
        if not line.startswith("/") or line[1:].split()[0] in _FROM_AFAR
    ]
    where = "/where             the worker that has this session"
    return "\n".join([*lines[:-1], where, lines[-1]])


def usage(verb: str) -> str:
    """The line of `HELP` about this command; "" if there is none."""
    lines = HELP.splitlines()
    return next((line for line in lines if f"/{verb}" in _words(line)), "")


def _words(line: str) -> list[str]:
    return line.replace(")", " ").split()
