"""SciPy takes a second to import: only closing a score pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

STARTS = (
    "import harness.cli.app, harness.cli.show, harness.cli.catalog, harness.grader.service, harness.store.importing"
)
CLOSES = "from harness.statistics.intervals import score_of; score_of([0, 1])"


@pytest.mark.parametrize(("statement", "is_imported"), [(STARTS, False), (CLOSES, True)])
def test_starting_imports_no_scipy(statement: str, is_imported: bool) -> None:
    script = f"{statement}; import sys; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == str(is_imported)
