"""All nodes in one process: what `kde_imitation demo` runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel
from kde_imitation.nodes.arm_controller_node import ArmControllerNode
from kde_imitation.nodes.arm_sim_node import ArmSimNode
from kde_imitation.nodes.base import ImitationNode, Spinner, start_ros
from kde_imitation.nodes.camera_node import CameraNode
from kde_imitation.nodes.kde_regression_node import KdeRegressionNode
from kde_imitation.nodes.pose_feature_node import PoseFeatureNode
from kde_imitation.nodes.preimage_node import PreimageNode
from kde_imitation.nodes.ros import rclpy

__all__ = ['Stack', 'running_stack']


@dataclass(frozen=True, eq=False)
class Stack:
    """The nodes, from the camera to the arm."""

    camera: CameraNode
    features: PoseFeatureNode
    regression: KdeRegressionNode
    preimage: PreimageNode
    controller: ArmControllerNode
    arm: ArmSimNode
    context: Any

    @property
    def nodes(self) -> tuple[ImitationNode, ...]:
        """All of them, from the camera to the arm."""
        return (
            *(self.camera, self.features, self.regression, self.preimage),
            *(self.controller, self.arm),
        )


@contextmanager
def running_stack(
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    models: tuple[ImitationModel, ImitationModel, ImitationModel] | None = None,
    namespace: str = '',
    domain_id: int | None = None,
    argv: list[str] | None = None,
) -> Iterator[Stack]:
    """Make all nodes, run them until the block ends, then brake the arm and take them down.

    Parameters
    ----------
    parameters : mapping, optional
        Of each node by its name, as `{'camera_node': {'source': '0'}}`. Those under the name '*'
        go to every node that has them, as the model does.
    models : three models, optional
        For the three nodes that use one, each in a thread of its own; loaded unless given.
    namespace : str
    domain_id : int, optional
        Of DDS; that of the environment unless told.
    argv : list of str, optional
        Arguments for ROS, after the program's name.
    """
    given = {name: dict(values) for name, values in (parameters or {}).items()}
    common = given.pop('*', {})
    context = rclpy.Context()
    start_ros(['kde_imitation', *(argv or [])], context, domain_id)
    nodes: list[ImitationNode] = []

    def make(kind: type[ImitationNode], **more: Any) -> Any:
        known = {parameter.name for parameter in kind.PARAMETERS} | {'use_sim_time'}
        values = {name: value for name, value in common.items() if name in known}
        values.update(given.pop(kind.NAME, {}))
        nodes.append(kind(values, context=context, namespace=namespace, **more))
        return nodes[-1]

    spinner = None
    try:
        first, second, third = models or (None, None, None)
        stack = Stack(
            make(CameraNode),
            make(PoseFeatureNode, model=first),
            make(KdeRegressionNode, model=second),
            make(PreimageNode, model=third),
            make(ArmControllerNode),
            make(ArmSimNode),
            context,
        )
        if given:
            raise BadInput(f'There is no node {", ".join(sorted(given))}.')
        spinner = Spinner(nodes, context)
        spinner.start()
        yield stack
        if spinner.error is not None:
            raise spinner.error
    finally:
        if spinner is not None:
            spinner.stop()
        else:
            for node in nodes:
                node.close()
        rclpy.try_shutdown(context=context)
