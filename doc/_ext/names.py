"""Names in docstrings: `name` becomes a link where that is a name of ours, and code where it is not.

Names of Python and NumPy in signatures are checked by importing them, which needs no network. With
``BLOSC2_INVENTORIES=1`` intersphinx turns them into links.
"""

from __future__ import annotations

import builtins
import importlib
import re
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import NumpyDocstring
from sphinx.util.docutils import SphinxRole
from sphinx.util.nodes import make_refnode

DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)*(\(\))?")


class NameRole(SphinxRole):
    """What single backquotes mean in docstrings."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        text = nodes.unescape(self.text)
        code = nodes.literal(self.rawtext, text, classes=["xref", "py", "py-obj"])
        if not DOTTED.fullmatch(text):
            return [nodes.literal(self.rawtext, text)], []
        target = text.removesuffix("()")
        options = {
            "refdomain": "py",
            "reftype": "obj",
            "reftarget": target,
            "refdoc": self.env.docname,
            "py:module": self.env.ref_context.get("py:module"),
            "py:class": self.env.ref_context.get("py:class"),
            "may_be_code": True,
        }
        if target[:1].isupper():  # a class; a word may also be a parameter that is called as a method is
            options["refspecific"] = True
        return [addnodes.pending_xref(self.rawtext, code, **options)], []


def is_name_of_others(name: str) -> bool:
    """Whether a dotted name can be imported from another package than ours, or is a builtin."""
    parts = name.split(".")
    if parts[0] == "blosc2":
        return False
    if hasattr(builtins, parts[0]):
        return True
    for cut in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:cut]))
            for part in parts[cut:]:
                value = getattr(value, part)
        except (ImportError, AttributeError):
            continue
        return True
    return False


def is_private(name: str) -> bool:
    """Whether a dotted name of ours is private, as a part of it begins with an underscore."""
    return name.startswith("blosc2.") and any(part.startswith("_") for part in name.split("."))


# What the modules of annotations import under another name, as autodoc shows it.
SHORT = {"np": "numpy", "npt": "numpy.typing"}


def is_in_words(node: nodes.Node) -> bool:
    """Whether a type stands in a list of parameters: these are words for readers, such as ``path`` or ``array_like``.

    Names in signatures are annotations, which have to be real.
    """
    while node.parent is not None:
        if isinstance(node, nodes.field_list):
            return True
        node = node.parent
    return False


def ours(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, target: str) -> nodes.Node | None:
    """A link to a class that only its module names in full, if there is one of that name."""
    name = target.rpartition(".")[2]
    found = {
        (entry.docname, entry.node_id)
        for full, entry in env.domains.python_domain.objects.items()
        if full.rpartition(".")[2] == name and entry.objtype in ("class", "exception") and full.startswith("blosc2.")
    }
    if len(found) != 1 or not name[:1].isupper():
        return None
    [(page, anchor)] = found
    return make_refnode(app.builder, node["refdoc"], page, anchor, [node[0].deepcopy()], name)


def not_found(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.TextElement
) -> nodes.Node | None:
    """Show as code what is no page of ours; what is no name at all stays a warning."""
    if node.get("may_be_code"):
        return shown
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    first, dot, rest = target.partition(".")
    target = SHORT.get(first, first) + dot + rest
    if found := ours(app, env, node, target):
        return found
    if is_private(target) or is_name_of_others(target):
        return shown
    return shown if is_in_words(node) else None


def leave_words(_: Sphinx, document: nodes.document) -> None:
    """Types in words are no names, even where a method is called as a word is."""
    for node in list(document.findall(addnodes.pending_xref)):
        target = node.get("reftarget", "")
        is_word = re.fullmatch(r"[a-z_]+", target) and not hasattr(builtins, target)
        if node.get("refdomain") == "py" and is_word and not node.get("may_be_code") and is_in_words(node):
            node.replace_self(nodes.emphasis("", target))


def readable(*event: Any) -> tuple[str | None, str | None]:
    """A signature as one would write it: defaults that are classes by their names, and what is made anew as `...`."""
    signature, returned = event[-2:]
    if signature is not None:
        signature = re.sub(r"<class '([\w.]+)'>", r"\1", signature).replace("<factory>", "...")
    return signature, returned


def raised(docstring: NumpyDocstring, _: str) -> list[str]:
    """The section "Raises": Sphinx links each of several names before a text, of which napoleon keeps the first."""
    fields = docstring._consume_fields(parse_type=False)
    return [*(f":raises {names}: " + "\n    ".join(docstring._strip_empty(text)) for names, _, text in fields), ""]


def setup(app: Sphinx) -> dict[str, bool]:
    # napoleon takes what stands before a colon in the docstring of a property for its type; ours have annotations.
    NumpyDocstring._parse_attribute_docstring = NumpyDocstring._consume_to_end
    NumpyDocstring._parse_raises_section = raised
    app.add_lexer("mermaid", TextLexer)  # forges draw it; drawing it here needs a script from the network
    app.add_role("name", NameRole())
    app.connect("autodoc-process-signature", readable)
    app.connect("doctree-read", leave_words)
    app.connect("missing-reference", not_found, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
