"""The authorities that this host trusts, for containers that may speak to the world."""

from __future__ import annotations

from pathlib import Path

from docker.types import Mount

from harness.sandbox.hardening import bind

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_TARGET = "/etc/harness-certificates.crt"


def host_authorities() -> tuple[list[Mount], dict[str, str]]:
    """Mounts and environment that make a container trust them; nothing where the host keeps no such file.

    The host may have one of its own (a proxy that inspects TLS, a server of the house); the image does not know it.
    """
    if not _CERTIFICATES.is_file():
        return [], {}
    mount = bind(_CERTIFICATES.resolve(), _TARGET, read_only=True)
    return [mount], {"SSL_CERT_FILE": _TARGET, "REQUESTS_CA_BUNDLE": _TARGET}
