"""Lineage findings from the figures alone: which checkpoints are named as what, and which are left in peace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy_models import EMBEDDING, MATRICES, NORM, Weights, as_bf16, base_weights, blend, fingerprint, sibling, trained

from harness.checkpoint.fingerprint import Fingerprint, fingerprint_of
from harness.checkpoint.known_models import KnownModel
from harness.domain.findings import Finding
from harness.grader.lineage_findings import Relatives, lineage_findings

ROOT = Path(__file__).resolve().parents[3]
BASE = base_weights()
SIBLING = trained(BASE, seed=1)
N_TENSORS = len(BASE)


class Family:
    """A base model in BF16 and a sibling of it in a folder; submissions are compared with both."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0
        self.base = self.print_of(BASE)
        self.sibling = self.known("instruct", SIBLING)

    def print_of(self, weights: Weights, dtype: str = "BF16") -> Fingerprint:
        self._number += 1
        return fingerprint(self._root / str(self._number), weights, dtype)

    def known(self, name: str, weights: Weights, dtype: str = "BF16") -> KnownModel:
        return sibling(self.base, name, self.print_of(weights, dtype))

    def findings(self, weights: Weights, dtype: str = "BF16", *siblings: KnownModel) -> tuple[Finding, ...]:
        found = lineage_findings(7, self.print_of(weights, dtype), Relatives(self.base, siblings or (self.sibling,)))
        for one in found:
            assert one.submission_number == 7
            assert one.tool_version
            assert len(json.dumps(one.evidence, allow_nan=False)) < 10_000
        return found

    def alone(self, weights: Weights, dtype: str = "BF16") -> Finding:
        (found,) = self.findings(weights, dtype)
        return found


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Family:
    return Family(tmp_path_factory.mktemp("family"))


def kinds(found: tuple[Finding, ...]) -> dict[str, str]:
    return {one.kind.removeprefix("lineage_"): one.severity for one in found}


# Against the base


def test_the_base_itself_is_named(family: Family):
    found = family.alone(BASE)
    assert (found.kind, found.severity) == ("lineage_identical", "info")
    assert found.evidence["changed"] == 0


def test_the_base_in_another_type_is_the_base(family: Family):
    # The base's numbers are BF16 ones, which F32 holds exactly: every hash differs.
    assert family.alone(BASE, "F32").kind == "lineage_identical"


def test_a_wider_base_rounded_is_the_base_and_a_trained_one_is_not(tmp_path: Path):
    wide = {name: value + np.float32(1e-6) for name, value in BASE.items()}
    base = fingerprint(tmp_path / "base", wide, "F32")
    for dtype in ("BF16", "F16"):
        (found,) = lineage_findings(1, fingerprint(tmp_path / dtype, wide, dtype), Relatives(base))
        assert found.kind == "lineage_identical"
    (found,) = lineage_findings(1, fingerprint(tmp_path / "t", trained(wide, 3, 0.02)), Relatives(base))
    assert found.kind == "lineage_replaced"


def test_which_tensors_changed_is_told(family: Family):
    found = family.alone({**BASE, MATRICES[2]: trained(BASE, 4, 0.1)[MATRICES[2]]})
    assert (found.kind, found.severity) == ("lineage_partly_changed", "info")
    assert found.evidence["changed"] == 1
    assert [one["tensor"] for one in found.evidence["most_changed"]] == [MATRICES[2]]
    assert f"1 of {N_TENSORS} tensors" in found.detail


@pytest.mark.parametrize("relative", [1e-4, 0.01, 0.2])
def test_the_size_of_a_change_is_estimated(family: Family, relative: float):
    moved = {name: value * np.float32(1 + relative) for name, value in BASE.items()}
    found = family.findings(moved, "F32")[0]
    assert found.kind == "lineage_replaced"
    assert found.evidence["relative_change"] == pytest.approx(relative, rel=0.05)


def test_without_siblings_it_says_that_none_were_looked_at(family: Family):
    (found,) = lineage_findings(1, family.print_of(trained(BASE, 2)), Relatives(family.base))
    assert "not examined against siblings" in found.detail
    assert found.evidence["siblings"] == []
    assert "not examined" not in family.alone(trained(BASE, 2)).detail
    assert "instruct" in family.alone(trained(BASE, 2)).detail


@pytest.mark.parametrize("relative", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(5))
def test_training_of_its_own_is_left_in_peace(family: Family, relative: float, seed: int):
    assert family.alone(trained(BASE, 100 + seed, relative)).severity == "info"
    assert family.alone(trained(BASE, 100 + seed, relative), "F32").severity == "info"


