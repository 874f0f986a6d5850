"""Notebooks run from the first cell to the last, and are committed without outputs."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_without_outputs(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert outputs_of(notebook) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
@pytest.mark.parametrize(
    ("name", "texts", "num_images"),
    [
        ("filters", ("True", "must hold parameters for 'regions' (240 nodes"), 4),
        ("quickstart", ("dsf-gpr-r ", "filters g_i(λ): (300, 101)", "karate: "), 0),
    ],
)
def test_runs(name, texts, num_images):
    nbclient, nbformat = map(pytest.importorskip, ("nbclient", "nbformat"))
    (path,) = (path for path in NOTEBOOKS if path.stem == name)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    kinds = [output.output_type for output in outputs_of(notebook)]
    assert "error" not in kinds
    printed = "".join(output.get("text", "") for output in outputs_of(notebook))
    assert all(text in printed for text in texts)
    images = [out for out in outputs_of(notebook) if "image/png" in out.get("data", {})]
    assert len(images) == num_images
