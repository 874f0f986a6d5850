"""How the site is made: `python -m sphinx -W docs site`.

Pages that depend on the program (tutorials, the command line, the gallery) are written
to docs/generated first, see `generate.py`; nothing is fetched.
"""

import ast
import inspect
import re
import sys
import textwrap
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402

import dsf_jax  # noqa: E402

project, author, release = "dsf_jax", "the dsf_jax authors", dsf_jax.__version__
copyright = f"{author}, Apache-2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["generated/gallery"]
highlight_language = "none"  # of blocks that name no language
html_theme = "furo"
html_title = f"dsf_jax {release}"
html_extra_path = ["generated/gallery"]
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_dark_style = "github-dark"  # that of the theme underlines names as if links

nb_execution_mode = "off"  # notebooks carry their outputs; the tests run them
nb_merge_streams = True
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "code"  # docstrings have `name` for code
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes are in the signatures of the source
napoleon_use_rtype = False
napoleon_custom_sections = [("Fields", "params_style")]


def to_rest(app, what, name, obj, options, lines):
    """From our docstrings to reStructuredText: formulas stay as they are written.

    Indented lines before the first section are a formula; in prose, λ_{n,i} and |x|
    would be read as markup.
    """
    text, lines[:] = list(lines), []
    is_prose = is_formula = False
    for line in text:
        is_prose = is_prose or line in ("Args:", "Returns:", "Raises:", "Example:")
        if line.startswith("    ") and not is_prose:
            lines += [line] if is_formula else ["::", "", line]
            is_formula = True
            continue
        is_formula = is_formula and not line.strip()
        lines.append(line if line.lstrip().startswith((">>>", "...")) else _plain(line))

    if what == "class":
        lines += _fields(obj)


def _fields(cls):
    """Fields of a tuple or data class, with the comments that stand beside them."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # made by a function
        return []
    found = []
    for node in ast.parse(source).body[0].body:
        if isinstance(node, ast.AnnAssign) and not node.target.id.startswith("_"):
            line = source.splitlines()[node.end_lineno - 1]
            note = _plain(line.partition("  # ")[2]) or "\\ "
            kind = ast.unparse(node.annotation)
            shown = "" if kind.startswith("Annotated") else f" (`{kind}`)"
            found.append(f"  {node.target.id}{shown}: {note}")
    return ["", "Fields:", *found] if found else []


def skip_aliases(app, what, name, obj, skip, options):
    """Fields of a named tuple are listed with their class."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _plain(line):
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"_(?=\W|$)|[|*]", r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


def setup(app):
    """Write the generated pages; called by Sphinx before it looks for sources."""
    generate.write_pages(DOCS / "generated")
    app.connect("autodoc-process-docstring", to_rest, priority=100)
    app.connect("autodoc-skip-member", skip_aliases)
