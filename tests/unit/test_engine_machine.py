"""What an engine says of its machine."""

from __future__ import annotations

from pathlib import Path

from harness.inference.engines.machine import driver_versions


def test_the_driver_is_named_where_the_kernel_tells_of_one(tmp_path: Path) -> None:
    told = tmp_path / "version"
    assert driver_versions(told) == {}
    told.write_text("580.159.03\n")
    assert driver_versions(told) == {"driver": "580.159.03"}
