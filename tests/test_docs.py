"""What people read: short lines, links that lead somewhere, one version."""

import re
from pathlib import Path

import pytest

import dsf_jax

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
PAGES = [page for page in PAGES if "generated" not in page.parts]
RENDERED = ("results.md", "settings.md")  # by their programs


def prose(page):
    """Lines that a person wrapped: no tables, pictures or code."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    return [line for line in text.splitlines() if not line.startswith(("|", "!["))]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 170


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page):
    if page.name not in RENDERED:
        assert [line for line in prose(page) if len(line) > 100] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(
        r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S
    )
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        notebook = Path(link).name if link.endswith(".ipynb") else None
        place = ROOT / "notebooks" / notebook if notebook else page.parent / link
        made = "generated" in link and not notebook
        assert made or place.exists(), f"{page.name}: {link}"


def test_every_notebook_is_a_page_of_the_site():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"generated/{notebook.stem}\n" in index


def test_the_citation_names_the_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.M) == [dsf_jax.__version__]
    (doi,) = re.findall(r"doi: (\S+)", text)
    assert doi in (ROOT / "README.md").read_text(encoding="utf-8")
