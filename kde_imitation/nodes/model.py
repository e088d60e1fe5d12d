"""The trained model that three of the nodes share."""

from __future__ import annotations

from pathlib import Path

from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.base import ImitationNode
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.resources import share_file

__all__ = ['MODEL', 'model_of']

MODEL = Parameter(
    'model', 'demo', "File of the trained model; 'demo' is the one that comes with the package."
)


def model_of(node: ImitationNode) -> ImitationModel:
    """Return the model that the parameter of a node names."""
    name = node.value('model')
    if name != 'demo':
        return ImitationModel.load(Path(name).expanduser())
    files = sorted(share_file('model').glob('*.npz'))
    if not files:
        raise BadInput(f'{share_file("model")} holds no model; install the package again.')
    return ImitationModel.load(files[0])
