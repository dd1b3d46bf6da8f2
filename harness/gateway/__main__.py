"""`python -m harness.gateway`: the gateway, one process, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
from pathlib import Path

from loguru import logger

from harness.errors import HarnessError, PrerequisiteError
from harness.gateway.admin_app import create_admin_app
from harness.gateway.agent_app import AgentApp, Provided
from harness.gateway.config import load_config
from harness.gateway.prices import DEFAULT_TABLE, load_prices
from harness.gateway.proxy.server import Proxy
from harness.gateway.registry import Registry
from harness.gateway.serving import serve
from harness.gateway.upstream import client_for
from harness.hostile_http import listen_tcp
from harness.unix_socket import listen

ADMIN_MODE = 0o600
LOCK_NAME = "gateway.lock"
# A thread that reads a large body gives way to the loop after this long, not after 5 ms.
SWITCH_INTERVAL_S = 0.001


def main() -> int:
    """Runs the gateway; 0 after an orderly stop, else the error's exit code."""
    parser = argparse.ArgumentParser(prog="harness.gateway", description=__doc__)
    parser.add_argument("--config", default=Path("/etc/gateway/gateway.yaml"), type=Path)
    parser.add_argument("--state", default=Path("/var/lib/gateway"), type=Path, help="runs, calls, exchanges")
    parser.add_argument("--admin", default=Path("/sock/gateway.sock"), type=Path, help="unix socket of the harness")
    parser.add_argument("--host", default="0.0.0.0", help="address of the agents' side")
    parser.add_argument("--port", default=8098, type=int)
    parser.add_argument("--proxy-port", default=8099, type=int, help="of the forward proxy, at the same address")
    options = parser.parse_args()
    logger.remove()
    # Without `diagnose`: it would put values, a key or a token, into the log.
    logger.add(sys.stderr, format="{time:YYYY-MM-DDTHH:mm:ss.SSSZ} {level} {message}", diagnose=False, backtrace=False)
    try:
        return _serve(options)
    except HarnessError as error:
        logger.error("{}", error)
        return error.exit_code


def _serve(options: argparse.Namespace) -> int:
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    config = load_config(options.config)
    prices = load_prices(config.prices or DEFAULT_TABLE)
    options.state.mkdir(parents=True, exist_ok=True)
    lock = _only_one(options.state)
    registry = Registry(options.state, config.limits.waiting)
    registry.take_up()
    provided = Provided(config.upstreams, prices, config.limits, registry)
    agents_socket, admin_socket = listen_tcp(options.host, options.port, "gateway"), listen(options.admin, ADMIN_MODE)
    proxy_socket = listen_tcp(options.host, options.proxy_port, "gateway")
    logger.info("the gateway answers on port {} for {}", options.port, ", ".join(config.upstreams) or "no provider")

    async def run() -> None:
        async with client_for(config.limits) as client, asyncio.TaskGroup() as beside:
            agents, proxy = AgentApp(provided, client), Proxy(registry, config.proxy)

            async def end_run(run_id: str) -> None:
                await asyncio.gather(agents.close_run(run_id), proxy.close_run(run_id))

            proxying = beside.create_task(proxy.serve(proxy_socket))
            await serve(agents, agents_socket, create_admin_app(registry, end_run, agents.ask_again), admin_socket)
            proxying.cancel()

    try:
        asyncio.run(run())
    finally:
        provided.recorder.close()
        options.admin.unlink(missing_ok=True)
        os.close(lock)
    logger.info("the gateway has stopped")
    return 0


def _only_one(state: Path) -> int:
    """A descriptor that holds the state for this process; a kill frees it."""
    lock = os.open(state / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise PrerequisiteError(f"another gateway uses {state} already", "Stop it first.") from error
    return lock


if __name__ == "__main__":
    sys.exit(main())
