"""Layer 1, the memory of campaigns: what was said, what is known, who may know it.

`entries`, `knowledge` and `visibility` are frozen data and rules without I/O.
`contract` has the protocols that each store implements: a journal of what happened in
sessions, a search in the lines that were said, an index of meanings, and a knowledge
graph. `in_memory` is the simplest implementation, which tests compare the others with;
`sqlite` keeps a file, `postgres` a shared database. `opening` opens a store by its URL.
"""

from .contract import (
    FoundChunk,
    FoundFact,
    FoundLine,
    FoundLines,
    Memory,
)
from .entries import Evening, Line
from .errors import (
    HeldElsewhere,
    KnowledgeRefused,
    MemoryUnavailable,
    MemoryUnusable,
    QueryRefused,
    UnknownItem,
)
from .knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Identity,
    Neighbour,
    Provenance,
    Relationship,
    Standing,
)
from .visibility import EVERYONE, GAME_MASTER, CampaignKey, Reach, Viewer

__all__ = [
    "EVERYONE",
    "GAME_MASTER",
    "Basis",
    "CampaignKey",
    "Entity",
    "EntityKind",
    "Evening",
    "Fact",
    "FoundChunk",
    "FoundFact",
    "FoundLine",
    "FoundLines",
    "HeldElsewhere",
    "Identity",
    "KnowledgeRefused",
    "Line",
    "Memory",
    "MemoryUnavailable",
    "MemoryUnusable",
    "Neighbour",
    "Provenance",
    "QueryRefused",
    "Reach",
    "Relationship",
    "Standing",
    "UnknownItem",
    "Viewer",
]
