"""The requests that a session can be sent, utterances among them, and how a worker
carries them out.

`AskMessage.what` is the name of a method of `Npc`, `Scene` or `Session`, and
``fields`` are its arguments. Only what is listed here can be called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import to_builtins

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, Scene, Turn
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.runtime import Runtime, Session
from glyphoxa_trio.tools.tier import Tier

from .messages import AskMessage, SayMessage

Fields: TypeAlias = "dict[str, frozenset[str]]"


def _fields(**methods: str) -> Fields:
    return {name: frozenset(fields.split()) for name, fields in methods.items()}


NPC: Final = _fields(
    approve="question yes",
    elevate="tier seconds",
    hearing="text speaker",
    interrupt="speaker",
    media="speaker",
    overhear="speaker text to",
    set_scene="context",
    set_variables="values",
    tier_for="text",
)
SCENE: Final = _fields(
    addressed="text speaker",
    hearing="text speaker",
    interrupt="speaker",
    look="",
    mute="npc",
    overhear="speaker text to",
    puppet="npc",
    tell="context",
    turn_to="npc speaker",
    unmute="npc",
)
SESSION: Final = _fields(
    end="",
    interrupt="speaker",
    join="campaign players variables",
    npcs="",
    set_variables="values",
    snapshot="",
)


class UnknownRequest(GlyphoxaError):
    """There is no such request, or it has another field than it may have."""


async def carry_out(
    runtime: Runtime,
    session: Session,
    ask: AskMessage,
    media: Callable[[Npc, str | None], dict[str, Any]],
) -> Any:
    """Carry out a request, and return its result as plain data.

    Args:
      media: says where the audio of an NPC is, for a speaker or for any.

    Raises:
      UnknownRequest: the text names the request and the field.
      GlyphoxaError: as the method does.
      TypeError, ValueError: a field has no valid value.
    """
    to: Npc | Scene | Session
    if ask.npc is not None:
        kind, known, to = "an NPC", NPC, session.npc(ask.npc)
    elif ask.scene is not None:
        kind, known, to = "a scene", SCENE, session.scene(*ask.scene)
    else:
        kind, known, to = "a session", SESSION, session
    if ask.what not in known:
        raise UnknownRequest(f"there is no request {ask.what!r} of {kind}")
    if unknown := ask.fields.keys() - known[ask.what]:
        raise UnknownRequest(f"{ask.what} has no field {min(unknown)!r}")
    if isinstance(to, Session):
        return await _of_session(runtime, to, ask)
    if isinstance(to, Npc) and ask.what == "media":
        speaker = ask.fields.get("speaker")
        if not isinstance(speaker, str | None):
            raise TypeError("speaker must be a name")
        return media(to, speaker)
    fields = dict(ask.fields)
    if "tier" in fields:
        fields["tier"] = Tier.parse(str(fields["tier"]))
    lines = fields.pop("context", None)
    if lines is not None and not isinstance(lines, list):
        raise TypeError("context must be a list of lines")
    return plain_result(await getattr(to, ask.what)(*(lines or ()), **fields))


async def _of_session(runtime: Runtime, session: Session, ask: AskMessage) -> Any:
    match ask.what:
        case "npcs":
            return [{"name": x.name, "tier": str(x.budget_tier)} for x in runtime.npcs]
        case "join":
            session_of(runtime, ask.key, ask)
            return True
        case "snapshot":
            return (await session.snapshot()).to_data()
        case "set_variables":
            return await session.set_variables(**ask.fields)
        case "interrupt":
            return await session.interrupt(**ask.fields)
        case _:
            return await session.end()


def session_of(runtime: Runtime, key: SessionKey, join: AskMessage | None) -> Session:
    """Return a session, which begins as ``join`` says if there is none yet.

    Raises:
      UnknownRequest: a field is none that it may have.
      GlyphoxaError, TypeError, ValueError: as `Runtime.session`.
    """
    fields = {} if join is None else join.fields
    if unknown := fields.keys() - SESSION["join"]:
        raise UnknownRequest(f"join has no field {min(unknown)!r}")
    return runtime.session(key.id, tenant=key.tenant, **fields)


def plain_result(result: Any) -> Any:
    """Return a result as JSON can have it."""
    return str(result) if isinstance(result, Tier) else to_builtins(result)


def turn_of(session: Session, say: SayMessage) -> Turn:
    """Return the turn that an utterance begins."""
    text, speaker, id_ = say.text, say.speaker, say.id
    tier = None if say.tier is None else Tier.parse(say.tier)
    if say.scene is None:
        npc = session.npc(say.npc)
        match say.how:
            case "speak_as":
                return npc.speak_as(text, speaker=speaker, id=id_)
            case "greet":
                return npc.greet(speaker=speaker, id=id_)
        return npc.say(text, speaker=speaker, tier=tier, id=id_)
    scene = session.scene(*say.scene)
    match say.how:
        case "speak_as":
            return scene.speak_as(say.npc, text, speaker=speaker, id=id_)
        case "greet":
            return scene.greet(say.npc, speaker=speaker, id=id_)
    to = say.npc or None
    return scene.say(
        text,
        speaker=speaker,
        to=to,
        tier=tier,
        dm=say.dm,
        whisper=say.whisper,
        id=id_,
    )
