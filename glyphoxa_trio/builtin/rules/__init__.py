"""Looking up rules: the 5e SRD, or data sets of your own.

`datasets` reads entries, `index` finds them, and `handlers` makes ``search_rules`` and
``get_rule`` from both. The entries that come with the package state the facts of the
SRD in words of this project, and carry this notice:

    This work includes material taken from the System Reference Document 5.1
    ("SRD 5.1") by Wizards of the Coast LLC and available at
    https://dnd.wizards.com/resources/systems-reference-document. The SRD 5.1 is
    licensed under the Creative Commons Attribution 4.0 International License
    available at https://creativecommons.org/licenses/by/4.0/legalcode.
"""

from .datasets import DatasetError, Rule
from .handlers import tools
from .index import RuleIndex

__all__ = ["DatasetError", "Rule", "RuleIndex", "tools"]
