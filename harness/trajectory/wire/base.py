"""What a request brings to the model, whatever its protocol: words of somebody, or the result of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Speaker = Literal["system", "user", "result"]


@dataclass(frozen=True)
class Said:
    """Words in a request; of a result also which call it answers: its id, and where that is not told, its tool."""

    speaker: Speaker
    words: str
    call_id: str = ""
    tool: str = ""
