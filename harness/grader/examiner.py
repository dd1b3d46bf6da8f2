"""Puts the lineage findings of admitted submissions into the record, in nobody's way.

Nothing of them is told to an agent, and the work is the same whatever they are.
"""

from __future__ import annotations

from loguru import logger

from harness.checkpoint.fingerprint import Fingerprint, fingerprint_of
from harness.checkpoint.known_models import KnownModel, KnownModels
from harness.domain.findings import Finding
from harness.errors import HarnessError
from harness.grader.admission import snapshot_key
from harness.grader.lineage_findings import KIND_PREFIX, Relatives, lineage_findings, not_examined
from harness.grader.registry import ActiveRun
from harness.grader.snapshots import SnapshotStore
from harness.grader.workshop import Workshop
from harness.store.records_findings import add_findings, findings_of
from harness.store.records_queue import submissions_of

# What a broken file, a full disk, or numbers at the edge of what can be added up can raise here.
TROUBLE = (HarnessError, OSError, ValueError, ArithmeticError)


class Examiner:
    """Compares admitted submissions with their base model and its known siblings."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._known = KnownModels(shop.home.lineage)
        self._snapshots = SnapshotStore(shop.home.snapshots)

    def examine(self, run: ActiveRun, number: int, fingerprint: Fingerprint) -> None:
        """Keeps the findings of an admitted submission; what goes wrong is logged, and said in a finding."""
        try:
            found = self._found(run, number, fingerprint)
            add_findings(self._shop.db, run.run_id, found)
        except TROUBLE as error:
            # The submission is queued already, and its score does not depend on this.
            logger.error("the findings of submission {} of {} are lost: {}", number, run.run_id, error)

    def catch_up(self, run: ActiveRun) -> None:
        """Examines what a grader admitted that died before its findings were kept."""
        examined = {f.submission_number for f in findings_of(self._shop.db, run.run_id) if _is_lineage(f)}
        for record in submissions_of(self._shop.db, run.run_id):
            if record.copied_at is None or record.tree_hash is None or record.number in examined:
                continue
            try:
                folder = self._snapshots.path_of(snapshot_key(record.tree_hash, self._shop.base_of(run)))
                fingerprint = fingerprint_of(folder)
            except TROUBLE as error:
                logger.error("snapshot of submission {} of {}: {}", record.number, run.run_id, error)
                continue
            self.examine(run, record.number, fingerprint)

    def _found(self, run: ActiveRun, number: int, fingerprint: Fingerprint) -> tuple[Finding, ...]:
        try:
            return lineage_findings(number, fingerprint, self._relatives_of(run))
        except TROUBLE as error:
            logger.error("lineage of submission {} of {}: {}", number, run.run_id, error)
            return not_examined(number, str(error))

    def _relatives_of(self, run: ActiveRun) -> Relatives:
        """Read once in a run: a sibling that becomes known later is not compared with."""
        if run.relatives is None:
            tree_hash = run.plan.model.tree_hash
            known = self._known.base(tree_hash)
            is_there = known is not None and known.fingerprint.tree_hash == tree_hash
            # A model that was prepared by an older harness has no file yet.
            base = known.fingerprint if known and is_there else fingerprint_of(self._shop.base_of(run).folder)
            run.relatives = Relatives(base, self._fitting(tree_hash, base))
        return run.relatives

    def _fitting(self, tree_hash: str, base: Fingerprint) -> tuple[KnownModel, ...]:
        siblings = self._known.siblings(tree_hash)
        for sibling in siblings:
            sibling.check_against(base)
        return siblings


def _is_lineage(finding: Finding) -> bool:
    return finding.kind.startswith(KIND_PREFIX)
