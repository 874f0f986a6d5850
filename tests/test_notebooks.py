"""Notebooks install the package, carry their outputs, and run from first to last."""

from pathlib import Path

import pytest

from tests.training import COMPILE_FAST

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def printed(notebook):
    return "".join(output.get("text", "") for output in outputs_of(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_installs_first_and_carries_its_outputs(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "%pip install" in cells[0].source
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1))  # run once, in order
    assert outputs_of(notebook)
    for output in outputs_of(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter are not ours
@pytest.mark.parametrize(
    ("name", "texts", "num_images"),
    [
        ("extend", ("eigendecomposition: True", "features  ", "(11, 240)"), 0),
        ("filters", ("True", "must hold parameters for 'regions' (240 nodes"), 4),
        ("own_graph", ("unknown: 60", "curves: (300, 101)", "True"), 1),
        ("quickstart", ("dsf-gpr-r ", "filters g_i(λ): (300, 101)", "karate: "), 0),
        pytest.param(
            *(
                "reproduce",
                ("gpr        now ", "the paper 81.66", "gain on record: -0.2"),
                0,
            ),
            marks=pytest.mark.data,
        ),
    ],
)
def test_runs(name, texts, num_images, monkeypatch):
    if name != "reproduce":  # which trains for long
        for variable, value in COMPILE_FAST.items():
            monkeypatch.setenv(variable, value)
    nbclient, nbformat = map(pytest.importorskip, ("nbclient", "nbformat"))
    (path,) = (path for path in NOTEBOOKS if path.stem == name)
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources=place
    ).execute()
    kinds = [output.output_type for output in outputs_of(notebook)]
    assert "error" not in kinds
    assert all(text in printed(notebook) for text in texts)
    images = [out for out in outputs_of(notebook) if "image/png" in out.get("data", {})]
    assert len(images) == num_images
