"""`harness show`: one run with its baseline, every submission, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import render
from harness.cli.grade import show_grading
from harness.cli.network_facts import shown_network
from harness.cli.selection import LATEST, RunArgument

if TYPE_CHECKING:
    from harness.domain.scoring import Score
    from harness.domain.specs import Protocol
    from harness.home import Home
    from harness.report.grading import GradingReport
    from harness.store.models import RunRecord, SubmissionRecord

Facts = dict[str, Any]
# What of the outputs tells a gain of format from one of skill, beside pass@k: name in the record, name for people.
RATES = (("truncation_rate", "truncated outputs"), ("extraction_failure_rate", "no answer found"))


def show(
    run: RunArgument = LATEST,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Show a run: baseline, submissions, best; or a grading."""
    from harness.cli.database import run_id_of
    from harness.settings import load_settings

    home = load_settings().resolved_home()
    run_id = run_id_of(home, run)
    if (graded := _grading_of(home, run_id)) is not None:
        render.print_json(graded) if as_json else show_grading(graded)
        return
    facts = facts_of(home, run_id)
    if as_json:
        render.print_json(facts)
    else:
        show_facts(facts)


def _grading_of(home: Home, run_id: str) -> GradingReport | None:
    """The result of a run that is a grading; None of an agent's."""
    from harness.cli.database import reading
    from harness.report.grading import grading_report
    from harness.store.records_runs import get_run

    with reading(home) as db:
        return grading_report(db, run_id) if get_run(db, run_id).plan.grading else None


def facts_of(home: Home, run_id: str) -> Facts:
    """What is known of one run: scores in percent, improvement in points with its 95 % interval."""
    from harness.cli.database import reading
    from harness.cli.network_facts import connections_in
    from harness.domain.connections import label_of
    from harness.domain.runs import CONTINUATION
    from harness.store.records_evaluations import get_baseline
    from harness.store.records_findings import findings_of
    from harness.store.records_llm import llm_spend_of
    from harness.store.records_queue import submissions_of
    from harness.store.records_runs import get_run, list_events

    with reading(home) as db:
        spend, events = llm_spend_of(db, run_id), list_events(db, run_id)
        record, baseline = get_run(db, run_id), get_baseline(db, run_id)
        submissions, findings = submissions_of(db, run_id), findings_of(db, run_id)
    scores = baseline.scores if baseline else None
    protocol = record.plan.protocol
    folder = home.run(run_id).path
    return {
        "run_id": run_id,
        "agent": record.plan.agent.id,
        "task": record.plan.benchmark.id,
        "base_model": record.plan.model.repo_id,
        "protocol": protocol.value,
        "limit": record.plan.limit,
        "phase": record.phase.value,
        "verdict": record.verdict and record.verdict.value,
        "ended_by": record.ended_by and record.ended_by.value,
        "detail": record.detail or (baseline.detail if baseline else None),
        "started_at": record.started_at,
        "duration_s": record.agent_time_s,
        "continuations": len({event.detail.get("number") for event in events if event.kind == CONTINUATION}),
        "network": record.plan.network.value,
        "label": label_of(record.plan.network),
        "allowed_hosts": record.plan.allowed_hosts,
        "connections": connections_in(events),
        "driver_model": record.plan.driver_model,
        "llm": spend.model_dump() if record.plan.llm or spend.calls else None,
        **_score("baseline", scores.headline(protocol) if scores else None),
        "baseline_feedback_pct": _pct(scores.shown(protocol) if scores else None),
        "baseline_outputs": _outputs(baseline.metrics, protocol) if baseline else {},
        **_headline(record),
        "submissions": [_submission(one, record) for one in submissions],
        "findings": [finding.model_dump(mode="json") for finding in findings],
        "record": str(home.db_link),
        "folder": str(folder) if folder.is_dir() else None,
    }


def _headline(record: RunRecord) -> Facts:
    found = record.headline
    gain = found.improvement if found else None
    return {
        "best_submission": found.submission_number if found else None,
        **_score("final", found.score if found else None),
        "improvement_pct": gain.points if gain else None,
        "improvement_low_pct": gain.low if gain else None,
        "improvement_high_pct": gain.high if gain else None,
        "improvement_method": gain.method if gain else None,
        "improvement_probability": gain.probability if gain else None,
        "improvement_p_value": gain.p_value if gain else None,
        "items_won": gain.n_won if gain else None,
        "items_lost": gain.n_lost if gain else None,
        "items_tied": gain.n_tied if gain else None,
        "is_selected": record.plan.protocol == "paper",
        "final_items": found.score.n_items if found else None,
    }


def _score(name: str, score: Score | None) -> Facts:
    return {
        f"{name}_pct": score.score_pct if score else None,
        f"{name}_stderr_pct": score.stderr_pct if score else None,
        f"{name}_low_pct": score.low_pct if score else None,
        f"{name}_high_pct": score.high_pct if score else None,
        f"{name}_method": score.method if score else None,
    }


def _outputs(metrics: dict[str, dict[str, float]], protocol: Protocol) -> dict[str, float]:
    """Rates, output length and pass@k over the items that the headline is made of."""
    return metrics.get("all" if protocol == "paper" else "final", {})


def _submission(one: SubmissionRecord, record: RunRecord) -> Facts:
    protocol, best = record.plan.protocol, record.headline
    headline = one.scores.headline(protocol) if one.scores else None
    return {
        "submission_id": one.number,
        "state": one.state.value,
        "model_path": one.model_path,
        "submitted_at": one.submitted_at,
        "feedback_pct": _pct(one.scores.shown(protocol) if one.scores else None),
        **_score("final", headline),
        "outputs": _outputs(one.metrics, protocol),
        "is_best": best is not None and best.submission_number == one.number,
        "error_class": one.error_class,
        "detail": one.detail,
        "note": one.note,
    }


