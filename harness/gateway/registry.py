"""The runs that the gateway knows: whose a token is, what is on disk for each, and what the harness must be told."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from pydantic import ValidationError

from harness.domain.base import Frozen, now_utc
from harness.domain.connections import Connection
from harness.domain.llm import OVER_BUDGET, LlmCall, LlmEvent, LlmRun, LlmUsage
from harness.errors import Conflict, InfrastructureError, NotFound
from harness.gateway.budget import Ledger
from harness.gateway.journal import Journal, added, rows_of
from harness.gateway.proxy.connections import ConnectionLog, connections_of

RUN_NAME = "run.json"
EVENTS_NAME = "events.jsonl"


class KeptRun(Frozen):
    """`run.json`: a run as it was opened, and when it was closed."""

    run: LlmRun
    opened_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True)
class OpenRun:
    """One run that may call."""

    spec: LlmRun
    folder: Path
    ledger: Ledger
    journal: Journal
    connections: ConnectionLog
    networks: tuple[IPv4Network | IPv6Network, ...]


class Registry:
    """All runs of one state folder; written by one process only."""

    def __init__(self, state: Path, max_waiting: int) -> None:
        self._state = state
        self._max_waiting = max_waiting
        self._open: dict[str, OpenRun] = {}
        self._by_token: dict[str, OpenRun] = {}
        self._events: list[LlmEvent] = []

    def take_up(self) -> None:
        """Everything that an earlier process left.

        Raises:
            InfrastructureError: a file of the state is damaged.
        """
        (self._state / "runs").mkdir(parents=True, exist_ok=True)
        self._events = _read_events(self._state / EVENTS_NAME)
        for path in sorted((self._state / "runs").glob(f"*/{RUN_NAME}")):
            kept = _read_run(path)
            if kept.closed_at is None:
                self._add(kept.run, path.parent)

    def open(self, spec: LlmRun) -> LlmUsage:
        """Lets a run call. One that is known goes on with what it has used; token and subnets may be other ones.

        Raises:
            Conflict: it is known with another budget, other models or tools, or its token is another run's.
        """
        folder = self._folder(spec.run_id)
        holder = self._by_token.get(spec.token_sha256)
        if holder is not None and holder.spec.run_id != spec.run_id:
            raise Conflict("another run has this token")
        kept = _read_run(folder / RUN_NAME) if (folder / RUN_NAME).exists() else None
        if kept is None:
            folder.mkdir(parents=True, exist_ok=True)
            kept = KeptRun(run=spec, opened_at=now_utc())
        elif _lasting(kept.run) != _lasting(spec):
            raise Conflict(f"the run {spec.run_id} is known with another budget, other models or tools")
        elif kept.run == spec and spec.run_id in self._open:
            return self._open[spec.run_id].ledger.usage()
        _write_run(folder / RUN_NAME, kept.model_copy(update={"run": spec, "closed_at": None}))
        if spec.run_id in self._open:
            return self._renew(spec).ledger.usage()
        return self._add(spec, folder).ledger.usage()

    def close(self, run_id: str) -> LlmUsage:
        """Ends a run: its token is worth nothing from now on. Idempotent.

        Raises:
            NotFound: there is no such run.
        """
        run = self._open.pop(run_id, None)
        if run is None:
            return self.usage(run_id)
        del self._by_token[run.spec.token_sha256]
        run.ledger.close()
        path = run.folder / RUN_NAME
        _write_run(path, _read_run(path).model_copy(update={"closed_at": now_utc()}))
        return run.ledger.usage()

    def usage(self, run_id: str) -> LlmUsage:
        """What a run has used, open or not.

        Raises:
            NotFound: there is no such run.
        """
        if run_id in self._open:
            return self._open[run_id].ledger.usage()
        used = LlmUsage(run_id=run_id, is_open=False)
        for row in self.calls(run_id, 0):
            used = added(used, row)
        return used

    def calls(self, run_id: str, skip: int, limit: int | None = None) -> list[LlmCall]:
        """The calls of a run that have ended, in the order of their end, without the first `skip`, at most `limit`.

        Raises:
            NotFound: there is no such run.
        """
        return rows_of(self._known(run_id), skip, limit)

    def connections(self, run_id: str, skip: int, limit: int | None = None) -> list[Connection]:
        """Its connections through the proxy that have ended, as its calls.

        Raises:
            NotFound: there is no such run.
        """
        return connections_of(self._known(run_id), skip, limit)

    def find(self, token: str, address: str) -> OpenRun | None:
        """The open run of a token that comes from the run's own network."""
        run = self._by_token.get(hashlib.sha256(token.encode("utf-8", "replace")).hexdigest())
        if run is None:
            return None
        try:
            place = ip_address(address)
        except ValueError:
            return None
        return run if any(place in network for network in run.networks) else None

    def tell(self, run_id: str, kind: str, detail: str = "") -> None:
        """An event for the harness, once per run and kind."""
        if any(event.run_id == run_id and event.kind == kind for event in self._events):
            return
        event = LlmEvent(number=len(self._events) + 1, at=now_utc(), run_id=run_id, kind=kind, detail=detail)
        self._events.append(event)
        with (self._state / EVENTS_NAME).open("ab") as file:
            file.write(event.model_dump_json().encode() + b"\n")

    def events(self, after: int) -> list[LlmEvent]:
        """The events numbered above `after`."""
        return [event for event in self._events if event.number > after]

    def _add(self, spec: LlmRun, folder: Path) -> OpenRun:
        journal = Journal(folder)
        used = journal.take_up() or LlmUsage(run_id=spec.run_id, is_open=True)
        ledger = Ledger(spec.budget, used, spec.max_parallel, self._max_waiting)
        connections = ConnectionLog(folder)
        connections.take_up()
        run = OpenRun(spec, folder, ledger, journal, connections, _networks(spec))
        self._open[spec.run_id] = self._by_token[spec.token_sha256] = run
        if ledger.is_spent():
            # By the calls that a dead gateway left open, or because the budget is nothing.
            self.tell(spec.run_id, OVER_BUDGET)
        return run

    def _renew(self, spec: LlmRun) -> OpenRun:
        """An open run under its new token: calls under way go on, and count."""
        known = self._open[spec.run_id]
        del self._by_token[known.spec.token_sha256]
        run = replace(known, spec=spec, networks=_networks(spec))
        self._open[spec.run_id] = self._by_token[spec.token_sha256] = run
        return run

    def _known(self, run_id: str) -> Path:
        folder = self._folder(run_id)
        if not (folder / RUN_NAME).exists():
            raise NotFound(f"the gateway knows no run {run_id}")
        return folder

    def _folder(self, run_id: str) -> Path:
        return self._state / "runs" / run_id


def _lasting(spec: LlmRun) -> LlmRun:
    """What of a run stays when it is taken up again: all but where it calls from, and with which token."""
    return spec.model_copy(update={"token_sha256": "", "subnets": ()})


def _networks(spec: LlmRun) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(subnet) for subnet in spec.subnets)


def _read_run(path: Path) -> KeptRun:
    try:
        return KeptRun.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise InfrastructureError(f"{path} is damaged: {type(error).__name__}", "Move its folder away.") from error


def _write_run(path: Path, kept: KeptRun) -> None:
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        file.write(kept.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _read_events(path: Path) -> list[LlmEvent]:
    if not path.exists():
        return []
    events = []
    for line in path.read_bytes().splitlines():
        try:
            events.append(LlmEvent.model_validate(json.loads(line)))
        except ValueError:
            continue  # torn by a kill; what it told is told again when it happens again
    return events
