"""Every notebook runs from its first cell to its last, and shows the numbers that its sentences speak of."""

import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SPOKEN_OF = {"first-mechanism": {"cell-6": [1.3, 29.9, 0.0]}}
"""what cells show, where text tells it: here the hinge's pull, half a newton more than the weight and 1.3 N sideways"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXMBD_DESIGNS", "64")  # instead of ten thousand
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = {cell.id: cell for cell in notebook.cells}
    for name, numbers in SPOKEN_OF.get(path.stem, {}).items():
        shown = cells[name].outputs[-1].data["text/plain"]
        found = [float(number) for number in re.findall(r"-?\d+\.\d*(?:e[+-]?\d+)?", shown)]
        np.testing.assert_allclose(found, numbers, atol=0.05)
