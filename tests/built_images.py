"""Images of this checkout for tests on real Docker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def built_image(zone: str) -> str:
    """The tag of this checkout's image of `zone`; where it is not built the test is skipped, in CI it fails."""
    from harness.sandbox.engine import connect
    from harness.sandbox.images import detect_device, expected_tags, missing_images

    tags = expected_tags(ROOT, detect_device("cpu"), os.environ.get("HARNESS_BASE_IMAGE", ""), with_optional=True)
    client = connect()
    try:
        is_missing = zone in missing_images(client, tags)
    finally:
        client.close()
    if is_missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"image {tags[zone]} is not built: make images")
    return tags[zone]
