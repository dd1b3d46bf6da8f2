"""A warm-up where solutions are there, then GRPO with TRL in stages: train, save, hand in, and be done in time."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import Dataset
from grader import Grader, Refused
from task import Task, load_task, reward
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

TINY_PARAMETERS = 5_000_000
STAGE_S = 1200  # under the standard protocol, 4 submissions an hour are taken
MAX_STAGES = 8
# Below this size a model learns more from the solutions than it forgets.
SMALL_PARAMETERS = 1_000_000_000
WARM_UP_SHARE = 0.5  # of the training time, at most
EXIT_RESERVE_S = 10  # left when it stops waiting for scores, so that it ends by itself and not by the clock


@dataclass(frozen=True)
class Recipe:
    """How to train a model of some size on some device."""

    completions: int  # sampled in each step
    at_once: int  # of these, how many go through the model together
    generations: int  # per prompt
    new_tokens: int
    learning_rate: float
    max_steps: int
    with_examples: bool
    threads: int
    on_gpu: bool = False
    # Of the warm-up; 0: none.
    warm_up_epochs: float = 0.0
    warm_up_rate: float = 1e-4
    warm_up_batch: int = 16


def choose_recipe(parameters: int, on_gpu: bool, task: Task) -> Recipe:
    """A fixed choice by size and device: nothing is searched for."""
    cores = len(os.sched_getaffinity(0))
    limit = task.max_tokens or 512
    if parameters < TINY_PARAMETERS:
        completions = 64 if task.is_marked else int(os.environ.get("TINY_COMPLETIONS", "256"))
        limit = min(limit, 128 if task.is_marked else task.longest_answer() + 2)
        return Recipe(completions, completions, 16, limit, 3e-4, 100, False, threads=1)
    if on_gpu and parameters < SMALL_PARAMETERS:
        epochs = 3.0 if task.is_marked else 0.0
        return Recipe(256, 64, 8, limit, 5e-6, 100_000, True, threads=cores, on_gpu=True, warm_up_epochs=epochs)
    if on_gpu:
        return Recipe(128, 16, 8, limit, 2e-6, 100_000, True, threads=cores, on_gpu=True)
    return Recipe(8, 8, 4, min(limit, 96), 5e-6, 100_000, False, threads=max(1, cores - 1))


class Stages(TrainerCallback):
    """Saves and submits while training goes on, and stops it in time."""

    def __init__(self, grader: Grader, recipe: Recipe, model_path: Path, output: Path) -> None:
        self.grader, self.recipe, self.model_path, self.output = grader, recipe, model_path, output
        self.pending: list[int] = []
        self.started = self.last_step = time.monotonic()
        # The end is kept free for saving and handing in: a submission counts if it was copied before the deadline.
        self.reserve_s = min(600.0, max(20.0, 0.15 * grader.remaining_s()))
        self.train_s = max(1.0, grader.remaining_s() - self.reserve_s)
        self.stages = min(MAX_STAGES, max(2, int(self.train_s / STAGE_S)))
        self.submitted = 0
        self.slowest_step_s = 0.0
        self.watchdog = threading.Timer(self.train_s, self.submit_base_if_nothing_else)
        self.watchdog.daemon = True
        self.watchdog.start()

    def progress(self, step: int) -> float:
        """How much of the training is done, by steps or by time, whichever is further."""
        return max(step / self.recipe.max_steps, (time.monotonic() - self.started) / self.train_s)

    def on_train_begin(self, args, state, control, **kwargs):
        self.last_step = time.monotonic()

    def on_step_end(self, args, state, control, model=None, **kwargs):
        now = time.monotonic()
        self.slowest_step_s = max(self.slowest_step_s, now - self.last_step)
        self.last_step = now
        self.log_scores()
        time_left = self.train_s - (now - self.started)
        if state.global_step >= self.recipe.max_steps or time_left < 1.2 * self.slowest_step_s:
            control.should_training_stop = True
        elif (
            self.submitted + 1 < self.stages and self.progress(state.global_step) >= (self.submitted + 1) / self.stages
        ):
            self.save_and_submit(model, state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "reward" in logs:
            left = self.grader.remaining_s()
            print(f"step {state.global_step}: reward {logs['reward']:.3f}, {left:.0f} s left", flush=True)

    def save_and_submit(self, model, step: int) -> None:
        """A complete checkpoint folder in the base model's dtype, handed in."""
        self.submitted += 1
        folder = self.output / f"v{self.submitted}"
        dtype = base_dtype(self.model_path)
        weights = {name: tensor.detach().to(dtype).cpu() for name, tensor in model.state_dict().items()}
        model.save_pretrained(folder, state_dict=weights)
        copy_companions(self.model_path, folder)
        print(f"step {step}: {folder.name} saved")
        self.submit(folder)

    def submit(self, folder: Path) -> None:
        try:
            submission = self.grader.submit(folder)
        except Refused as refusal:
            print(f"{folder.name} was not taken: {refusal}")
            return
        self.pending.append(submission)
        print(f"{folder.name} is submission {submission}")

    def submit_base_if_nothing_else(self) -> None:
        """For a machine so slow that not even one step ends in time: the base model is better than nothing."""
        if self.submitted == 0:
            print("no checkpoint in time: handing in the base model")
            folder = self.output / "base"
            folder.mkdir(parents=True, exist_ok=True)
            for weights in self.model_path.glob("*.safetensors*"):
                shutil.copyfile(weights, folder / weights.name)
            copy_companions(self.model_path, folder)
            self.submit(folder)

    def log_scores(self, keep_s: float = math.inf) -> None:
        """Prints what is known of the pending submissions, waiting for them until only `keep_s` are left."""
        for submission in list(self.pending):
            try:
                state = self.grader.wait(submission, keep_s)
            except Refused as refusal:
                print(f"submission {submission}: {refusal}")
                continue
            if state["state"] in ("scored", "rejected", "failed"):
                self.pending.remove(submission)
                print(f"submission {submission}: {state['state']}: {state.get('reply')}")


