"""The README's examples run as they stand."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_of_the_readme_run_one_after_the_other(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    # One small start instead of five: what they find is tested elsewhere, this is whether it runs as it stands.
    quick = "hx.HarmonizableGPRegressor(n_restarts=1, n_components=5, n_frequencies=2, inference='map', "
    assert "hx.HarmonizableGPRegressor(random_state" in blocks[0]
    names: dict = {}
    for block in blocks:
        block = block.replace("hx.HarmonizableGPRegressor(", quick)
        exec(compile(block, str(README), "exec"), names)
        if block.count("model.components_"):
            assert names["mean"].shape == names["deviation"].shape == (500,)
            assert set(names["power"].data_vars) == {"mean", "lower", "upper"}
            assert "frequencies" in capsys.readouterr().out
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
