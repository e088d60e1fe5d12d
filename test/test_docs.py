"""Every Python example in the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    page: re.findall(r'```python\n(.*?)```', page.read_text(encoding='utf-8'), re.S)
    for page in [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
}


@pytest.mark.parametrize(
    'page', [p for p, blocks in PAGES.items() if blocks], ids=lambda p: p.name
)
def test_examples_of_a_page_run_one_after_the_other(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in PAGES[page]:
        exec(compile(block, str(page), 'exec'), names)
