"""Where a folder's code runs when it is checked: in containers, as in a run."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.domain.specs import Benchmark, EvalMode
from harness.errors import PrerequisiteError
from harness.home import Home
from harness.runner.data_sources import Fetch, Fetcher
from harness.runner.host import data_script
from harness.runner.plan import product_tags
from harness.sandbox.data_scripts import run_data_script
from harness.sandbox.derived_images import ensure_image, scorer_image
from harness.sandbox.engine import DockerClient, connect
from harness.sandbox.image_build import Progress
from harness.sandbox.images import missing_images
from harness.sandbox.owner import current_owner
from harness.sandbox.services import Service, executor_service, scorer_service, start_services, stop_services
from harness.scorer.client import ScorerClient
from harness.settings import Settings

CHECK_PREFIX = "check-"
START_S = 60.0
DATA_TIMEOUT_S = 900.0
BENCHMARK_ZONES = ("scorer", "executor")
AGENT_ZONES = ("agent",)


@dataclass(frozen=True)
class DockerWorkshop:
    """A `Workshop` on this machine's Docker. Its containers carry an id of its own: what dies is cleaned up later."""

    settings: Settings
    client: DockerClient
    home: Home
    check_id: str
    show_build: Progress

    @classmethod
    @contextmanager
    def open(
        cls, settings: Settings, show_build: Progress, zones: Sequence[str] = BENCHMARK_ZONES
    ) -> Iterator[DockerWorkshop]:
        """The workshop, with the images of `zones`; nothing of it is left behind.

        Raises:
            PrerequisiteError: no usable Docker, or an image is missing or stale.
        """
        home = settings.resolved_home()
        home.create()
        check_id = CHECK_PREFIX + secrets.token_hex(4)
        client = connect()
        try:
            missing = missing_images(client, {zone: product_tags(settings)[zone] for zone in zones})
            if missing:
                what = f"images are missing or stale: {', '.join(missing)}"
                raise PrerequisiteError(what, f"Build them: `harness images {' '.join(missing)}`.")
            yield cls(settings, client, home, check_id, show_build)
        finally:
            client.close()

    @property
    def scratch(self) -> Path:
        """See `Workshop`; below the home, because containers get it mounted."""
        return self.home.cache

    def why_not(self, benchmark: Benchmark) -> str:
        """See `Workshop`."""
        return ""

    def fetch(self, benchmark: Benchmark) -> Fetcher:
        """See `Workshop`."""

        def run(call: Fetch) -> None:
            script = data_script(call, self.check_id, self._image(benchmark))
            limited = script.model_copy(update={"timeout_s": DATA_TIMEOUT_S})
            run_data_script(self.client, self.home, current_owner(), limited)

        return run

    @contextmanager
    def scorer(self, benchmark: Benchmark) -> Iterator[ScorerClient]:
        """See `Workshop`."""
        try:
            started = start_services(self.client, self.home, self._services(benchmark), START_S)
            yield ScorerClient(started[-1].socket)
        finally:
            stop_services(self.client, self.home, self.check_id)
            shutil.rmtree(self.home.sockets / "runs" / self.check_id, ignore_errors=True)

    def _services(self, benchmark: Benchmark) -> list[Service]:
        """The benchmark's scorer, last, and an executor before it where programs are run."""
        home, owner, image = self.home, current_owner(), self._image(benchmark)
        is_code = benchmark.config.eval_mode is EvalMode.CODE
        scorer = scorer_service(home, self.check_id, owner, image, benchmark.path, has_executor=is_code)
        executor = executor_service(home, self.check_id, owner, product_tags(self.settings)["executor"])
        return [executor, scorer] if is_code else [scorer]

    def _image(self, benchmark: Benchmark) -> str:
        """The scorer image of the benchmark, built if its requirements.txt asks for one of its own."""
        root = self.settings.root.resolve()
        plan = scorer_image(root, benchmark.path, product_tags(self.settings))
        ensure_image(self.client, root, plan, self.show_build)
        return plan.tag
