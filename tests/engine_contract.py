"""What every engine must do, said through its service: one suite, run on a process here and on the image in Docker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from tiny_model import END, MAX_POSITIONS

from harness.domain.prompts import Message, Prompt
from harness.domain.sampling import RepetitionGuard
from harness.errors import EvaluationFailed, LoadFailed
from harness.inference.client import InferenceClient
from harness.inference.wire import Completion, GenerateRequest, LoadRequest, Sampling

BROKEN = {
    "bad_missing": "norm.weight is missing",
    "bad_unknown": "extra",
    "bad_shape": "shape",
    "bad_nan": "not finite",
    "bad_head": "lm_head.weight",
    "bad_twice": "norm.weight is in .*00001-of-00002.safetensors and in .*00002-of-00002.safetensors",
    "bad_empty": "no .*safetensors",
    "bad_truncated": "Safetensor",
    "bad_garbage": "Safetensor",
}
# Of different lengths, more than one batch of them, some equal.
TEXTS = (
    "1+1=",
    "hello there",
    "",
    "a",
    "What is 5 times 7?",
    "1+1=",
    "日本 é ü \U0001f600",
    "x" * 60,
    "ab",
    "\n\n",
    "ba",
)
PROMPTS = (
    *(Prompt(text=text) for text in TEXTS),
    Prompt(messages=(Message(role="user", content="2+2?"),)),
    Prompt(messages=(Message(role="system", content="Be brief."), Message(role="user", content="2+2?"))),
)


@dataclass(frozen=True)
class ServedModels:
    """A running service and the folder of tiny models as the service sees it."""

    client: InferenceClient
    models: str
    restart: Callable[[], None]
    # vLLM on a GPU: its sleep mode takes one engine for each process, so another set-up needs another process.
    has_one_setup: bool = False

    def load_setup(self, name: str) -> bool:
        """As `load`, of a model of another set-up than the one that is loaded."""
        if self.has_one_setup:
            self.restart()
        return self.load(name)

    def load(self, name: str) -> bool:
        return self.client.load(LoadRequest(path=f"{self.models}/{name}")).is_reused

    def answers(self, prompts: Sequence[Prompt] = PROMPTS, **sampling: object) -> list[Completion]:
        values = Sampling.model_validate({"max_tokens": 16, **sampling})
        return list(self.client.generate(GenerateRequest(prompts=tuple(prompts), sampling=values)).completions)


class EngineContract:
    """Subclasses give a `service` fixture with an empty engine whose batch size is 4."""

    @pytest.fixture(autouse=True)
    def _start_from_base(self, service: ServedModels) -> None:
        service.load("base")

    def test_info_says_what_the_engine_is(self, service: ServedModels) -> None:
        info = service.client.info()
        assert info.spec.batch_size == 4
        assert {"torch", "transformers"} <= info.versions.keys()
        assert info.device_name

    def test_equal_requests_have_equal_answers(self, service: ServedModels) -> None:
        first = service.answers()
        assert [service.answers() for _ in range(2)] == [first, first]
        assert len({answer.text for answer in first}) > 5

    def test_equal_weights_have_equal_answers_after_a_reload(self, service: ServedModels) -> None:
        first = service.answers()
        assert not service.load("other")
        other = service.answers()
        assert not service.load("base")
        assert service.answers() == first != other

    @pytest.mark.parametrize("name", ["same", "sharded", "with_head"])
    def test_only_tensors_decide(self, service: ServedModels, name: str) -> None:
        first = service.answers()
        assert not service.load(name)
        assert service.answers() == first

    def test_equal_weights_have_equal_answers_after_a_restart(self, service: ServedModels) -> None:
        service.load("other")
        service.load("base")
        first = service.answers()
        service.restart()
        service.load("base")
        assert service.answers() == first

    def test_equal_weights_have_equal_answers_over_sleep_reload_and_restart(self, service: ServedModels) -> None:
        first = service.answers()
        service.client.sleep()
        service.load("base")
        slept = service.answers()
        service.client.sleep()
        service.load("other")
        other = service.answers()
        service.load("base")
        assert [slept, service.answers()] == [first, first]
        service.restart()
        service.load("other")
        assert service.answers() == other

    def test_what_sleeps_answers_nothing_before_the_next_load(self, service: ServedModels) -> None:
        service.client.sleep()
        service.client.sleep()
        with pytest.raises(EvaluationFailed, match="no weights are loaded"):
            service.answers()
        service.load("base")
        assert service.answers()

    def test_a_broken_checkpoint_wakes_nothing(self, service: ServedModels) -> None:
        first = service.answers()
        service.client.sleep()
        with pytest.raises(LoadFailed):
            service.load("bad_nan")
        service.client.sleep()
        service.load("base")
        assert service.answers() == first

    def test_what_was_asked_before_does_not_matter(self, service: ServedModels) -> None:
        first = service.answers()
        service.answers(PROMPTS[:3], max_tokens=40, temperature=1.0)
        assert service.answers() == first

    def test_loading_what_is_loaded_is_free(self, service: ServedModels) -> None:
        assert service.load("base")

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_order_of_prompts_does_not_matter(self, service: ServedModels, temperature: float) -> None:
        unique = list(dict.fromkeys(PROMPTS))
        forward = service.answers(unique, temperature=temperature)
        assert service.answers(unique[::-1], temperature=temperature)[::-1] == forward

    def test_sampling_is_seeded(self, service: ServedModels) -> None:
        drawn = service.answers(temperature=1.0, seed=1)
        assert service.answers(temperature=1.0, seed=1) == drawn
        assert service.answers(temperature=1.0, seed=2) != drawn
        # Equal prompts are draws of their own.
        assert len({answer.text for answer in service.answers([PROMPTS[0]] * 8, temperature=1.0)}) > 1

    def test_equal_prompts_have_equal_greedy_answers(self, service: ServedModels) -> None:
        assert len({answer.text for answer in service.answers([PROMPTS[0]] * 4)}) == 1

    def test_the_token_cap_truncates(self, service: ServedModels) -> None:
        answers = service.answers(max_tokens=3)
        assert all(answer.output_tokens <= 3 for answer in answers)
        assert {answer.output_tokens for answer in answers if answer.is_truncated} == {3}

    def test_a_longer_cap_continues_the_same_answer(self, service: ServedModels) -> None:
        pairs = zip(service.answers(max_tokens=3), service.answers(max_tokens=12), strict=True)
        assert all(long.text.startswith(short.text) for short, long in pairs)

    def test_a_stop_string_ends_the_answer_and_is_cut_off(self, service: ServedModels) -> None:
        whole = service.answers()
        longest = max(whole, key=lambda answer: len(answer.text))
        stop = longest.text[3:5]
        for stopped, free in zip(service.answers(stop=(stop, "never said")), whole, strict=True):
            assert stopped.text == free.text.split(stop)[0]
            assert stopped.is_truncated == (free.is_truncated and stop not in free.text)
            assert stopped.output_tokens <= free.output_tokens

    def test_an_answer_that_repeats_itself_is_ended(self, service: ServedModels) -> None:
        guard = RepetitionGuard(max_pattern=4, min_count=3)
        whole = service.answers(max_tokens=40)
        guarded = service.answers(max_tokens=40, repetition_guard=guard)
        n_caught = 0
        for free, ended in zip(whole, guarded, strict=True):
            characters = list(free.text.encode("latin-1", errors="replace"))
            caught = next((k for k in range(1, len(characters) + 1) if guard.is_caught(characters[:k])), None)
            # Special tokens are no part of a text: one token is one character only without them.
            if free.output_tokens - len(free.text) > (not free.is_truncated):
                continue
            n_caught += caught is not None
            assert ended.text == free.text[:caught]
            assert ended.is_truncated == (free.is_truncated or caught is not None)
        assert n_caught > 1

    def test_the_end_token_is_not_part_of_the_answer(self, service: ServedModels) -> None:
        assert not any(END in answer.text for answer in service.answers(max_tokens=30))
        assert any(not answer.is_truncated for answer in service.answers(max_tokens=30))

    def test_a_chat_goes_through_the_models_template(self, service: ServedModels) -> None:
        chat = Prompt(messages=(Message(role="user", content="2+2?"),))
        written = Prompt(text="<|begin|>user:2+2?\n<|begin|>assistant:")
        first, second = service.answers([chat]), service.answers([written])
        assert first == second

    def test_an_empty_prompt_is_answered(self, service: ServedModels) -> None:
        (answer,) = service.answers([Prompt(text="")])
        assert (answer.prompt_tokens, bool(answer.output_tokens)) == (1, True)

    def test_no_prompts_have_no_answers(self, service: ServedModels) -> None:
        assert service.answers([]) == []

    def test_the_context_limit_caps_an_answer(self, service: ServedModels) -> None:
        room = 5
        (answer,) = service.answers([Prompt(text="x" * (MAX_POSITIONS - room))], max_tokens=16)
        assert answer.output_tokens <= room

    @pytest.mark.parametrize("excess", [0, 1, 5_000])
    def test_an_over_long_prompt_has_an_empty_truncated_answer(self, service: ServedModels, excess: int) -> None:
        answers = service.answers([Prompt(text="x" * (MAX_POSITIONS + excess)), PROMPTS[0]])
        assert (answers[0].text, answers[0].output_tokens, answers[0].is_truncated) == ("", 0, True)
        assert answers[1].output_tokens > 0

    def test_a_prompt_is_either_a_text_or_a_chat(self, service: ServedModels) -> None:
        for prompt in (Prompt(), Prompt(text="a", messages=(Message(role="user", content="a"),))):
            with pytest.raises(EvaluationFailed, match="bad_request"):
                service.answers([prompt])

    @pytest.mark.parametrize("name", BROKEN)
    def test_a_broken_checkpoint_is_refused_and_the_service_lives_on(self, service: ServedModels, name: str) -> None:
        first = service.answers()
        with pytest.raises(LoadFailed, match=BROKEN[name]):
            service.load(name)
        # Half-loaded weights answer nothing.
        with pytest.raises(EvaluationFailed, match="no weights are loaded"):
            service.answers()
        service.load("base")
        assert service.answers() == first

    def test_a_folder_that_is_not_there_is_not_the_checkpoints_fault(self, service: ServedModels) -> None:
        with pytest.raises(EvaluationFailed, match="bad_request"):
            service.load("absent")

    def test_an_untied_model_of_another_setup_is_served(self, service: ServedModels) -> None:
        first = service.answers()
        assert not service.load_setup("untied")
        assert service.answers() != first
        service.load_setup("base")
        assert service.answers() == first

    def test_a_model_that_is_stored_under_other_names_is_served(self, service: ServedModels) -> None:
        service.load_setup("experts")
        first = service.answers()
        assert not service.load("other_experts")
        assert service.answers() != first
        assert not service.load("experts")
        assert service.answers() == first
        service.load_setup("base")
