"""Hostile agents in real containers: each attempt meets a clear refusal or a recorded limit, and nobody else notices.

Four runs at once: `hostile` tries everything, `flood` uses up every limit it has, `immortal` outlives its deadline, and
`bystander` is an honest neighbour.
What they met comes out of their kept workspaces; what became of it out of the record.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from docker import DockerClient

from tests.e2e.live import Harness, left_of_runs
from tests.e2e.siege import FLOOD_DISK_MB, HOSTILE_TIMEOUT_S, Report, Siege, lay_siege

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200)]

LOG_MB = 50

# Attempt -> status and error class. A set: either will do, which of them depends on the moment.
REFUSED: dict[str, tuple[set[int], set[str]]] = {
    **{
        name: ({400}, {"path_outside_workspace"})
        for name in ("path_absolute", "path_hidden", "path_dotdot", "path_dotdot_inside", "path_proc")
    },
    **{
        name: ({400}, {"bad_request"})
        for name in (
            "path_workspace",
            "path_empty",
            "path_dots",
            "path_nul",
            "path_newline",
            "path_long",
            "path_long_name",
            "path_deep",
            "path_number",
            "path_list",
            "path_null",
            "nothing",
            "no_json",
            "no_utf8",
            "lone_surrogate",
            "nested_deeply",
            "huge_numbers",
        )
    },
    **{
        name: ({400}, {"not_a_regular_file"})
        for name in ("symlink_folder", "symlink_on_the_way", "fifo_folder", "file_as_folder")
    },
    **{
        name: ({422}, {"not_a_regular_file"})
        for name in ("symlink_weights", "symlink_config_to_hidden", "fifo_weights", "fifo_config", "socket_config")
    },
    **{
        name: ({422}, {"forbidden_file"})
        for name in (
            "pickle_only",
            "pickle_beside",
            "python_file",
            "auto_map",
            "auto_map_in_tokenizer",
            "nested_folder",
            "names_that_are_no_text",
        )
    },
    **{name: ({422}, {"no_weights"}) for name in ("adapter_only", "empty_folder", "path_of_train_mount")},
    "path_of_model_mount": ({422}, {"no_weights"}),
    **{name: ({422}, {"non_finite_weights"}) for name in ("nan_weights", "infinite_weights")},
    **{
        name: ({422}, {"bad_safetensors"})
        for name in (
            "truncated_data",
            "truncated_header",
            "truncated_length",
            "lying_length",
            "lying_short_length",
            "overlapping_offsets",
            "offsets_outside",
            "negative_offsets",
            "lying_shape",
            "hole_between_tensors",
            "same_key_twice",
            "tensor_in_two_shards",
            "three_million_tensors",
        )
    },
    **{name: ({422}, {"tensor_mismatch"}) for name in ("lying_dtype", "missing_tensor", "extra_tensor")},
    **{
        name: ({413}, {"too_large"})
        for name in (
            "ten_million_tensors",
            "ten_million_keys_in_config",
            "ten_million_keys_in_tokenizer",
            "sparse_terabyte",
            "sparse_terabyte_of_config",
            "sparse_terabyte_of_one_tensor",
            "many_entries",
        )
    },
    "other_runs_submission": ({404}, {"not_found"}),
    "number_too_large": ({400, 404}, {"bad_request", "not_found"}),
    "unknown_method": ({400}, {"bad_request"}),
}
# Without a JSON reply: the connection is closed, or answered by the HTTP layer.
BROKEN_REQUESTS = ("ten_million_keys", "huge_head", "no_http", "two_lengths")
HARMLESS = ("weights_that_overflow", "unreadable_weights", "lying_index", "forge_scores")
READ_ONLY = ("write_model", "write_train_data", "write_task_files", "write_own_folder")
UNREACHABLE = (
    "reach_gateway",
    "reach_docker0",
    "reach_host",
    "reach_outside",
    "reach_other_run",
    "reach_by_source_route",
)
RACES = (
    "rewritten_in_place",
    "flipped_to_nan",
    "cut_and_grown",
    "replaced_by_rename",
    "swapped_when_opened",
    "folder_swapped_for_link",
    "leased_file",
)
HONEST = tuple(f"honest_{number}" for number in range(1, 6))
OTHERS = (
    "open_hidden_paths",
    "search_hidden_texts",
    "fetch_hidden_urls",
    "change_routes",
    "resolve_names",
    "scan_grader",
    "call_admin_routes",
    "use_other_token",
    "slow_connections",
    "many_requests",
    "forge_time",
    "links_for_the_collector",
    "submissions",
    "end",
)


@pytest.fixture(scope="module")
def siege(harness: Harness, engine: DockerClient) -> Siege:
    return lay_siege(harness, engine)


def test_every_attempt_is_judged_by_a_test(siege: Siege) -> None:
    expected = {*REFUSED, *BROKEN_REQUESTS, *HARMLESS, *READ_ONLY, *UNREACHABLE, *RACES, *HONEST, *OTHERS}
    assert set(siege.hostile.report) == expected
    broken = {name: answer["broken"] for name, answer in siege.hostile.report.items() if "broken" in answer}
    assert broken == {}, "the attack itself broke off"


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_read_only_mount_cannot_be_written(siege: Siege, name: str) -> None:
    met = siege.hostile.report[name]["met"]
    allowed = {how: said for how, said in met.items() if said not in ("EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV")}
    assert allowed == {}


def test_not_a_byte_of_model_train_or_hidden_data_has_changed(siege: Siege) -> None:
    assert siege.bytes_after == siege.bytes_before


def test_hidden_data_is_at_no_path(siege: Siege) -> None:
    met = siege.hostile.report["open_hidden_paths"]["met"]
    assert len(met) > 50
    assert {path: said for path, said in met.items() if said not in ("ENOENT", "EACCES", "ENOTDIR")} == {}


def test_hidden_texts_are_in_no_file_that_can_be_read(siege: Siege) -> None:
    search = siege.hostile.report["search_hidden_texts"]
    assert search["found"] == []
    assert search["looked"] > 20


def test_hidden_texts_are_in_nothing_that_the_agent_was_told(siege: Siege) -> None:
    told = json.dumps(siege.hostile.report)
    for needle in siege.needles:
        assert json.loads(needle)["question"] not in told
        assert needle.decode() not in told


@pytest.mark.parametrize("name", ["fetch_hidden_urls", "call_admin_routes"])
def test_addresses_beside_the_runs_own_are_not_there(siege: Siege, name: str) -> None:
    answers = siege.hostile.report[name]["answers"]
    assert len(answers) > 8
    strange = {
        path: answer
        for path, answer in answers.items()
        if answer["status"] not in (400, 404) or answer["body"]["error_class"] not in ("not_found", "bad_request")
    }
    assert strange == {}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_nothing_but_the_grader_is_reached(siege: Siege, name: str) -> None:
    met = siege.hostile.report[name]["met"]
    assert met
    # A refusal would mean that packets arrive.
    assert {where: said for where, said in met.items() if said in ("CONNECTED", "ECONNREFUSED", "ECONNRESET")} == {}


def test_nobody_called_on_the_host(siege: Siege) -> None:
    assert siege.callers == []


def test_nobody_called_on_the_other_run(siege: Siege) -> None:
    assert siege.bystander.report["asked_by"] == []


def test_routes_and_raw_packets_are_refused(siege: Siege) -> None:
    met = siege.hostile.report["change_routes"]["met"]
    assert met["add_route"] == met["raw"] == "EPERM"
    # By the missing capability, or by the filter of system calls before that.
    assert met["packet"] in ("EPERM", "EAFNOSUPPORT")


def test_names_are_not_resolved(siege: Siege) -> None:
    answer = siege.hostile.report["resolve_names"]
    assert answer["found"] == []
    assert answer["seconds"] < 20


def test_the_grader_has_no_other_door(siege: Siege) -> None:
    assert siege.hostile.report["scan_grader"]["open"] == []


def test_another_runs_token_is_as_good_as_none(siege: Siege) -> None:
    answers = siege.hostile.report["use_other_token"]["answers"]
    assert Counter(answer["status"] for answer in answers.values()) == {404: 8}
    assert len({json.dumps(answer["body"]) for answer in answers.values()}) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_reason(siege: Siege, name: str) -> None:
    answer, (statuses, classes) = siege.hostile.report[name], REFUSED[name]
    assert answer["status"] in statuses, answer
    body = answer["body"]
    assert body["error_class"] in classes, body
    assert body["error"], body
    assert body["detail"], body
    assert_honest(answer)


@pytest.mark.parametrize("name", BROKEN_REQUESTS)
def test_a_broken_request_does_no_harm(siege: Siege, name: str) -> None:
    answer = siege.hostile.report[name]
    assert answer["status"] in (0, 400, 413, 431), answer
    assert_honest(answer)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_taken_for_what_it_is(siege: Siege, name: str) -> None:
    answer = siege.hostile.report[name]
    assert answer["status"] in (200, 422), answer
    assert_honest(answer)


@pytest.mark.parametrize("name", RACES)
def test_what_changes_while_it_is_copied_is_refused_or_scored_as_one_state(siege: Siege, name: str) -> None:
    answer = siege.hostile.report[name]
    for one in answer["answers"].values():
        assert one["status"] in (200, 400, 422), one
        if one["status"] == 200:
            assert one["body"].get("valid") or is_score(one["body"]["score"]), one
        else:
            assert one["body"]["error_class"] in (
                "changed_while_copied",
                "non_finite_weights",
                "bad_safetensors",
                "not_a_regular_file",
                "forbidden_file",
                "bad_request",
            ), one
    assert_honest(answer)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_checkpoint_with_new_bytes_is_scored(siege: Siege, name: str) -> None:
    answer = siege.hostile.report[name]
    assert answer["status"] == 200, answer
    assert is_score(answer["body"]["score"])
    assert answer["health"] == 200


def is_score(value: object) -> bool:
    return isinstance(value, float | int) and math.isfinite(value) and 0 <= value <= 100


def assert_honest(answer: Report) -> None:
    """The grader answered afterwards, and scored the next honest checkpoint."""
    assert answer["health"] == 200
    honest = answer["honest"]
    assert honest["status"] == 200, honest
    assert is_score(honest["body"]["score"]), honest


def test_slow_connections_do_not_take_the_grader_away(siege: Siege) -> None:
    answer = siege.hostile.report["slow_connections"]
    assert answer["after"]["status"] == 200
    assert answer["health"] == 200


def test_too_many_requests_are_told_to_wait(siege: Siege) -> None:
    statuses = siege.hostile.report["many_requests"]["statuses"]
    assert len(statuses) == 40
    assert set(statuses) == {200, 429}


def test_the_clock_is_the_graders(siege: Siege, harness: Harness) -> None:
    answer = siege.hostile.report["forge_time"]
    assert answer["met"]["meta"] in ("EROFS", "EACCES")
    assert answer["met"]["clock"] == "EPERM"
    assert answer["claim"]["status"] == 400
    for name in ("start_time", "timeout_s", "end_time"):
        assert answer["after"][name] == answer["before"][name]
    (row,) = harness.rows(
        "select round((julianday(deadline) - julianday(started_at)) * 86400) as seconds, timeout_s"
        f" from run where run_id = '{siege.hostile.run_id}'"
    )
    assert row["seconds"] == row["timeout_s"] == HOSTILE_TIMEOUT_S


def test_scores_are_the_graders(siege: Siege, harness: Harness) -> None:
    """The record holds what was measured, whatever lay in the workspace and whatever the requests claimed."""
    claim = siege.hostile.report["forge_scores"]["body"]
    assert claim["score"] != 100.0
    assert "ignored: 4 unknown fields" in claim["note"]
    told = [answer["body"]["score"] for name, answer in siege.hostile.report.items() if name in HONEST]
    facts = siege.hostile.facts
    assert facts["verdict"] == "graded"
    assert facts["ended_by"] == "finished"
    assert facts["final_pct"] < 100
    assert {round(score) for score in told} <= set(range(100))
    published = harness.call("export", siege.hostile.run_id, "--out", str(harness.folder / "exported"))
    assert published.returncode == 0, published.stderr
    scores = [json.loads(path.read_text()) for path in (harness.folder / "exported").rglob("scores.json")]
    assert scores
    assert all('"best_score": 100' not in json.dumps(score) for score in scores)


def test_every_refusal_is_in_the_record(siege: Siege, harness: Harness) -> None:
    rows = harness.rows(
        "select model_path, state, error_class, detail from submission"
        f" where run_id = '{siege.hostile.run_id}' and state <> 'scored'"
    )
    recorded = {Path(row["model_path"]).name: row for row in rows}
    for name in ("nan_weights", "sparse_terabyte", "pickle_only", "tensor_in_two_shards", "ten_million_tensors"):
        assert recorded[name]["state"] == "rejected"
        assert recorded[name]["error_class"] in REFUSED[name][1]
        assert recorded[name]["detail"]
    assert {row["state"] for name, row in recorded.items() if name != "weights_that_overflow"} == {"rejected"}


def test_the_collector_follows_nothing(siege: Siege, harness: Harness) -> None:
    kept = list((siege.hostile.folder / "workspace").rglob("*"))
    assert [path for path in kept if path.is_symlink() or not (path.is_file() or path.is_dir())] == []
    assert sum(path.stat().st_size for path in kept) < 50_000_000
    for path in kept:
        if path.is_file():
            content = path.read_bytes()
            assert not any(needle in content for needle in siege.needles), path
    left_out = harness.rows(f"select detail from event where run_id = '{siege.hostile.run_id}' and kind = 'left_out'")
    assert json.loads(left_out[0]["detail"])["files"] > 5


def test_the_grader_never_went_down(siege: Siege) -> None:
    assert siege.grader_after == siege.grader_before
    assert siege.grader_before["oom"] is False


def test_the_graders_log_has_no_mistake_and_no_secret(siege: Siege) -> None:
    lines = [json.loads(line) for line in siege.grader_log.splitlines() if line.startswith("{")]
    assert lines
    assert [line for line in lines if line["level"] in ("ERROR", "CRITICAL") or "traceback" in line] == []
    assert siege.token not in siege.grader_log
    assert not any(needle.decode() in siege.grader_log for needle in siege.needles)


def test_the_neighbour_noticed_nothing(siege: Siege) -> None:
    report = siege.bystander.report
    assert report["failures"] == []
    assert report["polls"] > 50
    assert report["slowest"] < 10
    assert [answer["status"] for answer in report["submissions"]] == [200, 200]
    assert all(is_score(answer["body"]["score"]) for answer in report["submissions"])
    assert (siege.bystander.facts["verdict"], siege.bystander.facts["ended_by"]) == ("graded", "finished")


def test_a_fork_bomb_meets_its_limit(siege: Siege) -> None:
    answer = siege.flood.report["fork_bomb"]
    assert answer["met"] == "EAGAIN"
    assert answer["count"] < 1100
    assert_scored(answer["honest"])
    assert "the process limit was reached" in siege.flood.facts["detail"]


def test_a_memory_hog_is_killed_alone(siege: Siege) -> None:
    answer = siege.flood.report["memory"]
    assert answer["signal"] == 9
    assert_scored(answer["honest"])
    assert "the memory limit was reached" in siege.flood.facts["detail"]


def test_a_flood_of_log_is_capped(siege: Siege) -> None:
    assert siege.flood.report["log"]["written"] == 200_000_000
    assert_scored(siege.flood.report["log"]["honest"])
    log = siege.flood.folder / "agent.log"
    assert LOG_MB * 200_000 < log.stat().st_size < LOG_MB * 1_000_000 + 1000
    with log.open("rb") as file:
        file.seek(-200, 2)
        last = file.read().splitlines()[-1]
    # A busy machine's Docker throws away what is not read in time.
    assert last.startswith((b"[harness] the log reached its limit of 50 MB", b"[harness] the output came faster"))
    assert "the log limit was reached" in siege.flood.facts["detail"]


def test_a_full_disk_is_the_agents_own(siege: Siege) -> None:
    report = siege.flood.report
    assert set(report["disk"]["met"].values()) <= {"ENOSPC", "EDQUOT", "EFBIG"}
    assert len(report["disk"]["met"]) == 2
    assert report["disk"]["written"] <= FLOOD_DISK_MB * 1_000_000
    cut = report["checkpoint_without_room"]
    assert cut["met"] == "ENOSPC"
    assert cut["answer"]["status"] == 422
    assert_scored(cut["honest"])
    assert "the disk limit was reached" in siege.flood.facts["detail"]


def test_without_inodes_a_checkpoint_that_is_there_is_scored(siege: Siege) -> None:
    report = siege.flood.report["files"]
    assert report["met"] == "ENOSPC"
    assert_scored(report["honest"])


def test_the_flood_itself_is_graded(siege: Siege) -> None:
    facts = siege.flood.facts
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "finished")


def test_an_agent_that_stops_its_timer_is_ended_by_the_harness(siege: Siege, harness: Harness) -> None:
    report, facts = siege.immortal.report, siege.immortal.facts
    assert "timeout" in report["stopped"]
    late = [one for one in report["met"] if one["remaining"] <= 0]
    assert len(late) > 3, "it did not outlive its deadline: nothing was shown"
    assert {one["status"] for one in late} == {410}
    assert {one["body"]["error_class"] for one in late} == {"run_ended"}
    assert (facts["verdict"], facts["ended_by"]) == ("graded", "deadline")
    (row,) = harness.rows(
        f"select count(*) as n from submission s join run r using (run_id) where run_id = '{siege.immortal.run_id}'"
        " and s.state = 'scored' and s.copied_at >= r.deadline"
    )
    assert row["n"] == 0


def assert_scored(answer: Report) -> None:
    assert answer["status"] == 200, answer
    assert is_score(answer["body"]["score"]), answer


def test_nothing_of_the_runs_is_left(siege: Siege, engine: DockerClient, harness: Harness) -> None:
    assert left_of_runs(engine, harness.home) == []
    for outcome in (siege.hostile, siege.flood, siege.immortal, siege.bystander):
        names = {path.name for path in outcome.folder.iterdir()}
        assert not names & {"workspace.img", "fs", ".token"}, names
