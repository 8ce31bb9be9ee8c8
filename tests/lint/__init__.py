"""The rules of this project that ruff cannot know: ``python -m tests.lint``, which is
part of ``make lint``, reads the source and the documentation.

Each check is a function that reads a `Repository` and yields a `Finding` for every
place that is wrong. All of them are listed in `__main__`:

* `layers` and `outside`: which room may import which, and where files, processes and
  networks are used;
* `classes`: class names, the size of classes that change, and messages;
* `exports`: packages that import their names lazily, and what is imported at start;
* `dependencies`: pyproject.toml and the imports;
* `prose`: codes, and the first lines of docstrings and pages;
* `links` and `reference`: the documentation, and what it refers to;
* `promises`: docs/acceptance.md and docs/security.md, and the tests that they name.

Nothing of the package is run, except to see what is loaded when it is imported.
"""
