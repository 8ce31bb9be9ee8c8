"""The tool ``generate_image`` (G13): drawn by an image model, or as a parchment card.

`server` asks any server with the OpenAI-compatible ``/images/generations`` (imported
by whoever has one), `answers` says what its answer means (pure); `card` draws without
one; `picture` is what counts as an image; `album` keeps them in a folder.
"""

from .album import Album, own_folder
from .card import Card, installed, size_of
from .handlers import Painter, tools

__all__ = ["Album", "Card", "Painter", "installed", "own_folder", "size_of", "tools"]