def base_dtype(model_path: Path) -> torch.dtype:
    """The dtype that the base model's weights are stored in."""
    from safetensors import safe_open

    with safe_open(next(model_path.glob("*.safetensors")), framework="pt") as weights:
        return weights.get_tensor(next(iter(weights.keys()))).dtype


def copy_companions(model_path: Path, folder: Path) -> None:
    """Copies what belongs to the model beside its weights: config, tokenizer, chat template."""
    for source in model_path.iterdir():
        if source.is_file() and source.suffix in (".json", ".jinja", ".txt", ".model") and "index" not in source.name:
            shutil.copyfile(source, folder / source.name)


def as_dataset(task: Task, tokenizer, with_examples: bool) -> Dataset:
    """Prompts as the grader puts them, with the answers beside them."""
    chats = [task.messages(item["question"], with_examples) for item in task.items]
    if tokenizer.chat_template is None:
        chats = ["\n\n".join(message["content"] for message in chat) for chat in chats]
    return Dataset.from_dict({"prompt": chats, "answer": [item["answer"] for item in task.items]})


def reward_function(completions, answer, **kwargs) -> list[float]:
    """TRL's view of `task.reward`."""
    texts = [completion if isinstance(completion, str) else completion[0]["content"] for completion in completions]
    return [reward(text, expected) for text, expected in zip(texts, answer, strict=True)]


def training_arguments(recipe: Recipe, output: Path, seed: int) -> GRPOConfig:
    """The recipe in TRL's words."""
    return GRPOConfig(
        output_dir=str(output / ".trainer"),
        use_cpu=not recipe.on_gpu,
        bf16=recipe.on_gpu,
        fp16=False,
        gradient_checkpointing=recipe.on_gpu,
        per_device_train_batch_size=recipe.at_once,
        gradient_accumulation_steps=recipe.completions // recipe.at_once,
        num_generations=recipe.generations,
        max_completion_length=recipe.new_tokens,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        max_steps=recipe.max_steps,
        beta=0.0,
        temperature=1.0,
        logging_steps=10 if recipe.max_steps < 1000 else 1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )


def main() -> None:
    grader = Grader(os.environ["GRADING_SERVER_URL"])
    workspace, model_path = Path(os.environ["WORKSPACE"]), Path(os.environ["MODEL_PATH"])
    output, seed = Path(os.environ["OUTPUT_DIR"]), int(os.environ.get("SEED", "0"))
    task = load_task(workspace, Path(os.environ["DATA_PATH"]))
    on_gpu = torch.cuda.is_available()
    tokenizer = AutoTokenizer.from_pretrained(model_path, padding_side="left")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    parameters = model.num_parameters()
    recipe = choose_recipe(parameters, on_gpu, task)
    torch.set_num_threads(recipe.threads)
    print(f"{len(task.items)} train items, {parameters / 1e6:.1f} M parameters, {recipe}, {grader.remaining_s():.0f} s")
    stages = Stages(grader, recipe, model_path, output)
    if recipe.warm_up_epochs:
        from warm_up import warm_up  # imports TRL's other trainer: seconds that most recipes need not spend

        warm_up(model, tokenizer, task, recipe, WARM_UP_SHARE * stages.train_s, output, seed)
        stages.save_and_submit(model, 0)
    trainer = GRPOTrainer(
        model=model,
        args=training_arguments(recipe, output, seed),
        reward_funcs=reward_function,
        train_dataset=as_dataset(task, tokenizer, recipe.with_examples),
        processing_class=tokenizer,
        callbacks=[stages],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    stages.watchdog.cancel()
    stages.save_and_submit(trainer.accelerator.unwrap_model(trainer.model), trainer.state.global_step)
    stages.log_scores(keep_s=EXIT_RESERVE_S)
    print(f"done with {grader.remaining_s():.0f} s left")


if __name__ == "__main__":
    main()
