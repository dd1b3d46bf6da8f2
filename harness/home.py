"""The folder that holds everything the harness keeps: one layout, the same on the host and in the grader."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

PRIVATE_MODE = 0o700
SOCKET_DIR_MODE = 0o711
# A doctor's stage lies among the runs, as long as it is at work; it is no run.
DOCTOR_PREFIX = "doctor-"


@dataclass(frozen=True)
class RunFolder:
    """`runs/<run_id>/`: everything of one run."""

    path: Path

    @property
    def image(self) -> Path:
        """The file behind the size-limited file system (loop mode)."""
        return self.path / "workspace.img"

    @property
    def filesystem(self) -> Path:
        """Where every path that the agent can write lives: `workspace/` and `tmp/`."""
        return self.path / "fs"

    @property
    def workspace(self) -> Path:
        return self.filesystem / "workspace"

    @property
    def tmp(self) -> Path:
        return self.filesystem / "tmp"

    @property
    def meta(self) -> Path:
        """Read-only in the agent container: run_meta.json, description.md, instructions.md, exposed files."""
        return self.path / "meta"

    @property
    def agent_log(self) -> Path:
        return self.path / "agent.log"

    @property
    def collected(self) -> Path:
        """What is kept of the workspace after the run."""
        return self.path / "workspace"

    @property
    def token(self) -> Path:
        """The run's capability token, mode 0600, removed when the run ends."""
        return self.path / ".token"

    @property
    def llm_token(self) -> Path:
        """The run's token for the LLM gateway, mode 0600, removed when the run ends."""
        return self.path / ".llm_token"

    @property
    def llm(self) -> Path:
        """State of the run's gateway: calls, exchanges, connections through its proxy."""
        return self.path / "llm"

    @property
    def llm_calls(self) -> Path:
        """What the gateway wrote of this run: its calls, and the exchanges with the provider."""
        return self.llm / "runs" / self.path.name

    @property
    def trajectory(self) -> Path:
        """What the agent's own programs logged of its work."""
        return self.path / "trajectory"

    @property
    def native_logs(self) -> Path:
        """Those logs as they were, under their paths below the workspace."""
        return self.trajectory / "native"


@dataclass(frozen=True)
class Home:
    """Paths below `$HARNESS_HOME`."""

    path: Path

    @property
    def label(self) -> str:
        """Value of the `harness.home` label on Docker objects: tells this home's objects from another's."""
        return hashlib.sha256(str(self.path).encode()).hexdigest()[:12]

    @property
    def db_dir(self) -> Path:
        return self.path / "db"

    @property
    def db(self) -> Path:
        """The database file itself; `harness.db` in the home is a link to it."""
        return self.db_dir / "harness.db"

    @property
    def db_link(self) -> Path:
        return self.path / "harness.db"

    @property
    def models(self) -> Path:
        return self.path / "models"

    @property
    def train(self) -> Path:
        return self.path / "train"

    @property
    def eval(self) -> Path:
        """Hidden items: mounted in the grader alone, mode 0700."""
        return self.path / "eval"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def lineage(self) -> Path:
        """Fingerprints of base models and of their known siblings; the host writes them, the grader reads them."""
        return self.path / "lineage"

    @property
    def keys(self) -> Path:
        """Keys of LLM providers, one file each, called as the provider is; the user writes them."""
        return self.path / "keys"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def sockets(self) -> Path:
        return self.path / "sock"

    @property
    def admin_dir(self) -> Path:
        return self.sockets / "admin"

    @property
    def admin_socket(self) -> Path:
        """HTTP admin routes of the grader."""
        return self.admin_dir / "admin.sock"

    @property
    def descriptor_socket(self) -> Path:
        """Where the harness hands open directory descriptors to the grader (SCM_RIGHTS)."""
        return self.admin_dir / "fd.sock"

    def run(self, run_id: str) -> RunFolder:
        return RunFolder(self.runs / run_id)

    def run_ids(self) -> list[str]:
        """The runs that have a folder here."""
        folders = self.runs.iterdir() if self.runs.is_dir() else ()
        return sorted(path.name for path in folders if path.is_dir() and not path.name.startswith(DOCTOR_PREFIX))

    def inference_dir(self, run_id: str) -> Path:
        """Directory of the inference service's `s.sock`; mounted in that service and the grader only."""
        return self.sockets / "runs" / run_id / "inference"

    def scorer_dir(self, run_id: str) -> Path:
        """Directory of the scorer's `s.sock`; mounted in that service and the grader only."""
        return self.sockets / "runs" / run_id / "scorer"

    def gateway_dir(self, run_id: str) -> Path:
        """Directory of the gateway's admin socket `s.sock`; mounted in that service only."""
        return self.sockets / "runs" / run_id / "gateway"

    def gateway_config_dir(self, run_id: str) -> Path:
        """Configuration and key of a run's gateway, as long as it runs; mounted in that service only."""
        return self.sockets / "runs" / run_id / "gateway-config"

    def executor_dir(self, run_id: str) -> Path:
        """Directory of the executor's `s.sock`; mounted in that service and the scorer only."""
        return self.sockets / "runs" / run_id / "executor"

    def create(self) -> None:
        """Makes the folders with the modes that the trust zones need; idempotent."""
        for folder in (self.models, self.train, self.snapshots, self.lineage, self.cache, self.db_dir):
            folder.mkdir(parents=True, exist_ok=True)
        # Containers get what is theirs by a mount of its own: nobody else on the host needs to see these.
        for folder in (self.runs, self.eval, self.keys, self.sockets, self.sockets / "runs", self.admin_dir):
            folder.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
            folder.chmod(PRIVATE_MODE)
        if not self.db_link.is_symlink() and not self.db_link.exists():
            self.db_link.symlink_to(self.db.relative_to(self.path))