def test_other_weights_altogether_are_far(family: Family):
    found = family.findings(base_weights(seed=9))
    # All of them but the norm, which is 1 in both.
    assert kinds(found) == {"partly_changed": "info", "far": "warning"}
    assert found[1].evidence["unaligned_matrices"] == len(MATRICES) + 1


def test_permuted_neurons_are_far(family: Family):
    order = np.random.default_rng(0).permutation(96)
    permuted = {name: value[order] if name in MATRICES[:4] else value for name, value in SIBLING.items()}
    assert kinds(family.findings(permuted))["far"] == "warning"


def test_numbers_that_hide_the_rest_are_told(family: Family):
    # Two numbers at the end of the range overflow the sums, so that nothing can be said about their tensor.
    hidden = {name: value.copy() for name, value in SIBLING.items()}
    hidden[EMBEDDING][:, :] = 3e38
    found = {one.kind: one for one in family.findings(hidden, "F32")}
    assert found["lineage_far"].severity == "warning"


# Against a sibling


def test_a_sibling_is_named_as_such(family: Family):
    found = family.findings(SIBLING)
    assert kinds(found) == {"replaced": "info", "sibling_equal": "serious"}
    assert found[1].evidence["sibling"] == "instruct"
    assert found[1].evidence["source"] == "test"
    assert found[1].evidence["tensors"][0]["is_copy"]


@pytest.mark.parametrize("dtype", ["F32", "F16", "F64"])
def test_a_sibling_in_another_type_is_named_too(family: Family, dtype: str):
    stored = {name: as_bf16(value) for name, value in SIBLING.items()}
    assert kinds(family.findings(stored, dtype))["sibling_equal"] == "serious"


def test_a_sibling_that_is_known_in_a_wider_type_is_named(family: Family):
    wide = family.known("wide", SIBLING, "F32")
    assert kinds(family.findings(SIBLING, "BF16", wide))["sibling_equal"] == "serious"


def test_a_part_of_a_sibling_is_named_with_its_tensors(family: Family):
    mixed = {**trained(BASE, 5), MATRICES[3]: SIBLING[MATRICES[3]]}
    found = {one.kind: one for one in family.findings(mixed)}
    assert found["lineage_sibling_tensors"].severity == "serious"
    assert [one["tensor"] for one in found["lineage_sibling_tensors"].evidence["tensors"]] == [MATRICES[3]]
    assert MATRICES[3] in found["lineage_sibling_tensors"].detail


def test_an_equal_norm_is_no_evidence(family: Family):
    mixed = {**trained(BASE, 5), NORM: SIBLING[NORM]}
    assert kinds(family.findings(mixed)) == {"replaced": "info"}


@pytest.mark.parametrize("part", [0.1, 0.2, 0.35])
@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_a_blend_is_a_move_towards_the_sibling(family: Family, part: float, dtype: str):
    found = {one.kind: one for one in family.findings(blend(BASE, SIBLING, part), dtype)}
    moved = found["lineage_sibling_towards"]
    assert moved.severity == "serious"
    assert "blend" in moved.detail
    assert moved.evidence["coefficient"] == pytest.approx(part, rel=0.1)
    assert moved.evidence["matrices_towards"] == len(MATRICES) + 1


def test_a_small_blend_is_seen_where_the_type_can_hold_it(family: Family):
    assert kinds(family.findings(blend(BASE, SIBLING, 0.01), "F32"))["sibling_towards"] == "serious"


@pytest.mark.parametrize("part", [0.6, 0.9, 1.3])
def test_a_blend_that_is_mostly_the_sibling_is_nearer_to_it(family: Family, part: float):
    assert kinds(family.findings(blend(BASE, SIBLING, part)))["sibling_nearer"] == "serious"


@pytest.mark.parametrize("relative", [0.02, 0.05, 0.1])
def test_training_on_from_a_sibling_is_nearer_to_it(family: Family, relative: float):
    found = {one.kind: one for one in family.findings(trained(SIBLING, 6, relative))}
    assert found["lineage_sibling_nearer"].severity == "serious"
    assert found["lineage_sibling_nearer"].evidence["coefficient"] == pytest.approx(1, abs=0.15)


