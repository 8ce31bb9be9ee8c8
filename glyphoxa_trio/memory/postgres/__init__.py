"""A memory store in a PostgreSQL database: for several machines, or much memory.

`pool` runs plain functions in worker threads, `holder` is the sign that this process
lives, `schema` has the tables. Each part of the contract has a module, and `store` puts
them together.
"""

from .store import open_postgres as open_postgres
from .store import prepare_postgres as prepare_postgres
