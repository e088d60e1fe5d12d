"""The parameters of all nodes as YAML files and as tables of the manual.

`python -m kde_imitation.nodes.reference FOLDER` writes both into a source tree; a test holds that
they are up to date.
"""

from __future__ import annotations

import importlib
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml

from kde_imitation.nodes.base import ImitationNode
from kde_imitation.nodes.main import NODES
from kde_imitation.nodes.parameters import Parameter

__all__ = ['classes', 'config', 'manual', 'table']


def classes() -> dict[str, type[ImitationNode]]:
    """Return the class of each node by the name of its executable."""
    modules = {name: importlib.import_module(f'kde_imitation.nodes.{name}') for name in NODES}
    return {name: getattr(modules[name], NODES[name]) for name in NODES}


def _plain(parameter: Parameter) -> str:
    """Return the default as YAML."""
    value = parameter.default
    plain = list(value) if isinstance(value, tuple) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, default_style=None)
    if isinstance(value, str):
        return repr(value)
    return text.removesuffix('\n').removesuffix('\n...')


def config(name: str, parameters: Sequence[Parameter]) -> str:
    """Return the YAML file of a node, each parameter with its description."""
    lines = [
        f'# Parameters of {name} and their defaults, in any namespace.',
        f'/**/{name}:',
        '  ros__parameters:',
    ]
    for parameter in parameters:
        told = [parameter.description]
        told += [f'Allowed: {parameter.allowed}.'] if parameter.allowed else []
        told += ['May change while the node runs.'] if parameter.live else []
        comment = textwrap.wrap(' '.join(told), 90)
        lines += [f'    # {line}' for line in comment]
        lines += [f'    {parameter.name}: {_plain(parameter)}']
    return '\n'.join(lines) + '\n'


def table(parameters: Sequence[Parameter]) -> str:
    """Return the parameters as a table in Markdown."""
    lines = ['| parameter | type | default | allowed | live | meaning |', '| --- ' * 6 + '|']
    for one in parameters:
        cells = [f'`{one.name}`', one.type, f'`{_plain(one)}`', one.allowed]
        cells += ['yes' if one.live else 'no', one.description]
        lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def manual(page: str) -> str:
    """Return a page of the manual with its tables of parameters renewed."""
    for name, kind in classes().items():
        begin, end = f'<!-- parameters of {name} -->\n', '<!-- end of parameters -->'
        block = re.compile(re.escape(begin) + r'.*?' + re.escape(end), re.DOTALL)
        new = begin + table(kind.PARAMETERS) + end
        page = block.sub(lambda _, new=new: new, page)  # type: ignore[misc]
    return page


def main(folder: Path) -> None:
    """Write the files into a source tree."""
    for name, kind in classes().items():
        (folder / 'config' / f'{name}.yaml').write_text(config(name, kind.PARAMETERS))
    page = folder / 'docs' / 'nodes.md'
    page.write_text(manual(page.read_text()))


if __name__ == '__main__':
    main(Path(sys.argv[1]))
