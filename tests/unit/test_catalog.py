"""Finding benchmarks and agents: names, digests, and errors that say what to correct."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import catalog
from harness.errors import UsageError
from harness.settings import Settings


def write_benchmark(root: Path, name: str, text: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(text or f"name: {name}\n")
    (folder / "eval.py").write_text("def evaluate(q, a, r):\n    return 0.0\n")
    return folder


def write_agent(root: Path, name: str, text: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(text or f"name: {name}\n")
    (folder / "start.sh").write_text("#!/bin/sh\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path / "root", SMITH_BENCH_DIR=tmp_path / "smith")


@pytest.fixture
def benchmarks(settings: Settings) -> Path:
    return settings.root / "benchmarks"


@pytest.fixture
def agents(settings: Settings) -> Path:
    return settings.root / "agents"


def test_folder_is_found_by_its_name(settings: Settings, benchmarks: Path, agents: Path) -> None:
    write_benchmark(benchmarks, "sums", "name: sums\nmax_tokens: 8\nlimits: {timeout_s: 60}\n")
    write_agent(agents, "idle", "name: Idle Agent\nenv_vars: {ROUNDS: 3}\n")
    benchmark, agent = catalog.find_benchmark(settings, "sums"), catalog.find_agent(settings, "idle")
    assert (benchmark.id, benchmark.config.max_tokens, benchmark.config.limits.timeout_s) == ("sums", 8, 60)
    assert benchmark.path == (benchmarks / "sums").resolve()
    assert (agent.id, agent.config.name, agent.config.env_vars) == ("idle", "Idle Agent", {"ROUNDS": "3"})


def test_only_the_asked_for_folder_is_read(settings: Settings, benchmarks: Path) -> None:
    write_benchmark(benchmarks, "good")
    write_benchmark(benchmarks, "bad", "name: [\n")
    assert catalog.find_benchmark(settings, "good").id == "good"
    with pytest.raises(UsageError, match="bad"):
        catalog.find_benchmark(settings, "bad")


def test_lists_are_in_order_and_leave_templates_out(settings: Settings, benchmarks: Path, agents: Path) -> None:
    for name in ("b", "a"):
        write_benchmark(benchmarks, name)
        write_agent(agents, name)
    write_benchmark(benchmarks, "_template", "name: not parsed: [\n")
    assert [benchmark.id for benchmark in catalog.list_benchmarks(settings)] == ["a", "b"]
    assert [agent.id for agent in catalog.list_agents(settings)] == ["a", "b"]


def test_missing_folders_are_an_empty_catalog(settings: Settings) -> None:
    assert catalog.list_benchmarks(settings) == []
    with pytest.raises(UsageError, match="There is none below"):
        catalog.find_agent(settings, "example")


def test_a_second_folder_of_agents_adds_to_the_checkouts(settings: Settings, agents: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    settings = settings.model_copy(update={"agents_dir": more})
    for root, names in ((agents, ("idle", "shared")), (more, ("busy", "shared"))):
        for name in names:
            write_agent(root, name)
    assert catalog.agent_names(settings) == ["busy", "idle", "shared"]
    assert [agent.id for agent in catalog.list_agents(settings)] == ["busy", "idle", "shared"]
    assert catalog.find_agent(settings, "busy").path == (more / "busy").resolve()
    assert catalog.find_agent(settings, "shared").path == (agents / "shared").resolve()
    with pytest.raises(UsageError, match="unknown agent") as caught:
        catalog.find_agent(settings, "bussy")
    assert "busy" in caught.value.fix


@pytest.mark.parametrize(
    ("asked", "told"),
    [("gsm8", "Did you mean gsm8k?"), ("zzz", "Known: arithmetic, gsm8k, smith-web"), ("../x", "Known"), ("", "Known")],
)
def test_unknown_name_tells_the_nearest(settings: Settings, benchmarks: Path, asked: str, told: str) -> None:
    write_benchmark(benchmarks, "gsm8k")
    write_benchmark(benchmarks, "arithmetic")
    write_benchmark(settings.smith_bench_dir, "web")
    with pytest.raises(UsageError, match="unknown benchmark") as caught:
        catalog.find_benchmark(settings, asked)
    assert told in caught.value.fix


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("name: b\nmax_token: 8\n", "unknown key 'max_token'", "Did you mean max_tokens? Allowed: chat,"),
        ("name: b\nlimits: {timeout: 8}\n", "unknown key 'limits.timeout'", "Did you mean timeout_s?"),
        ("name: b\nfew_shot: [{question: q, reply: r}]\n", "few_shot.0.answer' is missing", "Add it."),
        ("name: b\nmax_tokens: -1\n", "max_tokens: Input should be greater than 0 (it is -1)", "Correct"),
        ("name: b\neval_mode: exact\n", "eval_mode: Input should be 'per_sample', 'opencompass'", "Correct"),
        ("name: b\n  x: [\n", "config.yaml, line 2: not valid YAML", "Correct"),
        ("- a\n", "must be a mapping", "config.yaml"),
        ("", "must be a mapping", "config.yaml"),
        ("description: no name\n", "the key 'name' is missing", "Add it."),
        ("name: other\n", "name is 'other', the folder is 'b'", "same name"),
        ("name: b\nexpose_files: [../secret]\n", "expose_files names '../secret'", "own folder"),
    ],
)
def test_bad_config_says_file_key_and_what_is_allowed(
    settings: Settings, benchmarks: Path, text: str, what: str, fix: str
) -> None:
    folder = write_benchmark(benchmarks, "b")
    (folder / "config.yaml").write_text(text)
    (benchmarks / "secret").write_text("x")
    with pytest.raises(UsageError) as caught:
        catalog.find_benchmark(settings, "b")
    assert str(folder / "config.yaml") in caught.value.what
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_agent_without_its_start_file_is_refused(settings: Settings, agents: Path) -> None:
    write_agent(agents, "a", "name: a\nstart: run.sh\n")
    with pytest.raises(UsageError, match="start names"):
        catalog.find_agent(settings, "a")


def test_an_agent_can_run_in_the_image_of_its_neighbour(settings: Settings, agents: Path) -> None:
    write_agent(agents, "b", "name: b\nimage_of: a\n")
    with pytest.raises(UsageError, match="image_of names 'a', where no Dockerfile is"):
        catalog.find_agent(settings, "b")
    (write_agent(agents, "a") / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\n")
    one, other = catalog.find_agent(settings, "a"), catalog.find_agent(settings, "b")
    assert one.image_folder == other.image_folder == one.path
    assert other.path == (agents / "b").resolve()


@pytest.mark.parametrize("name", ["../a", "/etc", "a/b", ""])
def test_only_a_neighbours_name_can_stand_for_its_image(settings: Settings, agents: Path, name: str) -> None:
    write_agent(agents, "b", f"name: b\nimage_of: {name!r}\n")
    with pytest.raises(UsageError, match="image_of"):
        catalog.find_agent(settings, "b")


def test_digest_covers_names_bytes_and_executability(settings: Settings, benchmarks: Path) -> None:
    folder = write_benchmark(benchmarks, "b")
    (folder / "sub").mkdir()
    (folder / "sub" / "x.txt").write_text("1")
    seen = [catalog.folder_digest(folder)]
    (folder / "sub" / "x.txt").write_text("2")
    seen.append(catalog.folder_digest(folder))
    (folder / "sub" / "x.txt").rename(folder / "sub" / "y.txt")
    seen.append(catalog.folder_digest(folder))
    (folder / "sub" / "y.txt").chmod(0o755)
    seen.append(catalog.folder_digest(folder))
    assert len(set(seen)) == 4
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "eval.cpython-311.pyc").write_bytes(b"x")
    assert catalog.find_benchmark(settings, "b").digest == seen[-1]


def test_link_in_a_folder_is_refused(settings: Settings, benchmarks: Path) -> None:
    folder = write_benchmark(benchmarks, "b")
    (folder / "link").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="link"):
        catalog.find_benchmark(settings, "b")


def test_published_folder_is_found_with_a_prefix_and_its_unknown_keys_ignored(settings: Settings) -> None:
    write_benchmark(settings.smith_bench_dir, "web", "name: web\ntask_type: agentic\nexpose_files:\n")
    found = catalog.find_benchmark(settings, "smith-web")
    assert (found.id, found.config.name) == ("smith-web", "web")
    assert [benchmark.id for benchmark in catalog.list_benchmarks(settings)] == ["smith-web"]


def test_an_unknown_published_folder_tells_where_it_was_looked_for(settings: Settings) -> None:
    with pytest.raises(UsageError) as error:
        catalog.find_benchmark(settings, "smith-web")
    assert str(settings.smith_bench_dir) in error.value.fix


def test_published_folder_goes_by_the_name_in_its_config(settings: Settings) -> None:
    write_benchmark(settings.smith_bench_dir, "folder", "name: shop\n")
    assert catalog.find_benchmark(settings, "smith-shop").path.name == "folder"


def test_published_folder_without_a_name_goes_by_its_folder(settings: Settings) -> None:
    write_benchmark(settings.smith_bench_dir, "plain", "description: x\nversion: 1.0\n")
    assert catalog.find_benchmark(settings, "smith-plain").config.version == "1.0"


def test_broken_folders_stop_no_list_and_say_what_is_wrong(settings: Settings, benchmarks: Path) -> None:
    write_benchmark(benchmarks, "good")
    write_benchmark(benchmarks, "torn", "name: [\n")
    write_benchmark(settings.smith_bench_dir, "old", "name: old\neval_mode: custom_model\n")
    write_benchmark(settings.smith_bench_dir, "torn-too", "name: [\n")
    write_benchmark(settings.smith_bench_dir, "web")
    assert [benchmark.id for benchmark in catalog.list_benchmarks(settings)] == ["good", "smith-web"]
    broken = {folder.id: folder for folder in catalog.broken_benchmarks(settings)}
    assert [*broken] == ["torn", "smith-old", "smith-torn-too"]
    assert "not valid YAML" in broken["torn"].what
    assert "eval_mode" in broken["smith-old"].what
    assert broken["smith-old"].fix
    assert catalog.find_benchmark(settings, "smith-web").id == "smith-web"
    with pytest.raises(UsageError, match="eval_mode"):
        catalog.find_benchmark(settings, "smith-old")


def test_of_two_folders_with_one_name_the_list_tells_the_other(settings: Settings, benchmarks: Path) -> None:
    write_benchmark(benchmarks, "smith-web")
    smith = settings.smith_bench_dir
    for folder, name in (("web", "web"), ("another", "shop"), ("shop", "shop")):
        write_benchmark(smith, folder, f"name: {name}\n")
    listed = {benchmark.id: benchmark.path for benchmark in catalog.list_benchmarks(settings)}
    assert listed == {"smith-web": (benchmarks / "smith-web").resolve(), "smith-shop": (smith / "shop").resolve()}
    assert all(catalog.find_benchmark(settings, name).path == path for name, path in listed.items())
    assert [folder.path.name for folder in catalog.broken_benchmarks(settings)] == ["web", "another"]
    assert "same name" in catalog.broken_benchmarks(settings)[0].what


def test_published_folders_are_looked_for_beside_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SMITH_BENCH_DIR", raising=False)
    write_benchmark(tmp_path / "rl-smith" / "benchmarks", "web")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = Settings(root=tmp_path / "checkout")
    assert [found.id for found in catalog.list_benchmarks(settings)] == []
    (tmp_path / "checkout").mkdir()
    assert [found.id for found in catalog.list_benchmarks(settings)] == ["smith-web"]


def test_any_folder_can_be_read_by_its_path(settings: Settings, tmp_path: Path) -> None:
    assert catalog.benchmark_at(settings, write_benchmark(tmp_path, "mine")).id == "mine"
    published = write_benchmark(settings.smith_bench_dir, "web", "name: web\ntask_type: agentic\n")
    assert catalog.benchmark_at(settings, published).id == "smith-web"
    with pytest.raises(UsageError, match=r"holds no config\.yaml"):
        catalog.benchmark_at(settings, tmp_path)


def aliases(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text", [aliases(30), "[" * 100_000, "name: b\n" + "# x\n" * 200_000, "name: 9" + "9" * 10_000]
)
def test_config_that_would_eat_the_machine_is_refused(settings: Settings, benchmarks: Path, text: str) -> None:
    write_benchmark(benchmarks, "b", text)
    with pytest.raises(UsageError):
        catalog.find_benchmark(settings, "b")


@pytest.mark.parametrize("value", ["!!bool maybe", '!!int ""', "!!timestamp never", "!!float", "!!set [x]"])
def test_bad_value_with_a_tag_stops_no_list(settings: Settings, benchmarks: Path, value: str) -> None:
    write_benchmark(benchmarks, "torn", f"name: torn\nwhat: {value}\n")
    write_benchmark(settings.smith_bench_dir, "torn-too", f"name: torn-too\nversion: {value}\n")
    assert [folder.id for folder in catalog.broken_benchmarks(settings)] == ["torn", "smith-torn-too"]


def test_config_that_is_no_regular_file_is_not_read(settings: Settings, benchmarks: Path) -> None:
    for name in ("pipe", "endless"):
        (benchmarks / name).mkdir(parents=True)
    os.mkfifo(benchmarks / "pipe" / "config.yaml")
    (benchmarks / "endless" / "config.yaml").symlink_to("/dev/zero")
    assert [folder.id for folder in catalog.broken_benchmarks(settings)] == ["endless", "pipe"]
    assert "not a regular file" in catalog.broken_benchmarks(settings)[0].what


def test_published_folder_whose_name_is_none_is_called_as_its_folder(settings: Settings) -> None:
    write_benchmark(settings.smith_bench_dir, "odd", "name: '[red]" + "x" * 5_000 + "'\n")
    assert [folder.id for folder in catalog.broken_benchmarks(settings)] == ["smith-odd"]
