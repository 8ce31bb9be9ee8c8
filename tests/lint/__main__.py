"""Print everything that a check finds, as ``path:line: what is wrong; the remedy``, and
exit with 1 if there is anything."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from . import (
    classes,
    dependencies,
    exports,
    layers,
    links,
    outside,
    promises,
    prose,
    reference,
)
from .repository import Finding, Repository

CHECKS: Final[tuple[Callable[[Repository], Iterator[Finding]], ...]] = (
    layers.rooms_are_known,
    layers.imports_point_down,
    layers.files_need_each_other_in_one_direction,
    layers.folders_need_each_other_in_one_direction,
    layers.rules_need_no_clock,
    outside.world_is_used_where_it_may_be,
    classes.names_occur_once,
    classes.classes_that_change_are_small,
    classes.messages_are_frozen,
    exports.lazy_names_are_the_same_for_type_checkers,
    exports.nothing_heavy_is_imported_at_start,
    exports.coroutines_load_what_is_heavy,
    dependencies.imports_are_declared,
    dependencies.extras_are_those_of_the_code,
    prose.python_is_in_words,
    prose.pages_are_in_words,
    links.links_lead_somewhere,
    links.tests_and_targets_exist,
    links.navigation_has_every_page,
    links.examples_are_shown,
    links.readme_shows_examples,
    reference.documented_names_exist,
    reference.public_names_are_documented,
    promises.rows_are_complete,
    promises.rows_are_shown,
    promises.attacks_are_shown,
)


def main() -> int:
    gc.disable()  # the trees stay until the end, and looking at them takes seconds
    repository = Repository(Path(__file__).parents[2])
    found = sorted({finding for check in CHECKS for finding in check(repository)})
    for finding in found:
        print(finding)  # noqa: T201
    if found:
        print(f"{len(found)} found")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
