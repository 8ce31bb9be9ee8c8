"""The options ``--model`` and ``--base-url``, for the commands that have them."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import Model

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        envvar="GLYPHOXA_MODEL",
        help="Speak with this model and no other, instead of those configured: of the"
        " configured server, of a known one (with Ollama: ollama:llama3.2), or of an"
        " OpenAI-compatible one at --base-url. A key, if it needs one, is read from"
        " GLYPHOXA_API_KEY, or from the server's own variable, such as OPENAI_API_KEY.",
        show_default=False,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        envvar=["GLYPHOXA_BASE_URL", "OPENAI_BASE_URL"],
        help="Where the OpenAI-compatible server is, up to and including /v1.",
        show_default=False,
    ),
]


def chosen_model(
    context: typer.Context, name: str | None, base_url: str | None
) -> Model:
    """Return the model of the two options."""
    source = context.get_parameter_source("base_url")
    if name is None and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter(
            "says where the model of --model is: give both", param_hint="--base-url"
        )
    return Model(name, base_url)
