"""The teach-in: the arm shows postures, a person copies them, each pair is stored."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.control import Answer, SelfCollisionGuard
from kde_imitation.dataset import Recorder
from kde_imitation.errors import BadInput
from kde_imitation.nodes.arm import ARM_PARAMETERS, Arm
from kde_imitation.nodes.base import LATCHED, RELIABLE, ImitationNode, Newest
from kde_imitation.nodes.diagnostics import ERROR, OK, WARN
from kde_imitation.nodes.messages import read_joint_state, read_picture, trajectory_message
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import Header, Image, JointState, JointTrajectory, String, Trigger
from kde_imitation.teaching import (
    Router,
    Session,
    Stage,
    TeachSettings,
    Workspace,
    as_skin_source,
    read_postures,
    spread,
)
from kde_imitation.teaching.settings import beside

__all__ = ['TeachNode']

# Goals are told so often, seconds, because a controller holds when it hears nothing.
_PERIOD = 0.1
# Time of each straight part of joint_path, for those who take it as a trajectory with times.
_DURATION = 3.0


class TeachNode(ImitationNode):
    """Leads a person through a teach-in; all decisions are those of `teaching.Session`.

    At the end it trains a model, in a process of its own, as `kde_imitation train` does.
    """

    NAME = 'teach_node'
    PARAMETERS = (
        Parameter(
            'output', 'demonstrations', 'Folder of the data set; one that is there is continued.'
        ),
        Parameter(
            'postures',
            'spread',
            "Which postures: 'spread' over the workspace, 'guided' by hand, or a table with "
            'columns q1, q2, … in radians.',
        ),
        Parameter('count', 50, 'How many postures.', 1, 1000),
        Parameter(
            'lower',
            (0.0,),
            'Lower ends of the workspace, one a joint; one value alone takes what a person can '
            'copy of the PA-10.',
            *(-10.0, 10.0, 'rad'),
        ),
        Parameter(
            'upper', (0.0,), 'Upper ends of the workspace, likewise.', *(-10.0, 10.0, 'rad')
        ),
        Parameter(
            'clearance',
            0.1,
            'How far the arm stays from the plane that it is mounted on; 0 for one that may reach '
            'behind its base.',
            *(0.0, 10.0, 'm'),
        ),
        Parameter(
            'countdown',
            0.0,
            'A pair is stored so long after the arm is at rest; 0 waits for ~/capture.',
            *(0.0, 600.0, 's'),
        ),
        Parameter('leave_time', 5.0, 'Time to leave the picture.', 0.0, 600.0, 's'),
        Parameter(
            'background_frames', 15, 'The background is the median of so many pictures.', 1, 1000
        ),
        Parameter(
            'skin',
            'face',
            "Where the colour of skin is taken from: 'face', 'none', or a rectangle in pixels as "
            "'left,top,width,height'.",
        ),
        Parameter('train_at_end', True, 'Whether a model is trained at the end.'),
        Parameter(
            'model_output',
            '',
            "File for the trained model; empty for the output's name with .npz.",
        ),
        Parameter('elbow', '', 'Joint at the end of the upper arm of another arm, for training.'),
        Parameter('wrist', '', 'Joint at the end of the forearm of another arm, for training.'),
        *ARM_PARAMETERS,
    )

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(parameters, **options)
        arm = Arm.of(self)
        self.names, self._urdf = arm.names, arm.urdf
        self._router = self._make_router(arm)
        postures = self._postures(arm)
        self._training: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._outcome = ''
        self._lock = threading.RLock()
        recorder = Recorder(Path(self.value('output')).expanduser(), len(self.names))
        self._recorder: Recorder | None = recorder
        for repair in recorder.repairs:
            self.get_logger().warning(repair)
        try:
            self.session = Session(
                recorder, postures, self._settings(), wanted=self.value('count')
            )
        except BaseException:
            recorder.close()
            raise
        self._posture: Floats | None = None
        self._told = ''
        self._status = self.create_publisher(String, '~/status', LATCHED)
        self._goals = self.create_publisher(JointTrajectory, 'joint_path', RELIABLE)
        self.create_subscription(
            JointState, 'joint_states', self.guarded(self._on_joint_state), RELIABLE
        )
        Newest(self, Image, 'image_raw', self._on_picture)
        for name, act in self._actions().items():
            self.create_service(Trigger, f'~/{name}', self._service(act))
        self.create_timer(_PERIOD, self.guarded(self._step))

    # --- parameters ---

    def agree(self, values: Mapping[str, Any]) -> None:
        """Refuse what could only fail at the end."""
        as_skin_source(values['skin'])
        if values['urdf'] and values['train_at_end'] and not (values['elbow'] and values['wrist']):
            raise BadInput(
                'Training for another arm needs elbow and wrist, the joints at the end of upper '
                'arm and forearm; name them, or set train_at_end to false.'
            )

    def _settings(self) -> TeachSettings:
        return TeachSettings(
            countdown=self.value('countdown') or None,
            capture=f'call {self.get_fully_qualified_name()}/capture',
            background_frames=self.value('background_frames'),
            leave_time=self.value('leave_time'),
            skin=as_skin_source(self.value('skin')),
        )

    def _workspace(self, arm: Arm) -> Workspace | None:
        lower, upper = self.value('lower'), self.value('upper')
        if len(lower) > 1 or len(upper) > 1:
            return Workspace.of(arm.chain, lower, upper)
        return Workspace.of_pa10() if arm.is_pa10 else None

    def _make_router(self, arm: Arm) -> Router:
        workspace = self._workspace(arm)
        # A joint that turns for ever has no middle.
        limits = [np.clip(end, -np.pi, np.pi) for end in (arm.chain.lower, arm.chain.upper)]
        home = 0.5 * (limits[0] + limits[1]) if workspace is None else workspace.middle
        guard = SelfCollisionGuard(arm.urdf, joints=arm.names, tip=arm.chain.tip)
        return Router(arm.chain, home, guard, self.value('clearance'))

    def _postures(self, arm: Arm) -> Floats | None:
        chosen, count = self.value('postures'), self.value('count')
        if chosen == 'guided':
            return None
        if chosen != 'spread':
            return read_postures(Path(chosen).expanduser(), self._router)[:count]
        workspace = self._workspace(arm)
        if workspace is None:
            raise BadInput(
                'Nobody knows what a person can copy of this arm; give lower and upper ends of '
                'its joints, or a file of postures.'
            )
        return spread(count, workspace, self._router)

    # --- messages ---

    def _on_joint_state(self, message: JointState) -> None:
        if not set(self.names) & set(message.name):
            return
        self._posture = read_joint_state(message, self.names)
        with self._lock:
            self.session.on_joint_values(self._posture, 1e-9 * self.now())

    def _on_picture(self, message: Image) -> None:
        picture = read_picture(message)
        with self._lock:
            self.session.on_picture(picture, 1e-9 * self.now())
        self._tell()

    def _actions(self) -> dict[str, Callable[[float], Answer]]:
        session = self.session
        return {
            'capture': session.capture,
            'undo': session.undo,
            'skip': session.skip,
            'finish': session.finish,
        }

    def _service(self, act: Callable[[float], Answer]) -> Callable[[Any, Any], Any]:
        def answer(request: Any, response: Any) -> Any:
            with self._lock:
                response.success, response.message = act(1e-9 * self.now())
            self._tell()
            return response

        return answer

    # --- goals and status ---

    def _step(self) -> None:
        with self._lock:
            self.session.step(1e-9 * self.now())
            goal, finished = self.session.goal, self.session.stage is Stage.FINISHED
        if goal is not None and self._posture is not None:
            self._send(self._posture, goal)
        if finished and self._recorder is not None:
            self._recorder.close()
            self._recorder = None
            self._train()
        self._tell()

    def _send(self, start: Floats, goal: Floats) -> None:
        path = self._router.route(start, goal)
        if path is None:
            self.trouble(
                f'{self.session.plan}: the arm would touch itself or what it is mounted on; skip '
                'this posture.'
            )
            return
        header = Header(stamp=self.stamp(), frame_id=self._router.chain.base)
        times = [_DURATION * i for i in range(len(path))]
        self._goals.publish(trajectory_message(self.names, path, times, header))

    def _tell(self) -> None:
        with self._lock:
            sentence = f'{self.session.sentence} {self._outcome}'.rstrip()
        if sentence != self._told:
            self._told = sentence
            self._status.publish(String(data=sentence))
            self.get_logger().info(sentence)
        failed = self._outcome.startswith('Training failed')
        fine = 'Not stored' not in sentence and 'no joint states' not in sentence
        self.report.state(ERROR if failed else OK if fine else WARN, sentence)

    def diagnosis(self) -> Mapping[str, str]:
        """Return how far the session is."""
        session = self.session
        return {
            'stage': session.stage.value,
            'stored': str(session.stored),
            'wanted': str(session.total),
            'folder': str(session.recorder.folder),
        }

    # --- the end ---

    def _train(self) -> None:
        if not self.value('train_at_end') or not self.session.stored:
            return
        folder = self.session.recorder.folder
        model = self.value('model_output') or str(beside(folder, '.npz'))
        words = [sys.executable, '-m', 'kde_imitation.cli', 'train', str(folder)]
        words += ['--output', str(Path(model).expanduser())]
        if self.value('urdf'):
            # As it is here: what is a xacro file for this node need not be one for training.
            description = Path(model).expanduser().with_suffix('.urdf')
            description.parent.mkdir(parents=True, exist_ok=True)
            description.write_text(self._urdf)
            words += ['--urdf', str(description), '--tip', self._router.chain.tip]
            words += ['--elbow', self.value('elbow'), '--wrist', self.value('wrist')]
        self._outcome = 'Training …'
        self._training = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._thread = threading.Thread(target=self._await_training, args=(model,), daemon=True)
        self._thread.start()

    def _await_training(self, model: str) -> None:
        assert self._training is not None
        told, errors = self._training.communicate()
        lines = (errors if self._training.returncode else told).strip().splitlines() or ['']
        self._outcome = (
            f'Training failed: {lines[-1].removeprefix("kde_imitation: ")}'
            if self._training.returncode
            else f'The model is {model}. {lines[-1]}'
        )

    def close(self) -> None:
        """Leave the folder to others and take the node down."""
        if self._training is not None and self._training.poll() is None:
            self._training.terminate()
        super().close()
        if self._recorder is not None:
            self._recorder.close()
