"""What agents are told, one text for all: the prompt, the instructions, and what follows an early end."""

from __future__ import annotations

import hashlib
from pathlib import Path
from string import Template

from harness.domain.specs import OPENCOMPASS_VERSION, EvalMode, NetworkPolicy, Protocol, RunPlan
from harness.home import Home, RunFolder
from harness.runner.engines import engine_bytes
from harness.runner.files import write_whole
from harness.runner.plan_words import budget, feedback, hardware, more_rules, network, span
from harness.sandbox.agent import CONTINUE_NAME, PROMPT_NAME, model_path

DESCRIPTION_NAME, INSTRUCTIONS_NAME = "description.md", "instructions.md"
TEXTS = Path(__file__).with_name("texts")
# An agent folder's own words, put behind the prompt that all agents get.
OWN_PROMPT = "prompt.md"


class _Text(Template):
    """A text with places `@{name}`: the texts are full of shell variables."""

    delimiter = "@"


def write_prompts(plan: RunPlan, home: Home) -> None:
    """Puts description, instructions and prompt where the agent finds them."""
    meta = home.run(plan.run_id).meta
    _put(meta / DESCRIPTION_NAME, description(plan))
    _put(meta / INSTRUCTIONS_NAME, instructions(plan, engine_bytes(plan.engine, plan.model, home)))
    _put(meta / PROMPT_NAME, prompt(plan))


def write_continue(folder: RunFolder, plan: RunPlan, left_s: float, best_pct: float | None) -> None:
    """Renews `continue.md` before the agent is taken up again; `best_pct` is the best score that it was shown."""
    _put(folder.meta / CONTINUE_NAME, continuation(plan, left_s, best_pct))


def prompt_sha256(plan: RunPlan) -> str:
    """Hash of `prompt.md`: agents with equal ones were told the same."""
    return hashlib.sha256(prompt(plan).encode()).hexdigest()


def description(plan: RunPlan) -> str:
    """`description.md`: the benchmark's own, and before it what this run's eval_mode makes of it."""
    file, config = plan.benchmark.path / DESCRIPTION_NAME, plan.benchmark.config
    text = file.read_text(encoding="utf-8") if file.is_file() else config.description
    if config.eval_mode is not EvalMode.OPENCOMPASS:
        return text
    return (
        f"**This run is scored with OpenCompass {OPENCOMPASS_VERSION}, config `{config.opencompass_dataset}`.** The "
        "data is as below. Prompt, worked examples, number of new tokens, stop strings and the way an answer is read "
        f"are those of that config, not those below.\n\n{text}"
    )


def prompt(plan: RunPlan) -> str:
    """`prompt.md`: task, goal, budget and way of working, then the agent folder's own words if it has any."""
    is_standard = plan.protocol is Protocol.STANDARD
    text = _filled(
        "prompt.md",
        model=plan.model.repo_id,
        model_path=model_path(plan.model.repo_id),
        benchmark=plan.benchmark.id,
        judged=", and that are not those of the scores which you are shown" if is_standard else "",
        budget=_listed(budget(plan)),
        description=description(plan).strip(),
    )
    own = plan.agent.path / OWN_PROMPT
    return f"{text}\n{own.read_text(encoding='utf-8').strip()}\n" if own.is_file() else text


def continuation(plan: RunPlan, left_s: float, best_pct: float | None) -> str:
    """`continue.md`: what an agent is told that ended with `left_s` of its time left."""
    return _filled(
        "continue.md",
        left=span(left_s),
        best="None of your submissions has a score yet." if best_pct is None else f"Your best score is {best_pct:g}.",
        model=plan.model.repo_id,
        model_path=model_path(plan.model.repo_id),
        benchmark=plan.benchmark.id,
    )


def instructions(plan: RunPlan, engine_bytes: int | None = None) -> str:
    """`instructions.md`: the contract in an agent's words; `engine_bytes` is what scoring needs of each of its GPUs."""
    exposed = [Path(name).name for name in plan.benchmark.config.expose_files]
    return _filled(
        "instructions.md",
        benchmark=plan.benchmark.id,
        model=plan.model.repo_id,
        train_items=str(plan.data.train_items),
        exposed="".join(f"\n| `{name}` | a file of the benchmark |" for name in exposed),
        hardware=hardware(plan, engine_bytes),
        network=network(plan),
        feedback=feedback(plan.protocol),
        budget=_listed(budget(plan)),
        open_data=", or general data from the hosts above" if plan.network is NetworkPolicy.ALLOWLIST else "",
        more_rules="".join(f"- {rule}\n" for rule in more_rules(plan)),
    )


def _filled(name: str, **places: str) -> str:
    return _Text((TEXTS / name).read_text(encoding="utf-8")).substitute(places)


def _listed(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _put(path: Path, text: str) -> None:
    """Also where the umask forbids it, agents can read it."""
    write_whole(path, text)
    path.chmod(0o644)
