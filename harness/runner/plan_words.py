"""A plan's budgets, surroundings and rules in words, for the texts that its agent reads."""

from __future__ import annotations

from harness.domain.llm import DriverLlm
from harness.domain.specs import NetworkPolicy, Protocol, RunPlan

GB = 10**9


def budget(plan: RunPlan) -> tuple[str, ...]:
    """What the run may use, a sentence each."""
    limits, is_paper = plan.limits, plan.protocol is Protocol.PAPER
    processors = f", {limits.cpus:g} processor cores" if limits.cpus else ""
    lines = [
        f"Time: {span(limits.timeout_s)} from the start of your process.",
        "Submissions: no quota, but a flood of them is refused."
        if is_paper
        else f"Submissions: {limits.max_submissions} in all, and {limits.max_submissions_per_hour} within an hour.",
        f"Disk: {limits.disk_mb} MB for everything that you write, `/workspace` and `/tmp` together.",
        f"Memory: {limits.memory_mb} MB, of which `/dev/shm` may be {limits.shm_mb} MB{processors}. "
        f"Processes and threads: {limits.pids}.",
    ]
    return (*lines, llm_budget(plan.llm)) if plan.llm else tuple(lines)


def llm_budget(llm: DriverLlm) -> str:
    """What may be used of the driver LLM."""
    usd, tokens, requests = llm.budget.usd, llm.budget.tokens, llm.budget.requests
    parts = [
        f"{usd:g} USD" if usd is not None else "",
        f"{tokens} tokens, read and written" if tokens is not None else "",
        f"{requests} requests" if requests is not None else "",
    ]
    named = "; ".join(part for part in parts if part)
    spent = " When it is spent, the run ends." if named else ""
    return f"LLM (`{llm.model}`): {named or 'no limit, but all of it is counted'}.{spent}"


def feedback(protocol: Protocol) -> str:
    """What the score in a reply is measured on, and which submission the run is judged by."""
    if protocol is Protocol.PAPER:
        return "The score is that of all hidden items; the best one is the run's result."
    return (
        "The score is that of about half of the hidden items, rounded. The submission that is best on them is the "
        "run's result, and its score on the other half is what counts: what only fits the first half gains nothing."
    )


def hardware(plan: RunPlan, engine_bytes: int | None) -> str:
    """What there is to train on, and how it is shared with scoring."""
    n_gpus, n_scoring = len(plan.gpus), plan.engine.tensor_parallel
    if not n_gpus:
        return "There is no GPU. Scoring takes place on the same processors while you work."
    there = "There is one GPU." if n_gpus == 1 else f"There are {n_gpus} GPUs."
    place = "it" if n_gpus == 1 else "the first of them" if n_scoring == 1 else f"the first {n_scoring} of them"
    need = f"about {engine_bytes / GB:.0f} GB of free memory there" if engine_bytes else "free memory there"
    return (
        f"{there} Scoring takes place on {place} too, and needs {need} while a submission or a `/validate` is worked "
        "on: end your own processes that hold it first."
    )


def network(plan: RunPlan) -> str:
    """What can be reached."""
    inside = "the grader and the LLM that drives you" if plan.llm else "the grader"
    if plan.network is NetworkPolicy.NONE:
        return f"There is no network but {inside}: no packages, no model hub."
    hosts = ", ".join(f"`{host}`" for host in plan.allowed_hosts) or "none"
    return (
        f"There is no network but {inside}, and over HTTPS, through the proxy in `HTTPS_PROXY`, these hosts (`*.` "
        f"stands for all names below): {hosts}. Every connection is recorded, and the run is ranked apart from others."
    )


def more_rules(plan: RunPlan) -> tuple[str, ...]:
    """Rules that not every run needs, with how they are checked."""
    rules = []
    if plan.llm:
        rules.append(
            "The LLM is there for this task alone. The key in your environment works in this run only; every call is "
            "recorded with its content and counted. If you have it write training data, say so in `summary.md`."
        )
    if plan.network is NetworkPolicy.ALLOWLIST:
        rules.append(
            "Fetch nothing that holds items of the benchmark's test data, and no model that was trained from the base "
            "model."
        )
    return tuple(rules)


def span(seconds: float) -> str:
    """A time in hours and minutes, or in seconds if it is short: `2 h 30 min`."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(int(seconds) // 60, 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part)
