"""The README's examples run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_of_the_readme_run_one_after_the_other(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert "lower bound" in capsys.readouterr().out
    assert names["power"].shape == (500, 200)
    chirp, posterior = names["chirp"], names["posterior"]
    truth = chirp.target[chirp.test]
    inside = posterior.mean(chirp.data[chirp.test])
    assert ((inside - truth) ** 2).mean() < 0.25 * (truth**2).mean()  # it fills the gaps better than silence


def test_the_first_example_is_short():
    block = re.search(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert block is not None
    assert len([line for line in block[1].splitlines() if line.strip()]) <= 20
