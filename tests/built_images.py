"""Images of this checkout for tests on real Docker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def built_image(zone: str) -> str:
    """The tag of this checkout's image of `zone`; where it is not built the test is skipped.

    In CI it fails then, if the image is one that `make images` builds.
    """
    from harness.sandbox.build_context import ZONES
    from harness.sandbox.engine import connect
    from harness.sandbox.images import detect_device, expected_tags, missing_images

    tags = expected_tags(ROOT, detect_device("cpu"), os.environ.get("HARNESS_BASE_IMAGE", ""), with_optional=True)
    client = connect()
    try:
        is_missing = zone in missing_images(client, tags)
    finally:
        client.close()
    if is_missing:
        is_optional = next(known.is_optional for known in ZONES if known.name == zone)
        trouble = pytest.fail if os.environ.get("CI") and not is_optional else pytest.skip
        trouble(f"image {tags[zone]} is not built: harness images {zone}")
    return tags[zone]
