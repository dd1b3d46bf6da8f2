"""BIG-Bench-Hard's tasks: the digest of each file, what the task is, and the form of its answers.

The task lines are those of the repository's own prompts (`cot-prompts/`). The digests are of the files as they lie in
the repository at `COMMIT`.
"""

from __future__ import annotations

from typing import NamedTuple

COMMIT = "9ee07bd481feebf959a6b59d61ea57bdcf30964d"

DEDUCTION = "A logical deduction task which requires deducing the order of a sequence of objects."
SHUFFLED = (
    "A task requiring determining the final positions of a set of objects given their initial positions and a "
    "description of a sequence of swaps."
)

# Form -> how the answer must look, said to the model after each question.
FORMS = {
    "choice": "Answer with the letter of the right option in brackets, like (A), and nothing else.",
    "yes_no": "Answer with Yes or No, and nothing else.",
    "true_false": "Answer with True or False, and nothing else.",
    "valid_invalid": "Answer with valid or invalid, and nothing else.",
    "number": "Answer with the number in digits, like 7, and nothing else.",
    "brackets": "Answer with the missing closing brackets alone, separated by spaces, like ] ) and nothing else.",
    "words": "Answer with the sorted words alone, separated by spaces, and nothing else.",
}


class Task(NamedTuple):
    """One task file."""

    sha256: str
    form: str
    what: str


TASKS = {
    "boolean_expressions": Task(
        "ea6c754ec005e2d3f2d085d349a740f593b5764f32ea4638ffed4cfc0061b12a",
        "true_false",
        "Evaluate the result of a random Boolean expression.",
    ),
    "causal_judgement": Task(
        "6e8bca44dd402008ed41c07a3d0a1d5e7b03db7001a7e002fcdf4c60985ea081",
        "yes_no",
        "Answer questions about causal attribution.",
    ),
    "date_understanding": Task(
        "0148d4ac5fca05b2f82373e5fef7208e15363b9c6079493034d77b3dab496bf5", "choice", "Infer the date from context."
    ),
    "disambiguation_qa": Task(
        "cf06df9ebf911b883671cb1b35d3fbd1a1c306b19b9e9a012407e596c85fe8c6",
        "choice",
        "Clarify the meaning of sentences with ambiguous pronouns.",
    ),
    "dyck_languages": Task(
        "3f9badedf15c2be1ce53d94fdf016299bb30ba231ef087ab9f51a7ed6d0bdc25", "brackets", "Correctly close a Dyck-n word."
    ),
    "formal_fallacies": Task(
        "4c1adb664821157faade1d4153685403afcc02648f3c180a608a18f17f589629",
        "valid_invalid",
        "Distinguish deductively valid arguments from formal fallacies.",
    ),
    "geometric_shapes": Task(
        "07be68a124420caa2ebc0b2c858ad79fc55c5c8806170e496e1e17ebfb11f31c",
        "choice",
        "Name geometric shapes from their SVG paths.",
    ),
    "hyperbaton": Task(
        "b6d7f55c75f5d02f2987a4f3123802dfa093872089a56a334144aae8a7264fdc",
        "choice",
        "Order adjectives correctly in English sentences.",
    ),
    "logical_deduction_five_objects": Task(
        "d2df31394b903b7f0e085d42a69572a092987856eac076799017d70ef266fa8f", "choice", DEDUCTION
    ),
    "logical_deduction_seven_objects": Task(
        "2896c7e3482eea318dd37bcc370d24ec3cc91e8374c1784287b5dbd38a529e33", "choice", DEDUCTION
    ),
    "logical_deduction_three_objects": Task(
        "e590fae72e3a6041fbd23bd8ff6b74baf44ca563f6ba40a041c55e7b867c1681", "choice", DEDUCTION
    ),
    "movie_recommendation": Task(
        "a8b53a87ee21a865b7248e694f388a9b8f7cf6b839b11d44796a2dd3fc088983",
        "choice",
        "Recommend movies similar to the given list of movies.",
    ),
    "multistep_arithmetic_two": Task(
        "c9d5a6433c9b78256422a15c78463949c8bec8d85607aa28b52d7234ad4a8595",
        "number",
        "Solve multi-step arithmetic problems.",
    ),
    "navigate": Task(
        "b7944dfd3c81da5c4815bd75b00d6fa3c64140823498e78ed496f4c3d36f7f0d",
        "yes_no",
        "Given a series of navigation instructions, determine whether one would end up back at the starting point.",
    ),
    "object_counting": Task(
        "8acef14dbbdd40d2326ef7755750b6b5fe919fef06276af1bab3f1c297f022ff",
        "number",
        "Questions that involve enumerating objects and asking the model to count them.",
    ),
    "penguins_in_a_table": Task(
        "bb87ee449698eee51215e025a453b1bcb2f5e6589c2063b2c79e68b8f0655228",
        "choice",
        "Answer questions about a table of penguins and their attributes.",
    ),
    "reasoning_about_colored_objects": Task(
        "0a8850cf95166020fce7a78244026ceedd7ea839302471512b4f8744e85a6a49",
        "choice",
        "Answer extremely simple questions about the colors of objects on a surface.",
    ),
    "ruin_names": Task(
        "b6f723aef2bafdd4c7bfc3c7e0329c7e8a8279391a609969c8ed76c9319f5f7f",
        "choice",
        "Select the humorous edit that 'ruins' the input movie or musical artist name.",
    ),
    "salient_translation_error_detection": Task(
        "becf3eb8dd53c821a555ecd5c1334ecd93eb25f980e63be963c518e7138de5da",
        "choice",
        "Detect the type of error in an English translation of a German source sentence.",
    ),
    "snarks": Task(
        "54a0661fe2de06167645a4965e6bcf963c4ba307e76262a7c750998b0e3d0d0e",
        "choice",
        "Determine which of two sentences is sarcastic.",
    ),
    "sports_understanding": Task(
        "63ca262858f6176864515cd8cf53cdaa40839ebecc155b726d77930855d167bf",
        "yes_no",
        "Determine whether an artificially constructed sentence relating to sports is plausible or not.",
    ),
    "temporal_sequences": Task(
        "92a1189faaa84aacc4c405aaa13f13f48c2992eb884772eedb622505252baef5",
        "choice",
        "Answer questions about which times certain events could have occurred.",
    ),
    "tracking_shuffled_objects_five_objects": Task(
        "2063a46a4fb484236ed4310523606543a3e1dd4a4dc34eda65d407910ece25a5", "choice", SHUFFLED
    ),
    "tracking_shuffled_objects_seven_objects": Task(
        "b59fd05b850c37cf57cb514ae1e6975c00b1638ade2291722056b2af3c54084d", "choice", SHUFFLED
    ),
    "tracking_shuffled_objects_three_objects": Task(
        "546cc7bf10c6a01a6a4c17ae28a4966485f21f29fd5d111f37858ec78e354f6b", "choice", SHUFFLED
    ),
    "web_of_lies": Task(
        "3e60323f8514a107fdb4edf35f8832a9171c5a09c0eaa47823559de905e8ab8b",
        "yes_no",
        "Evaluate a random boolean function expressed as a word problem.",
    ),
    "word_sorting": Task(
        "2a6132d2c99f00d0d2eb1113ac6b4a918bd969d863c48749210d969713db8d43", "words", "Sort a list of words."
    ),
}
