"""Mechanisms that must exist only once: suggestions, loading by name, special tokens and text shortening."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from steelyard.errors import ConfigError, VerifierError
from steelyard.import_paths import load_object, load_user_object
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.special_tokens import BOS, EOS, MASK, PAD
from steelyard.suggest import closest, did_you_mean, nearest_or_all
from steelyard.text import bounded, ending, shortened, shown

pytestmark = pytest.mark.unit

SOURCE = Path(__file__).parents[2] / "src" / "steelyard"


@pytest.mark.parametrize(
    ("pattern", "places"),
    [
        (r"difflib", {"suggest.py"}),
        (r"import_module\((?!\")", {"cli.py", "import_paths.py", "verification/transport.py"}),
        (r"\"<(?:pad|bos|eos|mask)>\"|\[UNK\]", {"special_tokens.py"}),
        (r"![rs]:\.\d", {"policies/tokens/chat_template_process.py"}),  # a script that imports nothing from Steelyard
        (r"\] \+ \"(?:…|\.\.\.)\"|\"(?:…|\.\.\.)\" \+", set[str]()),
        (r"finish == \"length\"|finish [!=]= \"stop\"", {"types.py"}),
    ],
)
def test_each_mechanism_exists_in_one_place(pattern: str, places: set[str]) -> None:
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"))
    }
    assert found == places


def test_suggestions() -> None:
    assert closest("Question", ["answer", "question"]) == "question"
    assert closest("scorefunc", ["scoreFunc"]) == "scoreFunc", "in its original spelling"
    assert closest("zzz", ["answer"]) is None
    assert did_you_mean("answr", ["answer"]) == "; did you mean answer?"
    assert did_you_mean("zzz", ["answer"]) == ""
    assert nearest_or_all("answr", ["answer", "b"]) == "did you mean 'answer'?"
    assert nearest_or_all("zzz", ["answer", "b"]) == "there are: answer, b"


def test_long_texts() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
    assert ending("abcdefg", 3) == "…efg"
    assert shown("x" * 200) == "'" + "x" * 78 + "…"
    assert bounded("ab" + "x" * 10 + "yz", 4) == "ab … 10 characters left out … yz"


def test_models_from_scratch_use_the_special_tokens() -> None:
    tokenizer = closed_vocabulary_tokenizer(["a"], masks=True)
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3, 4]) == [PAD, BOS, EOS, MASK, "a"]
    own = (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token, tokenizer.mask_token)
    assert own == (PAD, BOS, EOS, MASK)


def test_only_user_code_is_searched_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the working directory must not replace a domain from an installed package."""
    (tmp_path / "of_this_folder.py").write_text("def f(): return 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "of_this_folder", raising=False)
    with pytest.raises(ConfigError, match=r"domain 'mine': 'of_this_folder:f': no module"):
        load_object("of_this_folder:f", what="domain 'mine':")
    assert load_user_object("of_this_folder:f")() == 1
    with pytest.raises(VerifierError, match="no 'g'; it has f"):
        load_user_object("of_this_folder:g", raises=VerifierError)
