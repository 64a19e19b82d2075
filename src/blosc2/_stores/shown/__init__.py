"""How a store shows itself: one line, HTML, completions of keys, and its outline.

What is shown is bounded: it takes no longer for a million leaves than for a hundred, and opens none that a catalog
describes. The one line that `repr` gives never opens a leaf.
"""

__all__ = ["completions", "summary"]
