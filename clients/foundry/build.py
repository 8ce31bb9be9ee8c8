"""Build the module for Foundry VTT: one zip, of the same bytes whenever it is built.

    python clients/foundry/build.py [FOLDER] [--url URL]

FOLDER (build/foundry unless given) then has `glyphoxa.zip` and `module.json`. With the
address of the folder in which both will be served, the manifest says where: Foundry
installs by the address of a manifest, and looks there for a newer version.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
ARCHIVE: Final = "glyphoxa.zip"
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)  # the first day that a zip can name


def contents(url: str = "") -> dict[str, bytes]:
    """Return the files of the module by their places in it.

    Args:
      url: where the archive and the manifest will be served, without their names.
    """
    manifest = json.loads((HERE / "module.json").read_text("utf-8"))
    if url:
        base = url.rstrip("/")
        manifest |= {"manifest": f"{base}/module.json", "download": f"{base}/{ARCHIVE}"}
    files = {
        "module.json": (json.dumps(manifest, indent=2) + "\n").encode(),
        "README.md": (HERE / "README.md").read_bytes(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        "scripts/client.mjs": (ROOT / "clients/javascript/glyphoxa.mjs").read_bytes(),
    }
    for path in sorted([*HERE.glob("scripts/*.mjs"), *HERE.glob("lang/*.json")]):
        files.setdefault(path.relative_to(HERE).as_posix(), path.read_bytes())
    return files


def build(folder: Path, url: str = "") -> Path:
    """Write the archive and the manifest into a folder; return the archive."""
    folder.mkdir(parents=True, exist_ok=True)
    files = contents(url)
    archive = folder / ARCHIVE
    # Not compressed: what comes out of a compressor is not the same everywhere.
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.create_system, info.external_attr = 3, 0o100644 << 16
            packed.writestr(info, content)
    (folder / "module.json").write_bytes(files["module.json"])
    return archive


def main() -> None:
    """Build what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build/foundry")
    parser.add_argument("--url", default="", help="where both files will be served")
    given = parser.parse_args()
    build(given.folder, given.url)


if __name__ == "__main__":
    main()
