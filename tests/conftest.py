"""What all tests share: homes of their own, and markers that skip here but fail in CI."""

from __future__ import annotations

import gc
import importlib.util
import os
import warnings
from functools import cache
from pathlib import Path

import pytest

from harness.home import Home

ROOT = Path(__file__).resolve().parents[1]


def is_ci() -> bool:
    return os.environ.get("CI", "") not in ("", "0", "false")


@cache
def docker_trouble() -> str:
    """Why tests on real Docker cannot run here; empty if they can."""
    # The SDK leaves the socket of a failed connection open, which would fail the test that the collector meets it in.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        trouble = _ping()
        gc.collect()
    return trouble


def _ping() -> str:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=10)
    except DockerException as error:
        return f"no Docker Engine answers: {error}"
    try:
        client.ping()
    except (DockerException, OSError) as error:
        return f"no Docker Engine answers: {error}"
    finally:
        client.close()
    return ""


def torch_trouble() -> str:
    """Why tests on torch cannot run here; the same tests run inside the inference image."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") and (trouble := docker_trouble()):
        # A skipped test proves nothing: CI must have what its tests need.
        if is_ci():
            pytest.fail(f"CI must run this test: {trouble}", pytrace=False)
        pytest.skip(trouble)
    if item.get_closest_marker("torch") and (trouble := torch_trouble()):
        pytest.skip(trouble)


@pytest.fixture(scope="session")
def product_images() -> dict[str, str]:
    """Zone -> tag of the images of this checkout, all of them here."""
    from harness.sandbox.engine import connect
    from harness.sandbox.images import detect_device, expected_tags, missing_images

    tags = expected_tags(ROOT, detect_device("auto"))
    client = connect()
    try:
        missing = missing_images(client, tags)
    finally:
        client.close()
    if missing:
        trouble = f"images are missing or stale: {', '.join(missing)} (make images)"
        pytest.fail(trouble, pytrace=False) if is_ci() else pytest.skip(trouble)
    return tags


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home of the harness, with its folders."""
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture
def own_settings(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Settings that point at a home of the test's own, whatever the machine's `.env` and environment say."""
    for name in list(os.environ):
        if name.startswith("HARNESS_") or name in ("SMITH_BENCH_DIR", "AUTORL_FILE_PATH"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HARNESS_HOME", str(home.path))
    monkeypatch.setenv("HARNESS_ROOT", str(ROOT))
    monkeypatch.chdir(tmp_path)
    return home
