"""What decides an image's tag, and what goes into a build context."""

from __future__ import annotations

import ast
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.domain.specs import OPENCOMPASS_VERSION
from harness.errors import PrerequisiteError
from harness.sandbox import build_context, wheelhouse
from harness.sandbox.build_context import (
    ZONES,
    ContextFile,
    build_tar,
    context_digest,
    folder_files,
    zone_files,
    zones_of,
)
from harness.sandbox.derived_images import agent_image, scorer_image
from harness.sandbox.images import detect_device, expected_tags

ROOT = Path(__file__).resolve().parents[2]
ZONE = {zone.name: zone for zone in ZONES}
PACKAGES = "requirements.txt"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what images are built from, to change."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "images", root / "images")
    shutil.copytree(ROOT / "harness", root / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "wheelhouse").mkdir()
    return root


def changed(root: Path, change: Callable[[], object], device: str = "cpu") -> set[str]:
    """The zones whose tag a change moves."""
    before = expected_tags(root, device)
    change()
    after = expected_tags(root, device)
    return {zone for zone in before if before[zone] != after[zone]}


def append(path: Path, text: str = "\n# changed\n") -> None:
    path.write_text(path.read_text() + text)


def names_in(root: Path, zone: str) -> list[str]:
    return [file.name for file in zone_files(root, ZONE[zone], "cpu")]


def test_tags_name_the_zone_and_twelve_digits() -> None:
    tags = expected_tags(ROOT, "cpu")
    assert list(tags) == ["base", "torch", "agent", "grader", "scorer", "executor", "inference", "gateway"]
    for zone, tag in tags.items():
        repository, digest = tag.split(":")
        assert repository == f"harness-{zone}"
        assert len(digest) == 12


def test_optional_zones_are_told_only_where_they_are_asked_for() -> None:
    tags = expected_tags(ROOT, "cpu", with_optional=True)
    assert tags.keys() - expected_tags(ROOT, "cpu").keys() == {"opencompass"}
    assert tags["opencompass"].startswith("harness-opencompass:")


def test_opencompass_is_a_scorer_with_more_packages(checkout: Path) -> None:
    scorer = {name for name in names_in(checkout, "scorer") if name.startswith("harness/")}
    assert {name for name in names_in(checkout, "opencompass") if name.startswith("harness/")} == scorer
    packages = {
        zone: next(file.content.decode() for file in zone_files(checkout, ZONE[zone], "cpu") if file.name == PACKAGES)
        for zone in ("scorer", "opencompass")
    }
    assert packages["opencompass"].startswith(packages["scorer"])
    # Stored scores are filed under this version.
    assert f"\nopencompass=={OPENCOMPASS_VERSION}\n" in packages["opencompass"]


def test_the_evaluators_code_moves_both_scorers(checkout: Path) -> None:
    before = expected_tags(checkout, "cpu", with_optional=True)
    append(checkout / "harness/scorer/evaluators/__init__.py")
    after = expected_tags(checkout, "cpu", with_optional=True)
    assert {zone for zone in before if before[zone] != after[zone]} == {"scorer", "opencompass"}


def test_same_content_gives_the_same_tags_elsewhere(checkout: Path) -> None:
    assert expected_tags(checkout, "cpu") == expected_tags(ROOT, "cpu")


def test_a_parents_change_moves_its_children(checkout: Path) -> None:
    moved = changed(checkout, lambda: append(checkout / "images/torch/Dockerfile"))
    assert moved == {"torch", "agent", "inference"}


def test_the_base_image_moves_everything(checkout: Path) -> None:
    ours, other = expected_tags(checkout, "cpu"), expected_tags(checkout, "cpu", "debian:bookworm")
    assert all(ours[zone] != other[zone] for zone in ours)


def test_harness_code_moves_only_the_zones_that_import_it(checkout: Path) -> None:
    assert changed(checkout, lambda: append(checkout / "harness/runner/plan.py")) == set()
    assert changed(checkout, lambda: append(checkout / "harness/scorer/evaluators/__init__.py")) == {"scorer"}
    assert changed(checkout, lambda: append(checkout / "harness/errors.py")) == {
        "gateway",
        "grader",
        "scorer",
        "inference",
    }


