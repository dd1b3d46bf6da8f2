"""What `harness check` and `harness new` must not leave behind on real Docker."""

from __future__ import annotations

from harness.home import Home


def nothing_is_left(home: Home) -> None:
    """No container, no socket and no scratch folder of this home is there."""
    from harness.sandbox.engine import connect

    client = connect()
    try:
        assert client.api.containers(all=True, filters={"label": f"harness.home={home.label}"}) == []
    finally:
        client.close()
    assert not list((home.sockets / "runs").iterdir())
    assert not [path for path in home.cache.iterdir() if path.name.startswith("check-")]