def test_noise_on_a_sibling_does_not_hide_it(family: Family):
    random = np.random.default_rng(0)
    noisy = {
        name: value + 2 * np.std(value - BASE[name]) * random.standard_normal(value.shape, dtype=np.float32)
        for name, value in SIBLING.items()
    }
    assert kinds(family.findings(noisy))["sibling_nearer"] == "serious"


def test_a_small_model_trained_far_in_its_own_direction_is_not_nearer(tmp_path: Path):
    # The sibling hardly moved: the estimate of how far along its way the submission is has a large error.
    base = fingerprint(tmp_path / "base", BASE, "F32")
    near = sibling(base, "near", fingerprint(tmp_path / "near", trained(BASE, 1, 0.001), "F32"))
    for seed in range(10):
        own = fingerprint(tmp_path / str(seed), trained(BASE, 20 + seed, 0.5), "F32")
        assert kinds(lineage_findings(1, own, Relatives(base, (near,)))) == {"replaced": "info"}


def test_one_blended_matrix_is_named(family: Family):
    own = trained(BASE, 7)
    moved = {**own, MATRICES[5]: blend(BASE, SIBLING, 0.5)[MATRICES[5]]}
    found = {one.kind: one for one in family.findings(moved)}
    assert found["lineage_sibling_towards"].severity == "warning"
    assert MATRICES[5] in found["lineage_sibling_towards"].detail


def test_training_that_partly_goes_the_siblings_way_is_a_warning(family: Family):
    # As if trained on the same data: each matrix goes another part of the way.
    own, parts = trained(BASE, 8), np.linspace(0.05, 0.6, N_TENSORS)
    alike = {
        name: value + np.float32(part) * (SIBLING[name] - BASE[name])
        for part, (name, value) in zip(parts, own.items(), strict=True)
    }
    found = {one.kind: one for one in family.findings(alike)}
    assert found["lineage_sibling_towards"].severity == "warning"
    assert found["lineage_sibling_towards"].evidence["unevenness"] > 2


def test_the_same_shrinking_of_weights_is_no_direction(family: Family):
    decayed = {name: value * np.float32(0.98) for name, value in SIBLING.items()}
    shrunk = family.known("decayed", decayed, "F32")
    own = {name: value * np.float32(0.95) for name, value in trained(BASE, 9, 0.01).items()}
    assert kinds(family.findings(own, "F32", shrunk)) == {"replaced": "info"}


def test_the_same_rounding_is_no_direction(tmp_path: Path):
    # Base in F32; sibling and submission hardly moved, and were rounded to BF16 alike.
    wide = {name: value + np.float32(1e-5) for name, value in BASE.items()}
    base = fingerprint(tmp_path / "base", wide, "F32")
    near = sibling(base, "near", fingerprint(tmp_path / "near", trained(wide, 1, 0.003)))
    for relative in (0.0005, 0.003, 0.01):
        own = fingerprint(tmp_path / str(relative), trained(wide, 2, relative))
        assert {one.severity for one in lineage_findings(1, own, Relatives(base, (near,)))} == {"info"}


def test_each_known_sibling_is_compared(family: Family):
    other = family.known("later", trained(BASE, 30))
    found = family.findings(blend(BASE, SIBLING, 0.3), "BF16", other, family.sibling)
    assert "2 known siblings (later, instruct)" in found[0].detail
    assert [one.evidence["sibling"] for one in found[1:]] == ["instruct"]


def test_a_tied_head_changes_nothing(family: Family):
    def with_head(weights: Weights) -> Weights:
        return {**weights, "lm_head.weight": weights[EMBEDDING]}

    assert family.findings(with_head(SIBLING)) == family.findings(SIBLING)
    assert family.alone(with_head(trained(BASE, 3))) == family.alone(trained(BASE, 3))
    tied = family.known("tied", with_head(SIBLING))
    assert kinds(family.findings(SIBLING, "BF16", tied))["sibling_equal"] == "serious"


def test_a_real_fine_tuning_is_left_in_peace_and_its_blend_is_not(tmp_path: Path):
    """The checkpoint of agent `oracle`, trained with this repository's recipe from the benchmark's own base model."""
    base = fingerprint_of(ROOT / "benchmarks/arithmetic/models/tiny-arith")
    own = fingerprint_of(ROOT / "agents/oracle/checkpoints/arithmetic")
    (found,) = lineage_findings(1, own, Relatives(base))
    assert (found.kind, found.severity) == ("lineage_replaced", "info")
    known = sibling(base, "oracle", own)
    assert kinds(lineage_findings(1, own, Relatives(base, (known,))))["sibling_equal"] == "serious"
