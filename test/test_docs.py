"""Every Python example in the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = [
    pytest.param(page, block, id=f'{page.name}-{number}')
    for page in [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
    for number, block in enumerate(re.findall(r'```python\n(.*?)```', page.read_text(), re.S))
]


@pytest.mark.parametrize(('page', 'block'), EXAMPLES)
def test_example_runs(page, block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), 'exec'), {})
