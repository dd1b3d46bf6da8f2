"""`harness sql`: a query on the record, read-only."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli import render

# (what it tells, query); each one runs on an empty database (tests/unit/test_docs.py).
EXAMPLES = (
    ("agents compared", "select * from v_leaderboard"),
    (
        "the last runs",
        "select run_id, verdict, final_pct, improvement_pct from v_runs where kind = 'agent'"
        " order by created_at desc limit 10",
    ),
    (
        "submissions of the latest run",
        "select submission_id, state, feedback_pct, final_pct, error_class from v_submissions"
        " where run_id = (select max(run_id) from run where kind = 'agent')",
    ),
    (
        "what driver LLMs used",
        "select agent, model, sum(calls) as calls, sum(input_tokens) as tokens_in, sum(output_tokens) as tokens_out"
        " from v_llm_spend where calls > 0 group by agent, model",
    ),
    ("what needs a look", "select * from v_triage"),
)


def sql(
    query: Annotated[str | None, typer.Argument(help="One SELECT; without it: the views and some queries.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="With a header line.")] = False,
) -> None:
    """Ask the record with SQL (read-only)."""
    from harness.cli.database import reading
    from harness.settings import load_settings
    from harness.store.query import list_views, run_query

    with reading(load_settings().resolved_home()) as db:
        if query is None:
            render.print_table(("view", "columns"), list_views(db))
            render.print_table(("to see", "harness sql ..."), [(what, f'"{text}"') for what, text in EXAMPLES])
            return
        result = run_query(db, query)
    if as_json:
        render.print_json([dict(zip(result.columns, row, strict=True)) for row in result.rows])
    elif as_csv:
        render.print_csv(result.columns, result.rows)
    else:
        render.print_table(result.columns, result.rows)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("sql", epilog='Example: harness sql "select * from v_leaderboard" --csv')(sql)