def test_a_zones_extra_moves_that_zone(checkout: Path) -> None:
    project = checkout / "pyproject.toml"

    def pin_numpy() -> None:
        project.write_text(project.read_text().replace('"numpy>=2,<3"', '"numpy>=2.1,<3"'))

    assert changed(checkout, pin_numpy) == {"grader"}


def test_device_moves_the_torch_layer_alone() -> None:
    cpu, gpu = expected_tags(ROOT, "cpu"), expected_tags(ROOT, "gpu")
    assert {zone for zone in cpu if cpu[zone] != gpu[zone]} == {"torch", "agent", "inference"}


def test_on_a_gpu_the_inference_image_has_vllm_and_its_own_torch(checkout: Path) -> None:
    inference = next(zone for zone in zones_of("gpu") if zone.name == "inference")
    files = {file.name: file.content.decode() for file in zone_files(checkout, inference, "gpu")}
    assert "\nvllm==" in files["requirements.txt"]
    assert "torch-layer" not in files["Dockerfile"]
    moved = changed(checkout, lambda: append(checkout / "images/torch/Dockerfile"), "gpu")
    assert moved == {"torch", "agent"}
    moved = changed(checkout, lambda: append(checkout / "images/inference/requirements-gpu.txt"), "gpu")
    assert moved == {"inference"}


@pytest.mark.parametrize("name", ["gpu.Dockerfile", "requirements-gpu.txt"])
def test_what_is_for_gpus_does_not_move_a_cpu_image(checkout: Path, name: str) -> None:
    assert changed(checkout, lambda: append(checkout / "images/inference" / name)) == set()


def test_wheels_caches_and_links_do_not_matter(checkout: Path) -> None:
    def litter() -> None:
        (checkout / "wheelhouse" / "torch-1.0-py3-none-any.whl").write_bytes(b"wheel")
        cache = checkout / "harness" / "grader" / "__pycache__"
        cache.mkdir()
        (cache / "x.cpython-311.pyc").write_bytes(b"code")

    assert changed(checkout, litter) == set()


def test_digest_does_not_depend_on_the_order_of_files() -> None:
    one, two = ContextFile("a", b"1"), ContextFile("b", b"2")
    assert context_digest([one, two], "parent") == context_digest([two, one], "parent")


def test_digest_sees_names_modes_and_parents() -> None:
    file = ContextFile("a", b"1")
    digests = {
        context_digest([file], "p"),
        context_digest([file], "q"),
        context_digest([ContextFile("b", b"1")], "p"),
        context_digest([ContextFile("a", b"1", is_executable=True)], "p"),
    }
    assert len(digests) == 4


def test_executor_context_has_its_own_package_and_what_that_imports() -> None:
    names = names_in(ROOT, "executor")
    assert {Path(name).parts[1] for name in names if name != "Dockerfile"} == {
        "__init__.py",
        "executor",
        "unix_socket.py",
    }
    # What judges answers, and every package that would have to be installed, is elsewhere.
    assert "harness/executor/client.py" not in names
    assert "requirements.txt" not in names


def test_agent_context_has_nothing_of_the_harness() -> None:
    assert names_in(ROOT, "agent") == ["Dockerfile", "launch.py", "requirements.txt"]


@pytest.mark.parametrize("zone", ["grader", "scorer", "inference"])
def test_service_contexts_hold_only_what_the_zone_may_import(zone: str) -> None:
    unwanted = {"cli", "runner", "sandbox", "report", "gateway", "catalog.py"} | (
        {"grader", "store"} if zone != "grader" else set()
    )
    tops = {Path(name).parts[1] for name in names_in(ROOT, zone) if name.startswith("harness/")}
    assert tops & unwanted == set()
    assert f"harness/{zone}/__main__.py" in names_in(ROOT, zone)


def test_grader_has_only_the_client_halves_of_the_services() -> None:
    names = names_in(ROOT, "grader")
    for service in ("scorer", "inference"):
        own = {name for name in names if name.startswith(f"harness/{service}/")}
        assert own == {f"harness/{service}/{part}.py" for part in ("__init__", "wire", "client")}


def test_imports_in_functions_and_of_modules_by_name_count(checkout: Path) -> None:
    (checkout / "harness" / "late.py").write_text("VALUE = 1\n")
    append(checkout / "harness" / "scorer" / "__main__.py", "\n\ndef later() -> None:\n    from harness import late\n")
    assert "harness/late.py" in names_in(checkout, "scorer")


