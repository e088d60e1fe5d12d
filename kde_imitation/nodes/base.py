"""What all nodes share: parameters, diagnostics, qualities of service, the newest message only."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import cv2

from kde_imitation.errors import BadInput, KdeImitationError
from kde_imitation.nodes.diagnostics import Diagnostics
from kde_imitation.nodes.messages import nanoseconds, time_message
from kde_imitation.nodes.parameters import Parameter, Parameters, as_ros, refused
from kde_imitation.nodes.ros import (
    CallbackGroup,
    Clock,
    ClockType,
    DurabilityPolicy,
    ExternalShutdownException,
    Node,
    QoSProfile,
    ReliabilityPolicy,
    RosParameter,
    SetParametersResult,
    SignalHandlerOptions,
    SingleThreadedExecutor,
    Time,
    rclpy,
)
from kde_imitation.resources import share_file

__all__ = [
    *('LATCHED', 'RELIABLE', 'SENSOR', 'ImitationNode', 'Newest', 'Polled', 'Spinner'),
    'start_ros',
]

SENSOR = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""For pictures and vectors: only the newest counts, and none is sent twice."""

RELIABLE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""For commands and states."""

LATCHED = QoSProfile(
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
"""For what is said once and must reach those who come later."""

_REPORT_PERIOD, _SAY_AGAIN = 1.0, 5.0

SWITCH_INTERVAL = 5e-4
"""Seconds that a thread may keep others waiting; Python's own is 5 ms."""

PROFILES = ('FASTRTPS_DEFAULT_PROFILES_FILE', 'FASTDDS_DEFAULT_PROFILES_FILE')
"""What names a file of settings for Fast DDS, before and since its version 3."""


def start_ros(argv: Sequence[str], context: Any = None, domain_id: int | None = None) -> None:
    """Start ROS with the arguments of a command line; the caller takes the signals.

    So an arm can still be braked after one. Threads of a node change places often, because a
    message that waits for another thread is late; and pictures are too small for several threads.
    Nodes that start are heard sooner than Fast DDS would have it, unless a profile is given.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    cv2.setNumThreads(1)
    if not any(name in os.environ for name in PROFILES):
        profile = str(share_file('config', 'fastdds.xml'))
        os.environ.update(dict.fromkeys(PROFILES, profile))
    try:
        rclpy.init(
            args=list(argv),
            context=context,
            domain_id=domain_id,
            signal_handler_options=SignalHandlerOptions.NO,
        )
    except Exception as error:
        raise BadInput(f'ROS could not start: {str(error).splitlines()[0]}.') from error


class ImitationNode(Node):  # type: ignore[misc]
    """A node with described parameters and diagnostics.

    Parameters
    ----------
    parameters : mapping, optional
        Values by name, for nodes that are made in a program.
    **options
        For `rclpy.node.Node`: `context`, `namespace`, `cli_args`, …
    """

    NAME: ClassVar[str] = ''
    PARAMETERS: ClassVar[tuple[Parameter, ...]] = ()
    SILENT_AFTER: ClassVar[float] = 2.0

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        given = [as_ros(name, value) for name, value in (parameters or {}).items()]
        super().__init__(
            options.pop('node_name', self.NAME),
            parameter_overrides=[*options.pop('parameter_overrides', ()), *given],
            automatically_declare_parameters_from_overrides=True,
            **options,
        )
        self._said, self._said_at = '', -_SAY_AGAIN
        self._declared: Parameters | None = None
        try:
            self._declared = Parameters(self, self.PARAMETERS, self.agree, self.changed)
        except BaseException:
            self.destroy_node()
            raise
        self.report = Diagnostics(self, self.diagnosis, self.SILENT_AFTER)
        # Of the machine's own clock: a simulation that stands still is worth a report too.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_REPORT_PERIOD, self.guarded(self.report.publish), clock=steady)

    # --- parameters ---

    def value(self, name: str) -> Any:
        """Return what a parameter is now."""
        assert self._declared is not None
        return self._declared.values[name]

    def agree(self, values: Mapping[str, Any]) -> None:
        """Raise `BadInput` if the values of the parameters do not go together."""

    def changed(self, values: Mapping[str, Any]) -> None:
        """Act on the new values of parameters that were changed."""

    def set_parameters_atomically(
        self, parameter_list: Sequence[RosParameter]
    ) -> SetParametersResult:
        """Change parameters; a change that cannot be is refused with a sentence."""
        declared = self._declared
        if declared is None:
            return super().set_parameters_atomically(parameter_list)
        reason = declared.refusal(parameter_list)
        if reason:
            return refused(reason)
        wanted = declared.in_type(parameter_list)
        result = super().set_parameters_atomically(wanted)
        if result.successful:
            declared.apply(wanted)
        return result

    def set_parameters(self, parameter_list: Sequence[RosParameter]) -> list[SetParametersResult]:
        """Change parameters one by one."""
        return [self.set_parameters_atomically([one]) for one in parameter_list]

    # --- time ---

    def now(self) -> int:
        """Return the time of the node's clock in nanoseconds."""
        return int(self.get_clock().now().nanoseconds)

    def stamp(self) -> Time:
        """Return the time of the node's clock as a message."""
        return time_message(self.now())

    # --- work ---

    def diagnosis(self) -> Mapping[str, str]:
        """Return further lines for the diagnostics."""
        return {}

    def trouble(self, sentence: str) -> bool:
        """Say what could not be used: in the diagnostics, and now and then in the log.

        Returns whether it was said in the log.
        """
        self.report.trouble(sentence)
        now = time.monotonic()
        if sentence == self._said and now - self._said_at < _SAY_AGAIN:
            return False
        self._said, self._said_at = sentence, now
        self.get_logger().warning(sentence)
        return True

    def guarded(self, callback: Callable[..., Any]) -> Callable[..., None]:
        """Return a callback in which an error is said, but does not end the node."""

        def call(*arguments: Any) -> None:
            try:
                callback(*arguments)
            except KdeImitationError as error:
                self.trouble(str(error))
            except Exception as error:
                if self.trouble(f'{type(error).__name__}: {error}'):
                    self.get_logger().error(traceback.format_exc())

        return call

    # --- the end ---

    def finished(self) -> bool:
        """Begin to come to an end, and say whether that is done; asked until it is."""
        return True

    def close(self) -> None:
        """Take the node down."""
        self.destroy_node()


