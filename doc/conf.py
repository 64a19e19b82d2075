"""How the documentation site is built: sphinx-build -W --keep-going -n -b html doc build/site."""

from __future__ import annotations

import os
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

import blosc2  # noqa: E402

project = "python-blosc2"
author = "the python-blosc2 developers"
copyright = author
version = release = blosc2.__version__

# The address of the project is in pyproject.toml. While it is a placeholder, what would lead there is plain text.
URLS = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
URLS = {name: url for name, url in URLS.items() if ".invalid" not in url}
# Links to files outside of doc/ lead below this.
source_base_url = f"{URLS['Source']}/blob/main/" if "Source" in URLS else ""
myst_substitutions = {
    "source": f"[Source]({URLS['Source']})" if "Source" in URLS else "source: the repository of these pages",
    "issues": f"[Issues]({URLS['Issues']})" if "Issues" in URLS else "issues: there",
    "version": version,
}

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.intersphinx",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "names",
    "access",
    "sections",
    "pictures",
    "source_links",
    "notebooks",
]
exclude_patterns = [
    "_ext",
    "images/*.py",
    "gallery/**.ipynb",
    "gallery/**.json",
    "gallery/**.py",
    "gallery/**.md5",
    "gallery/**.zip",
]
nitpicky = True
# Names that are not ours are checked by importing them: see _ext/names.py.
nitpick_ignore = [
    # Of private modules, by names that only type checkers import: the docstrings say in words what they take or give.
    *(
        ("py:class", name)
        for name in (
            "Frame",
            "Described",
            "blosc2.info.Described",
            "CodecFacts",
            "FilterFacts",
            "Items",
            "FieldNames",
            "Compaction",
            "Recompression",
            "Meta",
            "VLMeta",
            "OrthogonalIndex",
        )
    ),
    ("py:class", "Progress"),  # a callable, whose arguments the docstrings name
    ("py:class", "Drawing"),  # a value that notebooks and terminals show; it has no methods for users
    ("py:class", "Store"),  # any of the three stores, whose private base it is
]
default_role = "name"

# ---------------------------------------------------------------- names and docstrings
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = True
napoleon_use_ivar = True
add_module_names = False
# Links into the pages of Python and NumPy need their inventories from the network; a build must not.
intersphinx_mapping = (
    {"python": ("https://docs.python.org/3", None), "numpy": ("https://numpy.org/doc/stable", None)}
    if os.environ.get("BLOSC2_INVENTORIES")
    else {}
)

# ---------------------------------------------------------------- pages and notebooks
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"  # answers are not copied
# Anchors of other sites are made by their scripts, and change.
linkcheck_anchors = False
linkcheck_timeout = 10
linkcheck_retries = 1

# ---------------------------------------------------------------- gallery
examples = HERE.parent / "examples"
if find_spec("sphinx_gallery") and find_spec("matplotlib") and list(examples.glob("*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(examples),
        "gallery_dirs": "gallery",
        "filename_pattern": r"\.py$",
        "ignore_pattern": r"__init__\.py|conftest\.py|[/\\]notebooks[/\\]"
        + ("" if find_spec("torch") else r"|training_patches\.py"),
        "abort_on_example_error": False,
        "only_warn_on_example_error": False,
        "show_memory": False,
        "show_signature": False,
        "download_all_examples": False,
        "reference_url": {"blosc2": None},
        "within_subsection_order": "FileNameSortKey",
        "min_reported_time": 10,
        "write_computation_times": False,
        "remove_config_comments": True,
        "matplotlib_animations": False,
    }

# ---------------------------------------------------------------- looks
html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 5,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
html_context = {"default_mode": "auto"}
