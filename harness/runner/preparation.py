"""What `harness prepare` has to tell: base model and data in the store, their sizes, and what was there before."""

from __future__ import annotations

from dataclasses import dataclass

from harness.domain.base import Frozen
from harness.domain.specs import DataRef, ModelRef
from harness.home import Home
from harness.runner.resources import folder_size


class Preparation(Frozen):
    """Both are verified: by hash when they were stored now, by reading them again where they were there before."""

    model: ModelRef
    data: DataRef
    is_model_new: bool
    is_data_new: bool
    train_bytes: int
    eval_bytes: int
    seconds: float


@dataclass(frozen=True)
class Stored:
    """The names in the store at one moment: of models, and of a benchmark's data as (benchmark, key)."""

    models: frozenset[str]
    data: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, home: Home) -> Stored:
        """What is there now."""
        models = frozenset(path.name for path in home.models.iterdir())
        data = frozenset((path.parent.name, path.name) for path in home.train.glob("*/*"))
        return cls(models, data)

    def has_model(self, model: ModelRef) -> bool:
        return model.path.name in self.models

    def has_data(self, data: DataRef) -> bool:
        return (data.train_path.parent.name, data.train_path.name) in self.data

    def compared(self, model: ModelRef, data: DataRef, home: Home, seconds: float) -> Preparation:
        """What there is now, against this."""
        return Preparation(
            model=model,
            data=data,
            is_model_new=not self.has_model(model),
            is_data_new=not self.has_data(data),
            train_bytes=folder_size(home.path / data.train_path),
            eval_bytes=folder_size(home.path / data.eval_path),
            seconds=seconds,
        )