class Newest:
    """A subscription whose work is done on the newest message only.

    While the work takes its time, the middleware keeps one message, the newest. Those that were
    passed over are counted, as far as the middleware numbers messages.
    """

    def __init__(
        self, node: ImitationNode, message_type: Any, topic: str, work: Callable[[Any], None]
    ) -> None:
        self._node, self._work = node, node.guarded(work)
        self._number: int | None = None
        self.subscription = node.create_subscription(message_type, topic, self._receive, SENSOR)

    def _receive(self, message: Any, info: Mapping[str, Any]) -> None:
        number = info.get('publication_sequence_number')
        dropped = 0
        if number is not None and self._number is not None:
            dropped = max(number - self._number - 1, 0)
        self._number = number
        began = time.perf_counter()
        self._work(message)
        share = time.perf_counter() - began
        stamp = nanoseconds(message.header.stamp)
        latency = 1e-9 * (self._node.now() - stamp) if stamp else None
        self._node.report.done(share, latency, dropped)


class _Asleep(CallbackGroup):  # type: ignore[misc]
    """Callbacks that are never called."""

    def can_execute(self, entity: Any) -> bool:
        return False

    def beginning_execution(self, entity: Any) -> bool:
        return False

    def ending_execution(self, entity: Any) -> None:
        pass


class Polled:
    """A subscription that is asked for its messages instead of calling back.

    For what comes often and is needed at times of the node's own: to wake an executor in Python
    takes longer than all else that is done with a small message.
    """

    def __init__(
        self, node: ImitationNode, message_type: Any, topic: str, qos: Any = 50, raw: bool = False
    ) -> None:
        self._subscription = node.create_subscription(
            message_type, topic, lambda _: None, qos, callback_group=_Asleep(), raw=raw
        )

    def take(self) -> list[tuple[Any, Mapping[str, Any]]]:
        """Return the messages that have come since the last time, the newest last.

        Each is with what the middleware knows of it, as its `received_timestamp`.
        """
        subscription, taken = self._subscription, []
        with subscription.handle:
            while found := subscription.handle.take_message(
                subscription.msg_type, subscription.raw
            ):
                taken.append(found)
        return taken


class _Thread:
    """A node with an executor in a thread of its own."""

    def __init__(self, node: ImitationNode, context: Any) -> None:
        self.node = node
        self.error: BaseException | None = None
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(node)
        self._done = rclpy.Future(executor=self._executor)
        self._thread = threading.Thread(target=self._spin, name=node.get_name(), daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin_until_future_complete(self._done)
        except ExternalShutdownException:
            pass
        except BaseException as error:
            self.error = error

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self._done.set_result(None)
        self._executor.wake()
        self._thread.join(10.0)

    def close(self) -> None:
        self.node.close()
        self._executor.shutdown(1.0)


class Spinner:
    """Runs nodes until they are told to stop, and brings them to an orderly end.

    Each node has an executor in a thread of its own: none waits for another, and an executor in
    Python takes the longer for each message the more nodes it looks after.

    Parameters
    ----------
    nodes : sequence of ImitationNode
    context : rclpy.context.Context, optional
        That of the nodes.
    patience : float
        How long nodes may take to finish, for example to brake, in seconds.
    """

    def __init__(
        self, nodes: Sequence[ImitationNode], context: Any = None, patience: float = 3.0
    ) -> None:
        self._nodes, self._context, self._patience = nodes, context, patience
        self._threads: list[_Thread] = []

    def start(self) -> None:
        """Begin to run the nodes."""
        # What is there now will stay; to look through it for refuse again takes 50 ms.
        gc.collect()
        gc.freeze()
        self._threads = [_Thread(node, self._context) for node in self._nodes]

    @property
    def alive(self) -> bool:
        """Whether all nodes run."""
        return all(thread.alive for thread in self._threads)

    @property
    def error(self) -> BaseException | None:
        """What ended a node too early, if anything did."""
        return next((one.error for one in self._threads if one.error is not None), None)

    def stop(self) -> None:
        """Let the nodes finish while all of them still run, then take them down."""
        deadline = time.monotonic() + self._patience
        while self.alive and time.monotonic() < deadline:
            finished = [node.finished() for node in self._nodes]
            if all(finished):
                break
            time.sleep(0.005)
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.close()
        gc.unfreeze()
