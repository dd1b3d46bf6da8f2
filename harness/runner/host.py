"""This machine as a place for runs: Docker, home, images, grader, and the proof that the sandbox holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pydantic import SecretStr

from harness.domain.llm import ModelList
from harness.domain.specs import RunPlan
from harness.errors import GraderUnavailable, InfrastructureError, PrerequisiteError
from harness.home import Home
from harness.runner.data_sources import Fetch
from harness.runner.grader_client import GraderClient
from harness.runner.keys import read_key
from harness.runner.objects import RunObjects
from harness.runner.plan import OPENCOMPASS_ZONE, RunDraft, product_tags
from harness.runner.where import LlmSource, Where
from harness.sandbox.compose import GraderSpec, compose_up, grader_container, grader_user, start_again
from harness.sandbox.containers import ZONE_GATEWAY
from harness.sandbox.data_scripts import DataScript, run_data_script
from harness.sandbox.derived_images import ImagePlan, agent_image, ensure_image, scorer_image
from harness.sandbox.disk import choose_mode
from harness.sandbox.doctor import ProbedImages, require_isolation
from harness.sandbox.engine import DockerClient, EngineInfo, connect, engine_info, log_tail
from harness.sandbox.gateway_probe import ask_provider
from harness.sandbox.gateway_service import GatewaySpec, UpstreamSpec
from harness.sandbox.image_build import Progress
from harness.sandbox.images import has_image, missing_images
from harness.sandbox.owner import current_owner
from harness.settings import Settings

GRADER_START_S = 60.0
NEEDED_ZONES = ("agent", "grader", "scorer", "executor", "inference", "gateway")


@dataclass(frozen=True)
class Host:
    """One machine and one home on it; `show_build` gets what happens while an image of an agent is built."""

    settings: Settings
    home: Home
    client: DockerClient
    engine: EngineInfo
    show_build: Progress

    @classmethod
    @contextmanager
    def open(cls, settings: Settings, show_build: Progress) -> Iterator[Host]:
        """The machine, with a home whose folders exist.

        Raises:
            PrerequisiteError: no usable Docker here.
        """
        home = settings.resolved_home()
        home.create()
        client = connect()
        try:
            yield cls(settings, home, client, engine_info(client), show_build)
        finally:
            client.close()

    def require_product_images(self, draft: RunDraft) -> None:
        """The images of ours that a run needs are here; nothing is built.

        Raises:
            PrerequisiteError: one is missing.
        """
        ours = product_tags(self.settings)
        needed = {zone: ours[zone] for zone in NEEDED_ZONES if zone in draft.images}
        missing = missing_images(self.client, needed)
        if missing:
            raise PrerequisiteError(f"images are missing or stale: {', '.join(missing)}", "Build them: `make images`.")
        if draft.images["scorer"] == ours[OPENCOMPASS_ZONE] and not has_image(self.client, ours[OPENCOMPASS_ZONE]):
            raise PrerequisiteError(
                "eval_mode opencompass needs an image of its own, which is missing or stale",
                f"Build it, about 1.1 GB and some minutes: `harness images {OPENCOMPASS_ZONE}`.",
            )

    def require_images(self, draft: RunDraft) -> None:
        """The images of a run are here; those of an agent's or a benchmark's own folder are built.

        Raises:
            PrerequisiteError: one of ours is missing.
        """
        root = self.settings.root.resolve()
        ours = product_tags(self.settings)
        self.require_product_images(draft)
        derived = [scorer_image(root, draft.benchmark.path, ours)]
        if "agent" in draft.images:
            derived.append(agent_image(draft.agent.image_folder, ours))
        for plan in derived:
            ensure_image(self.client, root, plan, self.show_build)

    def require_grader(self, image: str, grader: GraderClient) -> None:
        """A grader of this image answers; one is started, or renewed while no run needs the one that is there.

        Raises:
            PrerequisiteError: no Compose client, or the grader in use is another version.
            GraderUnavailable: it does not come up.
        """
        found = grader_container(self.client, self.home)
        is_current = found is not None and found.is_running and found.image == image
        if not is_current:
            if found is not None and found.is_running and found.image != image:
                self._refuse_if_busy(grader)
            spec = GraderSpec(
                home_path=self.home.path, image=image, user=grader_user(), log_level=self.settings.log_level
            )
            compose_up(self.client, self.settings.root.resolve(), spec)
        deadline = time.monotonic() + GRADER_START_S
        while True:
            try:
                grader.stats()
                return
            except GraderUnavailable as error:
                if time.monotonic() > deadline:
                    raise GraderUnavailable(f"{error.what}; its last words:\n{self._last_words()}") from error
            time.sleep(0.1)

    def revive_grader(self) -> None:
        """Starts a grader that somebody has killed: Docker itself does not then. One that was taken down stays down."""
        with suppress(InfrastructureError):
            start_again(self.client, self.home)

    def _last_words(self) -> str:
        found = grader_container(self.client, self.home)
        return log_tail(self.client, found.container_id, 10) if found else "(no container)"

    def _refuse_if_busy(self, grader: GraderClient) -> None:
        """A grader of another version may be at work for runs: only one that says it has none is replaced."""
        try:
            active = grader.stats_soon().active_runs
        except GraderUnavailable as error:
            raise PrerequisiteError(
                f"the grader is another version and does not answer ({error.what})",
                "If no run needs it: `harness down`, then try again.",
            ) from error
        if active:
            raise PrerequisiteError(
                f"the grader is another version and in use by {', '.join(active)}",
                "Wait for those runs or stop them (`harness stop`), then try again.",
            )

    def require_isolation(self, plan: RunPlan) -> None:
        """The sandbox was proven tight here, now or since the last change.

        Raises:
            IsolationError: a probe failed; names which.
        """
        # Also of a run that has none: the report then serves all runs.
        gateway = plan.images.get(ZONE_GATEWAY, product_tags(self.settings)[ZONE_GATEWAY])
        images = ProbedImages(agent=plan.images["agent"], gateway=gateway if has_image(self.client, gateway) else None)
        require_isolation(self.client, self.home, self.settings, images)

    def run_data_script(self, draft: RunDraft, call: Fetch) -> None:
        """One call of a benchmark's data script in a container with the packages of its requirements.txt."""
        script = data_script(call, draft.run_id, self._data_image(call).tag)
        run_data_script(self.client, self.home, current_owner(), script)

    def _data_image(self, call: Fetch) -> ImagePlan:
        root, ours = self.settings.root.resolve(), product_tags(self.settings)
        if missing := missing_images(self.client, {"scorer": ours["scorer"]}):
            raise PrerequisiteError(
                f"the image that runs {call.script} of {call.benchmark.id} is missing or stale: {', '.join(missing)}",
                "Build it: `harness images scorer`.",
            )
        image = scorer_image(root, call.benchmark.path, ours)
        ensure_image(self.client, root, image, self.show_build)
        return image

    def find_key(self, source: str) -> SecretStr:
        """The key of an LLM's provider at `source` (`DriverLlm.key_from`), now.

        Raises:
            PrerequisiteError: it is not there.
        """
        return read_key(source, self.settings)

    def ask_driver(self, draft: RunDraft) -> ModelList:
        """What the server of the run's driver LLM says, asked from where its gateway will be.

        Raises:
            PrerequisiteError: there is no key for it.
            InfrastructureError: it could not be asked.
        """
        assert draft.llm is not None
        upstream = UpstreamSpec(provider=draft.llm.provider, url=draft.llm.url, key=self.find_key(draft.llm.key_from))
        spec = GatewaySpec(
            run_id=draft.run_id, owner=current_owner(), image=draft.images[ZONE_GATEWAY], upstream=upstream
        )
        return ask_provider(self.client, self.home, spec, draft.llm.names)

    def objects(self, plan: RunPlan, token: str) -> RunObjects:
        """The objects of one run on this machine."""
        where = Where(
            client=self.client,
            home=self.home,
            network_range=self.settings.network_range,
            quota_mode=choose_mode(self.settings),
            engine=self.engine,
            llm_source=LlmSource(self.find_key, self.settings.llm_prices),
            runtime=self.settings.runtime,
            has_private_hosts=self.settings.private_hosts,
        )
        return RunObjects(plan, token, where)


def data_script(call: Fetch, run_id: str, image: str) -> DataScript:
    """`call` for a data container of `image`; it has a network only where the user named no folder with the data."""
    return DataScript(
        run_id=run_id,
        image=image,
        benchmark=call.benchmark.path,
        script=call.script,
        function=call.function,
        target=call.target,
        data_dir=call.data_dir,
        has_network=call.data_dir is None,
    )
