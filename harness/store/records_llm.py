"""LLM calls of a run: written down once each, and added up."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.dialects.sqlite import insert
from sqlmodel import Session

from harness.domain.llm import LlmCall
from harness.store.database import Database, WritableDatabase
from harness.store.models import LlmSpend
from harness.store.selection import require_run
from harness.store.tables import LlmCallRow

_TOTALS = text(f"""
SELECT {", ".join(f"sum({name}) AS {name}" for name in LlmSpend.model_fields if name != "is_price_listed")},
  min(is_price_listed) AS is_price_listed
FROM v_llm_spend WHERE run_id = :run_id""")


def add_llm_calls(db: WritableDatabase, run_id: str, calls: Sequence[LlmCall]) -> None:
    """Keeps the calls of the run (also of a closed one); a number that is there already stays as it is.

    Raises:
        NotFound: no such run.
    """

    def work(session: Session) -> None:
        require_run(session, run_id)
        if calls:
            values = [{**call.model_dump(), "run_id": run_id} for call in calls]
            session.execute(insert(LlmCallRow).on_conflict_do_nothing(), values)

    db.write(work)


def llm_spend_of(db: Database, run_id: str) -> LlmSpend:
    """What a run used of its driver LLM, all models together. Raises NotFound."""

    def work(session: Session) -> LlmSpend:
        require_run(session, run_id)
        found = session.execute(_TOTALS, {"run_id": run_id}).mappings().one()
        return LlmSpend(**{name: value for name, value in found.items() if value is not None})

    return db.read(work)
