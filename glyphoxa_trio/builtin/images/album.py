"""The folder in which images are kept: whole files, at most a thousand."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.builtin.files import write_whole
from glyphoxa_trio.tools.definition import ToolError
from glyphoxa_trio.user_folders import NO_HOME, user_data_folder

from .picture import Picture

MOST: Final = 1000  # images in the folder
_OURS: Final = re.compile(r".+-[0-9a-f]{12}\.(png|jpg|webp|gif)")
_LONGEST: Final = 40  # characters of the description in a file's name


class Full(ToolError):
    """The folder is full. No image is deleted to make room."""

    code = "ResourceExhausted"


def own_folder() -> Path:
    """Return the default folder for images, among the user's data.

    Raises:
      ValueError: if the user has no home.
    """
    folder = user_data_folder()
    if folder is None:
        raise ValueError(f"images have no folder: {NO_HOME} or XDG_DATA_HOME")
    return folder / "images"


@attrs.frozen
class Album:
    """Images in a folder, which is created with the first of them.

    The name of a file is a description and a hash of its content, so that the same
    image is kept once. POSIX only.
    """

    folder: Path

    def keep(self, picture: Picture, about: str) -> Path:
        """Write an image, whole or not at all, and return its path. Blocks on the disk.

        Raises:
          ToolError: if the folder is full, or cannot be written to.
        """
        words = re.sub(r"[^a-z0-9]+", "-", about.casefold())[:_LONGEST].strip("-")
        digest = sha256(picture.data).hexdigest()[:12]
        name = f"{words or 'image'}-{digest}{picture.suffix}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            root = self.folder.resolve(strict=True)
            if not (root / name).exists() and self._count(root) >= MOST:
                raise Full(f"the image folder is full ({MOST}); move some images away")
            write_whole(root, [name], picture.data)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ToolError(f"the image cannot be kept: {why}") from error
        return root / name

    def _count(self, root: Path) -> int:
        with os.scandir(root) as entries:
            return sum(_OURS.fullmatch(entry.name) is not None for entry in entries)