def _pct(score: Score | None) -> float | None:
    return score.score_pct if score else None


def show_facts(facts: Facts) -> None:
    """The table of a run, on stdout."""
    rows = [("baseline", "", facts["baseline_feedback_pct"], _with_error(facts, "baseline"), "")]
    rows += [
        (
            f"{one['submission_id']}{' *' if one['is_best'] else ''}",
            one["state"],
            one["feedback_pct"],
            _with_error(one, "final"),
            one["detail"] or one["note"] or one["model_path"],
        )
        for one in facts["submissions"]
    ]
    render.print_table(("submission", "state", "feedback %", "final %", "what"), rows, title=facts["run_id"])
    shown = {name: facts[name] for name in ("agent", "task", "base_model", "protocol", "limit", "verdict", "ended_by")}
    shown = {name.replace("_", " "): value for name, value in shown.items()}
    if facts["verdict"] is None:
        shown["phase"] = facts["phase"]
    if facts["duration_s"] is not None:
        shown["time"] = f"{facts['duration_s']:.0f} s"
    shown["continued"] = f"{facts['continuations']} times" if facts["continuations"] else None
    shown |= shown_network(facts)
    shown["driver LLM"] = _spend(facts)
    shown["detail"] = facts["detail"]
    if facts["verdict"] == "agent_failed":
        shown["its output"] = f"harness logs {facts['run_id']}"
    shown["best"] = _best(facts)
    shown["improvement"] = _improvement(facts)
    shown |= _compared(facts)
    for number, finding in enumerate(facts["findings"], start=1):
        about = f" of submission {finding['submission_number']}" if finding["submission_number"] else ""
        shown[f"finding {number}"] = f"{finding['severity']}: {finding['kind']}{about}: {finding['detail']}"
    shown["record"] = facts["record"]
    shown["folder"] = facts["folder"]
    render.print_facts(shown)


def _with_error(facts: Facts, name: str) -> str:
    value, error = facts[f"{name}_pct"], facts[f"{name}_stderr_pct"]
    return "" if value is None else f"{value:.1f} ± {error:.1f}"


def _spend(facts: Facts) -> str:
    """Calls, tokens and cost of the driver LLM in one line."""
    llm = facts["llm"]
    if llm is None:
        return ""
    failed = f"{llm['failed_calls']:,} of them failed" if llm["failed_calls"] else ""
    refused = f"{llm['refused_calls']:,} more refused" if llm["refused_calls"] else ""
    told = f" ({', '.join(filter(None, (failed, refused)))})" if failed or refused else ""
    tokens = f"{llm['input_tokens']:,} tokens in, {llm['cached_tokens']:,} of them cached, {llm['output_tokens']:,} out"
    estimated = f", {llm['estimated_calls']} calls estimated" if llm["estimated_calls"] else ""
    return f"{facts['driver_model']}: {llm['calls']:,} calls{told}, {tokens}, {cost_words(llm)}{estimated}"


def cost_words(llm: Facts) -> str:
    """What the calls cost; the charge for an unknown price is not shown as a cost."""
    return f"{llm['cost_usd']:,.4f} USD" if llm["is_price_listed"] else "price not listed"


def _best(facts: Facts) -> str:
    if facts["best_submission"] is None:
        return ""
    selected = ", selected: the best of several scores on the same items" if facts["is_selected"] else ""
    interval = ""
    if facts["final_low_pct"] is not None:
        interval = f" (95 % interval {facts['final_low_pct']:.1f} to {facts['final_high_pct']:.1f}{selected})"
    score = f"{_with_error(facts, 'final')} % of {facts['final_items']} items"
    return f"submission {facts['best_submission']}: {score}{interval}"


def _improvement(facts: Facts) -> str:
    if facts["improvement_pct"] is None:
        return ""
    low, high = facts["improvement_low_pct"], facts["improvement_high_pct"]
    sure = facts["improvement_probability"]
    probable = "" if sure is None else f", P(> 0) = {sure:.3f}"
    selected = ", selected" if facts["is_selected"] else ""
    return f"{facts['improvement_pct']:+.1f} points (95 % interval {low:+.1f} to {high:+.1f}{probable}{selected})"


def _compared(facts: Facts) -> Facts:
    """The best submission beside the baseline: items that changed sides, and whether the outputs look alike."""
    best: Facts = next((one["outputs"] for one in facts["submissions"] if one["is_best"]), {})
    base = facts["baseline_outputs"]
    shown: Facts = {}
    if facts["items_won"] is not None:
        shown["items"] = f"{facts['items_won']} won, {facts['items_lost']} lost, {facts['items_tied']} tied"
        if facts["improvement_p_value"] is not None:
            shown["items"] += f" (McNemar's exact test: p = {facts['improvement_p_value']:.2g})"
    for name, label in RATES:
        shown[label] = _both(base, best, name, lambda rate: f"{100 * rate:.1f} %")
    shown["output length"] = _both(base, best, "mean_output_tokens", lambda length: f"{length:.1f} tokens")
    for name in sorted((name for name in best if name.startswith("pass@")), key=lambda name: int(name[5:])):
        shown[name] = _both(base, best, name, lambda rate: f"{100 * rate:.1f} %")
    return shown


def _both(base: Facts, best: Facts, name: str, text: Callable[[float], str]) -> str:
    told = [f"{text(some[name])} ({who})" for some, who in ((base, "baseline"), (best, "best")) if name in some]
    return ", ".join(told)


def register(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command("show", epilog="Examples: harness show latest; harness show 20260101T --json")(show)
