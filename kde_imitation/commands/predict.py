"""`kde_imitation predict`: the postures for every picture of a folder, as a table."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from kde_imitation.commands.shared import predict_files, progress_bars, require_place, write_text
from kde_imitation.dataset.folder import frames_in, joint_columns
from kde_imitation.errors import BadInput
from kde_imitation.imitation import ImitationModel


def run(model_file: Path, folder: Path, csv: Path, sequence: str = 'auto') -> int:
    """Write `frame,q1,…,novelty` for every numbered picture of a folder.

    Parameters
    ----------
    model_file, folder : Path
        Labels and background in the folder are not looked at: the model has its own background.
    csv : Path
        Written at the end, so that it holds all pictures or does not exist.
    sequence : 'auto', 'yes' or 'no'
        Whether the pictures show one movement.
    """
    require_place(csv)
    model = ImitationModel.load(model_file)
    frames = frames_in(folder)
    if not frames:
        raise BadInput(f'{folder} holds no pictures; they must be named 0000.jpg, 0001.jpg, …')
    with progress_bars() as tell:
        found = predict_files(model, [folder / name for name in frames], sequence, tell)
    rows = [','.join(['frame', *joint_columns(model.joints), 'novelty'])]
    for name, prediction in zip(frames, found):
        numbers = [f'{value:.9g}' for value in (*prediction.q.tolist(), prediction.novelty)]
        rows.append(','.join([name, *numbers]))
    write_text(csv, '\n'.join(rows) + '\n')
    novel = sum(prediction.novel for prediction in found)
    Console().print(
        f'{len(found)} pictures, {novel} of them novel; written to {csv}', soft_wrap=True
    )
    return 0
