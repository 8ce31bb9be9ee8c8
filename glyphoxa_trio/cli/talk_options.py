"""The command ``talk``: its options, and their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glyphoxa_trio.config.voices import SpeechDetector

from .application import Force
from .common import keep_existing
from .consent import Yes
from .model_options import BaseUrl, ModelName, chosen_model


def talk(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            help="A configuration: YAML, TOML or JSON.",
            show_default=False,
        ),
    ] = None,
    npc: Annotated[
        str | None,
        typer.Argument(
            metavar="[NPC]",
            help="The NPC's name, or the beginning of it; without one, all of them"
            " listen, and the one that is addressed answers.",
            show_default=False,
        ),
    ] = None,
    microphone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Its name, a part of that, or its number; null hears nothing.",
            show_default="the system's",
        ),
    ] = None,
    loudspeaker: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Its name, a part of that, or its number; null plays nothing.",
            show_default="the system's",
        ),
    ] = None,
    list_devices: Annotated[
        bool, typer.Option("--list-devices", help="Show the devices, and end.")
    ] = False,
    file_in: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Hear this WAV file (PCM16, mono) instead of a microphone; end when it"
            " has ended and was answered.",
            show_default=False,
        ),
    ] = None,
    file_out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Speak into this WAV file instead of a loudspeaker. It has what was"
            " heard, without silences.",
            show_default=False,
        ),
    ] = None,
    full_duplex: Annotated[
        bool,
        typer.Option(
            "--full-duplex",
            help="Hear you while the NPC speaks, so that you can interrupt it: with a"
            " headset, or a device that cancels its own echo.",
        ),
    ] = False,
    detector: Annotated[
        SpeechDetector,
        typer.Option(
            help="Tells speech from other sounds: silero knows voices, webrtc is"
            " cheaper, and takes music and typing for speech.",
        ),
    ] = SpeechDetector.SILERO,
    speaker: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Your name.")
    ] = "player",
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Write each event, and each latency, as one line of JSON."
        ),
    ] = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    log_json: Annotated[
        Path | None,
        typer.Option(
            "--log-json",
            help="Append a log of events to this file, as play does.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        Path | None,
        typer.Option(
            "--session",
            metavar="FILE",
            help="Go on with the conversation that is kept in this file, and keep it"
            " there after each answer. What was said is in it.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    stand_in: Annotated[
        bool,
        typer.Option(
            "--stand-in",
            help="For NPCs with the engine s2s: a stand-in for their model, on this"
            " machine. No key, no network, and no real voice.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """Talk to the NPCs of CONFIG by microphone and loudspeaker.

    You are not heard while an NPC speaks, unless --full-duplex says that no echo comes
    back. What was understood, who speaks, and how long each answer took, part by part,
    is on the screen. NPCs that read need speech.recognition and speech.synthesis in
    CONFIG; without them pocketsphinx and espeak-ng are used. Ctrl-C leaves.

    WAV files can take the place of both devices:
    glyphoxa talk npcs.yaml --file-in question.wav --file-out answer.wav

    It needs the extra talk of the package, and on Linux: apt install libportaudio2.
    Exit status: 0 the file was answered, 2 bad input or a device that is not there or
    has gone, 130 Ctrl-C.
    """
    from .talk_devices import TalkDevices, show_devices

    if list_devices:
        raise typer.Exit(show_devices(as_json=as_json))
    if config is None:
        raise typer.BadParameter("is missing", context, param_hint="CONFIG")
    _refuse_both(context, "microphone", "file_in")
    _refuse_both(context, "loudspeaker", "file_out")
    keep_existing(file_out, force)
    from .talk import talk as run

    raise typer.Exit(
        run(
            config,
            npc,
            chosen_model(context, model, base_url),
            TalkDevices(
                microphone=microphone,
                loudspeaker=loudspeaker,
                file_in=file_in,
                file_out=file_out,
            ),
            detector=detector,
            full_duplex=full_duplex,
            speaker=speaker,
            as_json=as_json,
            log=log_json,
            session=session,
            stand_in=stand_in,
        )
    )


def _refuse_both(context: typer.Context, device: str, file: str) -> None:
    if None not in (context.params[device], context.params[file]):
        option = f"--{file.replace('_', '-')}"
        raise typer.BadParameter(
            f"takes the place of --{device}", context, param_hint=option
        )
