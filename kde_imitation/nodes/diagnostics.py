"""What a node says of itself once a second on `/diagnostics`."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np

from kde_imitation.nodes.ros import (
    DiagnosticArray,
    DiagnosticStatus,
    KeyValue,
    Node,
    QoSProfile,
)

__all__ = ['ERROR', 'OK', 'WARN', 'Diagnostics', 'milliseconds']

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR

# So many measurements make up a percentile: ten seconds of pictures.
_WINDOW = 300


def milliseconds(name: str, values: Mapping[str, float]) -> dict[str, str]:
    """Return measured times in seconds as lines of a report."""
    return {f'{name} {part} (ms)': f'{1e3 * value:.2f}' for part, value in values.items()}


class Diagnostics:
    """Rate, age, latency, dropped messages and state of a node, published at 1 Hz.

    Work is noted with `done`, and what went wrong with `trouble`; both may be called from any
    thread. It is warned of if nothing was done for `silent_after` seconds.

    Parameters
    ----------
    node : rclpy.node.Node
    more : callable
        Returns further lines, a text for each name.
    """

    def __init__(
        self,
        node: Node,
        more: Callable[[], Mapping[str, str]],
        silent_after: float = 2.0,
    ) -> None:
        self._node, self._more, self._silent_after = node, more, silent_after
        self._lock = threading.Lock()
        self._shares: deque[float] = deque(maxlen=_WINDOW)
        self._latencies: deque[float] = deque(maxlen=_WINDOW)
        self._count = self._dropped = self._refused = 0
        self._last_done: int | None = None
        self._level, self._state = OK, 'Waiting for the first message.'
        self._trouble = ''
        self._since = time.monotonic()
        self._publisher = node.create_publisher(
            DiagnosticArray, '/diagnostics', QoSProfile(depth=10)
        )

    def done(self, share: float, latency: float | None = None, dropped: int = 0) -> None:
        """Note a piece of work.

        Parameters
        ----------
        share : float
            Seconds that it took.
        latency : float, optional
            Seconds from the picture behind it to its end.
        dropped : int
            How many older messages were passed over for it.
        """
        with self._lock:
            self._count += 1
            self._dropped += dropped
            self._shares.append(share)
            if latency is not None:
                self._latencies.append(latency)
            self._last_done = self._node.get_clock().now().nanoseconds

    def latency(self, value: float) -> None:
        """Note the time from a picture to what it caused, in seconds."""
        with self._lock:
            self._latencies.append(value)

    def state(self, level: bytes, sentence: str) -> None:
        """Say how the node is."""
        with self._lock:
            self._level, self._state = level, sentence

    def trouble(self, sentence: str) -> None:
        """Say what could not be used; it is shown in the next report."""
        with self._lock:
            self._refused += 1
            self._trouble = sentence

    @property
    def dropped(self) -> int:
        """How many messages were passed over so far."""
        return self._dropped

    def percentiles(self) -> dict[str, float]:
        """Return median and 95th percentile of the latency in seconds, if there is any."""
        with self._lock:
            return _percentiles(self._latencies)

    def publish(self) -> None:
        """Publish a report; the node calls it once a second."""
        now = self._node.get_clock().now()
        with self._lock:
            passed, self._since = time.monotonic() - self._since, time.monotonic()
            rate, self._count = self._count / max(passed, 1e-3), 0
            age = None if self._last_done is None else 1e-9 * (now.nanoseconds - self._last_done)
            level, message = self._level, self._state
            if self._trouble and level == OK:
                level, message = WARN, self._trouble
            elif age is not None and age > self._silent_after and level == OK:
                level, message = WARN, f'Nothing has come in for {age:.1f} s.'
            lines = {
                'state': self._state,
                'rate (Hz)': f'{rate:.1f}',
                'age (s)': 'never' if age is None else f'{age:.3f}',
                **milliseconds('latency share', _percentiles(self._shares)),
                **milliseconds('latency from picture', _percentiles(self._latencies)),
                'dropped': str(self._dropped),
                'refused': str(self._refused),
            }
            if self._trouble:
                lines['last refusal'] = self._trouble
            self._trouble = ''
        lines.update(self._more())
        status = DiagnosticStatus(
            level=level,
            name=f'{self._node.get_fully_qualified_name().strip("/")}: kde_imitation',
            message=message,
            hardware_id='kde_imitation',
            values=[KeyValue(key=key, value=value) for key, value in lines.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = now.to_msg()
        self._publisher.publish(array)


def _percentiles(values: deque[float]) -> dict[str, float]:
    if not values:
        return {}
    middle, high = np.percentile(values, [50, 95])
    return {'p50': float(middle), 'p95': float(high)}
