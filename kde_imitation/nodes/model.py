"""The trained model that three of the nodes share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.base import ImitationNode
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.resources import share_file

__all__ = ['MODEL', 'ModelNode']

MODEL = Parameter(
    'model', 'demo', "File of the trained model; 'demo' is the one that comes with the package."
)


class ModelNode(ImitationNode):
    """A node that uses a trained model.

    Parameters
    ----------
    parameters : mapping, optional
    model : ImitationModel, optional
        Unless given, it is loaded from the file that the parameter `model` names.
    **options
        As for `ImitationNode`.
    """

    PARAMETERS: ClassVar[tuple[Parameter, ...]] = (MODEL,)

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        model: ImitationModel | None = None,
        **options: Any,
    ) -> None:
        super().__init__(parameters, **options)
        self.model = _load(self.value('model')) if model is None else model


def _load(name: str) -> ImitationModel:
    if name != 'demo':
        return ImitationModel.load(Path(name).expanduser())
    files = sorted(share_file('model').glob('*.npz'))
    if not files:
        raise BadInput(f'{share_file("model")} holds no model; install the package again.')
    return ImitationModel.load(files[0])
