"""The program of one bad server: ``python run.py NAME [OPTION=VALUE …]``.

It is started by its path, because importing the package first would take ten times as
long as the server itself. Its folder becomes a package of its own here, without its
``__init__``, which is for programs that start servers.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


def main() -> None:
    folder = __file__.rpartition("/")[0] or "."
    package = ModuleType("hostile")
    package.__path__ = [folder]
    sys.modules["hostile"] = package
    import_module("hostile.behaviours")
    import_module("hostile.family").main(sys.argv[1:])


if __name__ == "__main__":
    main()
