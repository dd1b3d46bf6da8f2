"""What `harness list benchmarks` says of each benchmark folder, the unusable ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.cli import render

if TYPE_CHECKING:
    from harness.catalog import BrokenFolder
    from harness.domain.specs import Benchmark, DataRef
    from harness.home import Home
    from harness.settings import Settings

Row = dict[str, Any]
# Of the default protocol's hash: enough to tell two apart, or to find it in the record.
SHOWN_HASH = 12
SHOWN_ERROR = 80
COLUMNS = (
    *("id", "mode", "modes", "default_model", "version", "hidden_items", "final_items", "is_prepared"),
    *("max_submissions", "max_submissions_per_hour", "task_protocol", "detectable_points", "description", "error"),
)


def benchmark_rows(settings: Settings) -> list[Row]:
    """One row per folder: what of it can be run, how sure its scores can be, or why it cannot be used."""
    from harness.catalog import broken_benchmarks, list_benchmarks

    home = settings.resolved_home()
    usable = [_row(found, home) for found in list_benchmarks(settings)]
    return usable + [_broken(folder) for folder in broken_benchmarks(settings)]


def print_benchmarks(rows: list[Row]) -> None:
    """The rows as a table, without what is for machines."""
    shown = [
        {
            "id": row["id"],
            "modes": ", ".join(row["modes"]),
            "default model": row["default_model"],
            "version": row["version"],
            "hidden": row["hidden_items"],
            "final": row["final_items"],
            "quota": _quota(row),
            "detectable": row["detectable_points"],
            "task protocol": (row["task_protocol"] or "")[:SHOWN_HASH],
            "description": row["description"] if row["error"] is None else f"unusable: {_short(row['error'])}",
        }
        for row in rows
    ]
    render.print_table(tuple(shown[0]), [tuple(row.values()) for row in shown])


def _short(error: str) -> str:
    """What fits a line of the table; the whole is told on stderr and with `--json`."""
    line = error.splitlines()[0]
    return line if len(line) <= SHOWN_ERROR else line[:SHOWN_ERROR] + "..."


def _quota(row: Row) -> str:
    return f"{row['max_submissions']}, {row['max_submissions_per_hour']}/h" if row["error"] is None else ""


def _row(benchmark: Benchmark, home: Home) -> Row:
    from harness.domain.items import feedback_size
    from harness.domain.specs import Protocol, task_protocol
    from harness.runner.data import prepared_data
    from harness.runner.eval_modes import eval_modes
    from harness.statistics.power import detectable_points

    data, config = prepared_data(benchmark, home), benchmark.config
    hidden = _hidden_items(benchmark, data)
    final = hidden - feedback_size(hidden) if hidden is not None else None
    return {
        "id": benchmark.id,
        "mode": config.eval_mode.value,
        "modes": [mode.value for mode in eval_modes(benchmark)],
        "default_model": config.default_model,
        "version": config.version,
        "hidden_items": hidden,
        "final_items": final,
        "is_prepared": data is not None,
        "max_submissions": config.limits.max_submissions,
        "max_submissions_per_hour": config.limits.max_submissions_per_hour,
        "task_protocol": task_protocol(benchmark, data.eval_hash, Protocol.STANDARD) if data else None,
        "detectable_points": detectable_points(final) if final is not None else None,
        "description": config.description,
        "error": None,
    }


def _hidden_items(benchmark: Benchmark, data: DataRef | None) -> int | None:
    return data.eval_items if data else benchmark.config.hidden_items


def _broken(folder: BrokenFolder) -> Row:
    """The same columns, with nothing in them but what is wrong."""
    told = {"id": folder.id, "modes": [], "is_prepared": False}
    return {**dict.fromkeys(COLUMNS), **told, "error": render.without_escapes(f"{folder.what}. {folder.fix}")}
