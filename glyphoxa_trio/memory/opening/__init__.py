"""Opens a memory store by its place; a folder, since each store needs this room."""

from .stores import POSTGRES as POSTGRES
from .stores import exists as exists
from .stores import not_a_place as not_a_place
from .stores import open_memory as open_memory
