"""From a picture to a joint goal: time of each stage, invariance, odd pictures, memory."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from rich.progress import track

from kde_imitation.benchmarks.actor import data_of, labels_of, pictures_of, train_on
from kde_imitation.benchmarks.odd_pictures import odd_pictures
from kde_imitation.benchmarks.report import Table, save_picture
from kde_imitation.benchmarks.skeleton import SkeletonNetwork
from kde_imitation.benchmarks.vision_pictures import draw_shift
from kde_imitation.checks import Floats
from kde_imitation.dataset import Dataset, read_image
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel, Settings

PAIRS = 50
FRAMES = 10_000
TRUNCATED = 50


def run(pictures: Path | None) -> Iterator[Table]:
    """Yield the tables; draw figures into `pictures` if given."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        model = train_on(slice(0, PAIRS))
        yield _stages(model)
        yield _shift(model, pictures)
        yield _odd(model)
        yield _familiar(model)
        yield _memory(model)
    finally:
        cv2.setNumThreads(threads)


def _stages(model: ImitationModel) -> Table:
    """Time the stages on pictures that were not trained on, in turn with the network."""
    frames = pictures_of('teach_A')[PAIRS:]
    data = data_of('teach_A')
    files = [data.folder / name for name in data.frames[: len(frames)]]
    stages: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        answer = call(*arguments)
        stages.setdefault(name, []).append(time.perf_counter() - start)
        return answer

    features = model.features
    network = SkeletonNetwork.start()
    for turn in track(range(2 * len(frames)), 'Timing', transient=True):
        picture = frames[turn % len(frames)]
        timed('reading the JPEG', read_image, files[turn % len(files)])
        person = timed('silhouette', features.finder_, picture)
        seen = timed('body, arm, features', features.look_at, person)
        found = timed('embedding and novelty', model.embed, seen.vector)
        q = timed('posture', model.solve, found.point)
        timed('picture to joint goal', model.predict, picture, q)
        if network is not None:
            stages.setdefault('MediaPipe Pose', []).append(network.seconds(picture))
    table = Table(
        'stages',
        'Time of one 320 × 240 picture, one thread, ms',
        ['stage', 'median', '95 %', 'times faster than MediaPipe Pose'],
        notes=[f'{2 * len(frames)} pictures, all stages in turn.'],
    )
    if network is None:
        table.notes.append(SkeletonNetwork.MISSING)
    else:
        network.stop()
    reference = np.median(stages['MediaPipe Pose']) if network is not None else None
    for name, seconds in stages.items():
        values = 1000 * np.array(seconds[len(frames) // 5 :])
        faster = None
        if reference is not None and name == 'picture to joint goal':
            faster = round(float(1000 * reference / np.median(values)), 1)
        table.add(name, float(np.median(values)), float(np.quantile(values, 0.95)), faster)
    return table


def _shift(model: ImitationModel, pictures: Path | None) -> Table:
    """Repeat figure 6.11: two postures while the person walks across the picture."""
    frames, labels = pictures_of('shift_A'), labels_of('shift_A')
    first = np.linalg.norm(labels - labels[0], axis=1) < np.linalg.norm(
        labels - labels[-1], axis=1
    )
    table = Table(
        'shift',
        'Two postures while the person walks across: gap between, wander within (figure 6.11)',
        ['features', 'gap between postures', 'wander within', 'gap / wander'],
        notes=[
            'Distances in feature space: between the means, and root mean square around them.',
        ],
    )
    shown = {}
    for name, trained in (
        ('arm', model),
        ('thesis', train_on(slice(0, PAIRS), Settings(features='thesis'))),
    ):
        vectors = np.stack([trained.look(frame).vector for frame in frames])
        inputs, _ = trained.features.split(vectors)
        gram = trained.expansion.kernel(inputs)
        gap, wander = _gap_and_wander(gram, first)
        table.add(name, gap, wander, gap / wander)
        shown[name] = (trained.embed_all(vectors)[0], gram)
    if pictures is not None:
        save_picture(draw_shift(shown, first), pictures, 'shift.png')
    return table


def _gap_and_wander(gram: Floats, first: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[float, ...]:
    """Return the distance between two groups' means and the spread around them."""
    one, two = gram[np.ix_(first, first)], gram[np.ix_(~first, ~first)]
    between = gram[np.ix_(first, ~first)].mean()
    gap = np.sqrt(max(one.mean() + two.mean() - 2 * between, 0.0))
    around = [float(np.diagonal(part).mean() - part.mean()) for part in (one, two)]
    return float(gap), float(np.sqrt(np.mean(around)))


def _odd(model: ImitationModel) -> Table:
    data = data_of('teach_A')
    assert data.background is not None
    table = Table(
        'odd',
        'Odd pictures: how many are called novel or refused with a sentence',
        ['pictures', 'number', 'called novel', 'refused', 'share of both, %', 'most said'],
        notes=['Made from pictures of teach_A that were not trained on.'],
    )
    frames = pictures_of('teach_A')[PAIRS::3]
    total = caught = 0
    for kind, odd in odd_pictures(frames, data.background, model.features.finder_):
        novel, refused, said = 0, 0, []
        for picture in odd:
            try:
                found = model.predict(picture)
            except BadInput as error:
                refused += 1
                said.append(str(error))
            else:
                novel += found.novel
                said.append(found.reason)
        _add(table, kind, len(odd), novel, refused, said)
        total, caught = total + len(odd), caught + novel + refused
    refused, said = _truncated(data)
    _add(table, 'truncated JPEG', TRUNCATED, 0, refused, said)
    table.notes.append(
        f'In all {100 * (caught + refused) / (total + TRUNCATED):.1f} % of '
        f'{total + TRUNCATED} pictures.'
    )
    return table


def _add(table: Table, kind: str, count: int, novel: int, refused: int, said: list[str]) -> None:
    most = max(set(said), key=said.count) if said else ''
    share = 100 * (novel + refused) / count
    table.add(kind, count, novel, refused, round(share, 1), most)


def _truncated(data: Dataset) -> tuple[int, list[str]]:
    """Cut JPEG files off at random places; return how many were refused, and what was said."""
    rng = np.random.default_rng(0)
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(TRUNCATED):
            content = (data.folder / data.frames[i]).read_bytes()
            path = Path(folder) / 'cut.jpg'
            path.write_bytes(content[: int(rng.uniform(0.01, 0.99) * len(content))])
            try:
                read_image(path)
            except BadInput as error:
                said.append(str(error).replace(folder, '…'))
    return len(said), said


def _familiar(model: ImitationModel) -> Table:
    """Say how many normal pictures are called novel, set by set."""
    table = Table(
        'familiar',
        'Normal pictures that are called novel',
        ['set', 'pictures', 'called novel', '%'],
        notes=['teach_A without the rows that were trained on.'],
    )
    for name in (
        'teach_A', 'random_A', 'raise_A', 'wave_A', 'random_B', 'random_C', 'light_A', 'shift_A',
    ):  # fmt: skip
        frames = pictures_of(name)[PAIRS if name == 'teach_A' else 0 :]
        vectors = np.stack([model.look(frame).vector for frame in frames])
        novel = int((model.embed_all(vectors)[1] > 1).sum())
        table.add(name, len(frames), novel, round(100 * novel / len(frames), 1))
    return table


def _memory(model: ImitationModel) -> Table:
    """Predict many pictures, and see whether memory grows."""
    table = Table(
        'memory',
        'Memory of the process while it predicts, MiB',
        ['pictures', 'resident', 'most so far'],
        notes=['The first thousand pictures fill buffers and caches.'],
    )
    frames = pictures_of('teach_A')
    for turn in track(range(FRAMES + 1), 'Predicting', transient=True):
        if turn in (0, 1000, FRAMES // 2, FRAMES):
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            table.add(turn, round(_resident(), 1), round(most, 1))
        model.predict(frames[turn % len(frames)])
    return table


def _resident() -> float:
    """Return the resident memory in MiB, or its maximum where /proc is missing."""
    statistics = Path('/proc/self/statm')
    if statistics.exists():
        return int(statistics.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
