"""The inference service: one engine behind five routes; one request at a time has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from loguru import logger

from harness.domain.specs import EngineSpec
from harness.errors import EngineBroken, EvaluationFailed, HarnessError, LoadFailed, NoGpuMemory, UsageError
from harness.inference.ending import end_process
from harness.inference.engines.base import Engine, build_engine
from harness.inference.wire import (
    EngineInfo,
    ErrorReply,
    GenerateReply,
    GenerateRequest,
    Health,
    LoadReply,
    LoadRequest,
    MemoryShortage,
    SleepReply,
)

BuildEngine = Callable[[EngineSpec], Engine]
GiveUp = Callable[[], None]
SLEEP_LIMIT_S = 60.0


class EngineHost:
    """Builds the engine in the background, so that the socket answers at once, and lends it to one user at a time."""

    def __init__(self, spec: EngineSpec, build: BuildEngine, give_up: GiveUp) -> None:
        self._give_up = give_up
        self._engine: Engine | None = None
        self._failure: HarnessError | None = None
        self._is_built = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._build, args=(spec, build), name="engine", daemon=True).start()

    def _build(self, spec: EngineSpec, build: BuildEngine) -> None:
        try:
            self._engine = build(spec)
        except HarnessError as error:
            self._failure = error
        except Exception as error:  # noqa: BLE001 - an edge: told to whoever asks for the engine
            logger.exception("the engine cannot be built")
            self._failure = EvaluationFailed(f"the engine cannot be built: {type(error).__name__}: {error}")
        finally:
            self._is_built.set()

    @property
    def is_ready(self) -> bool:
        return self._engine is not None

    @contextmanager
    def use(self) -> Iterator[Engine]:
        """The engine, once it is built and nobody else has it."""
        self._is_built.wait()
        with self._lock:
            if self._engine is None:
                raise self._failure or EvaluationFailed("the engine cannot be built")
            yield self._engine

    @contextmanager
    def use_within(self, limit_s: float, what: str) -> Iterator[tuple[Engine, Callable[[], float]]]:
        """As `use`, with the seconds since; gives up on the whole service if the block takes longer than `limit_s`.

        An engine cannot be stopped where it is, and whoever comes next would wait for it.
        """
        with self.use() as engine:
            overrun = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), self._overrun, (what, limit_s))
            overrun.daemon = True
            overrun.start()
            try:
                with _timed(what) as seconds:
                    yield engine, seconds
            except EngineBroken as error:
                logger.error("{}; the service ends, so that a new engine is built", error)
                self._give_up()
                raise
            finally:
                overrun.cancel()

    def _overrun(self, what: str, limit_s: float) -> None:
        logger.error("{} is not done after {:.0f} s: the service ends", what, limit_s)
        self._give_up()


def create_app(spec: EngineSpec, build: BuildEngine = build_engine, give_up: GiveUp = end_process) -> FastAPI:
    """The service's application; importing the engine's libraries starts with this call."""
    host = EngineHost(spec, build, give_up)
    app = FastAPI(title="harness inference", openapi_url=None)

    @app.get("/health", response_model=Health)
    async def health() -> Health:
        return Health(ready=host.is_ready)

    @app.get("/info", response_model=EngineInfo)
    def info() -> EngineInfo:
        with host.use() as engine:
            return engine.info()

    @app.post("/load", response_model=LoadReply)
    def load(request: LoadRequest) -> LoadReply:
        with host.use_within(request.limit_s, f"load {request.path}") as (engine, seconds):
            is_reused = engine.load(Path(request.path))
        return LoadReply(load_seconds=seconds(), is_reused=is_reused)

    @app.post("/sleep", response_model=SleepReply)
    def sleep() -> SleepReply:
        with host.use_within(SLEEP_LIMIT_S, "sleep") as (engine, seconds):
            engine.sleep()
        return SleepReply(sleep_seconds=seconds())

    @app.post("/generate", response_model=GenerateReply)
    def generate(request: GenerateRequest) -> GenerateReply:
        what = f"generate for {len(request.prompts)} prompts"
        with host.use_within(request.limit_s, what) as (engine, seconds):
            completions = engine.generate(request.prompts, request.sampling)
        return GenerateReply(completions=tuple(completions), generate_seconds=seconds())

    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_error)
    app.add_exception_handler(HarnessError, _on_error)
    return app


@contextmanager
def _timed(what: str) -> Iterator[Callable[[], float]]:
    start = time.monotonic()
    yield lambda: time.monotonic() - start
    logger.info("{} took {:.2f} s", what, time.monotonic() - start)


def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    # Without the input: it can quote a prompt.
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": "invalid"}
    where = ".".join(str(part) for part in first["loc"])
    return _reply(400, "bad_request", f"{where}: {first['msg']}")


def _on_error(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, LoadFailed):
        return _reply(422, "load_failed", str(error))
    if isinstance(error, NoGpuMemory):
        shortage = MemoryShortage(free_bytes=error.free_bytes, needed_bytes=error.needed_bytes)
        return _reply(503, "no_memory", str(error), shortage)
    if isinstance(error, UsageError):
        return _reply(400, "bad_request", str(error))
    return _reply(500, "engine", str(error) if isinstance(error, HarnessError) else f"{type(error).__name__}: {error}")


def _reply(status: int, kind: str, detail: str, shortage: MemoryShortage | None = None) -> JSONResponse:
    told = ErrorReply(kind=kind, detail=detail, shortage=shortage)
    return JSONResponse(told.model_dump(), status_code=status)
