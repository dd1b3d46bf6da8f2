"""Supervised fine-tuning on the train split's solutions (TRL), before GRPO: who is never right gets no reward."""

from __future__ import annotations

import time
from pathlib import Path

from datasets import Dataset
from task import Task
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

LOG_EVERY = 50


class UntilTime(TrainerCallback):
    """Ends a training when its time is up."""

    def __init__(self, limit_s: float) -> None:
        self.deadline = time.monotonic() + limit_s

    def on_step_end(self, args, state, control, **kwargs):
        if time.monotonic() > self.deadline:
            control.should_training_stop = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"warm-up step {state.global_step} of {state.max_steps}: loss {float(logs['loss']):.3f}", flush=True)


def as_solved(task: Task, with_examples: bool) -> Dataset:
    """Prompts as the grader puts them, with the solutions of the train split; the loss is on the solutions alone."""
    return Dataset.from_dict(
        {
            "prompt": [task.messages(item["question"], with_examples) for item in task.items],
            "completion": [[{"role": "assistant", "content": task.solution(item)}] for item in task.items],
        }
    )


def warm_up(model, tokenizer, task: Task, recipe, limit_s: float, folder: Path, seed: int) -> None:
    """Trains `model` in place, at most `limit_s` seconds."""
    arguments = SFTConfig(
        output_dir=str(folder / ".warm-up"),
        use_cpu=not recipe.on_gpu,
        bf16=recipe.on_gpu,
        fp16=False,
        per_device_train_batch_size=recipe.warm_up_batch,
        num_train_epochs=recipe.warm_up_epochs,
        learning_rate=recipe.warm_up_rate,
        lr_scheduler_type="cosine",
        warmup_steps=20,
        max_length=None,
        gradient_checkpointing=False,
        logging_steps=LOG_EVERY,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=as_solved(task, recipe.with_examples),
        processing_class=tokenizer,
        callbacks=[UntilTime(limit_s)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
