"""The tool ``generate_image``: drawn by an image model, or as a parchment card.

`server` asks a server with the OpenAI-compatible ``/images/generations`` (imported only
if one is configured), and `answers` interprets its answer (pure). `card` draws without
a server. `picture` decides which bytes are an image; `album` keeps images in a folder.
"""

from .album import Album, own_folder
from .card import Card, installed, size_of
from .handlers import Painter, tools

__all__ = ["Album", "Card", "Painter", "installed", "own_folder", "size_of", "tools"]