def test_tar_holds_the_files_and_the_hosts_certificates(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    (certificates / "proxy.crt").write_text("certificate")
    (certificates / "notes.txt").write_text("not a certificate")
    wheel = tmp_path / "thing-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    spool = build_tar([ContextFile("Dockerfile", b"FROM x")], [wheel], certificates)
    with spool, tarfile.open(fileobj=spool) as tar:
        members = {member.name: member for member in tar}
    assert set(members) == {"Dockerfile", "ca", "ca/proxy.crt", "wheelhouse", f"wheelhouse/{wheel.name}"}
    assert {member.uid for member in members.values()} == {0}
    assert members["Dockerfile"].mtime == build_context.FIXED_MTIME


def test_torch_wheels_go_to_the_torch_zone_alone(checkout: Path) -> None:
    pin = wheelhouse.torch_pin(checkout, "cpu")
    torch = checkout / "wheelhouse" / f"torch-{pin}-cp311-cp311-linux_x86_64.whl"
    other = checkout / "wheelhouse" / "trl-1-py3-none-any.whl"
    for path in (torch, other):
        path.write_bytes(b"wheel")
    assert wheelhouse.wheels_for(checkout, has_torch=True) == [torch, other]
    assert wheelhouse.wheels_for(checkout, has_torch=False) == [other]
    assert wheelhouse.has_torch_wheel(checkout, "cpu")
    assert wheelhouse.fill_wheelhouse(checkout, "cpu", lambda _event: None) == ""


def test_cpu_hosts_pin_a_cpu_build_of_torch() -> None:
    assert wheelhouse.torch_pin(ROOT, "cpu").endswith("+cpu")


def test_device_is_what_the_setting_says() -> None:
    assert detect_device("cpu") == "cpu"
    assert detect_device("gpu") == "gpu"


def test_an_agent_without_a_dockerfile_uses_our_image(tmp_path: Path) -> None:
    plan = agent_image(tmp_path, {"agent": "harness-agent:abc"})
    assert (plan.tag, plan.is_derived) == ("harness-agent:abc", False)


def test_an_agents_dockerfile_makes_an_image_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "My_Agent"
    folder.mkdir()
    (folder / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    base = {"base": "harness-base:abc"}
    one = agent_image(folder, base | {"agent": "harness-agent:abc"})
    other_parent = agent_image(folder, base | {"agent": "harness-agent:def"})
    (folder / "prompt.txt").write_text("hello")
    other_file = agent_image(folder, base | {"agent": "harness-agent:abc"})
    assert one.tag.startswith("harness-agent-my-agent:")
    assert one.parent == "harness-agent:abc"
    assert one.base == "harness-base:abc"
    assert len({one.tag, other_parent.tag, other_file.tag}) == 3


def test_a_benchmarks_requirements_make_a_scorer_of_its_own(tmp_path: Path) -> None:
    tags = {"scorer": "harness-scorer:abc"}
    assert scorer_image(ROOT, tmp_path, tags).tag == "harness-scorer:abc"
    (tmp_path / "requirements.txt").write_text("sympy\n")
    plan = scorer_image(ROOT, tmp_path, tags)
    assert plan.is_derived
    assert {file.name for file in plan.files} == {"Dockerfile", "requirements.txt"}


def test_links_of_a_folder_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    assert [file.name for file in folder_files(tmp_path)] == ["real.txt"]


def test_no_checkout_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="HARNESS_ROOT"):
        expected_tags(tmp_path, "cpu")


@pytest.mark.parametrize("path", sorted((ROOT / "images").rglob("*Dockerfile")), ids=lambda path: path.parent.name)
def test_dockerfiles_build_with_either_builder(path: Path) -> None:
    text = path.read_text()
    assert "--mount" not in text
    assert "<<" not in text
    assert not text.startswith("# syntax")
    stages = text.split("\nFROM ")
    assert "COPY ca/" not in stages[-1]
    assert "wheelhouse" not in stages[-1]


def parsed_imports(source: bytes) -> set[str]:
    """What Python's own parser says that a file imports of the harness."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "harness":
            names.update([str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.split(".")[0] == "harness")
    return names


def test_the_pattern_for_imports_misses_none() -> None:
    for path in (ROOT / "harness").rglob("*.py"):
        source = path.read_bytes()
        assert parsed_imports(source) <= build_context._imports(source), path
