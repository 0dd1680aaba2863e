"""Show a run to people: its learning curve, which digits it mixes up, and a model card."""

import json
from pathlib import Path
from typing import Any

import numpy as np


def write_report(run: Path, folder: Path, confusion: np.ndarray, facts: dict[str, Any]) -> None:
    """Write all of it into ``folder``.

    Args:
        run: The run's folder.
        folder: Gets ``metrics.json``, ``confusion_matrix.png``, ``learning_curve.png`` and ``model_card.md``.
        confusion: How often each digit (row) was taken for each (column), (10, 10).
        facts: What was judged: the settings of the run, and what else should be known.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metrics = {"test_images": int(confusion.sum()), "test_accuracy": float(confusion.trace() / confusion.sum())}
    (folder / "metrics.json").write_text(json.dumps({**facts, **metrics}, indent=2, default=str) + "\n")
    draw_confusion(confusion, folder / "confusion_matrix.png")
    draw_learning_curve(read_curve(run), folder / "learning_curve.png")
    (folder / "model_card.md").write_text(model_card(run, confusion, {**facts, **metrics}), encoding="utf-8")


def read_curve(run: Path) -> list[dict[str, Any]]:
    """Return what ``checkpoint.log`` wrote, an epoch each, without steps that were lost and done again."""
    file = run / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if not line.get("superseded")]


def draw_learning_curve(curve: list[dict[str, Any]], path: Path) -> None:
    """Draw the loss of each epoch's last batch, and the validation accuracy after it, into a file."""
    from matplotlib.figure import Figure  # takes a second to import; training does not need it

    figure = Figure(figsize=(6, 4), layout="constrained")  # without pyplot: no display, no global state
    losses, accuracies = figure.subplots(2, sharex=True)
    steps = [line["step"] for line in curve]
    losses.plot(steps, [line["loss"] for line in curve], ".-", color="tab:blue")
    losses.set(title="Learning curve", ylabel="training loss", yscale="log")
    accuracies.plot(steps, [line["accuracy"] for line in curve], ".-", color="tab:orange")
    accuracies.set(ylabel="validation accuracy", xlabel="step", ylim=(None, 1))
    for axes in (losses, accuracies):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def draw_confusion(confusion: np.ndarray, path: Path) -> None:
    """Draw the confusion matrix, with its counts, into a file; mistakes are red."""
    from matplotlib.figure import Figure

    digits = range(len(confusion))
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.add_subplot(xlabel="predicted digit", ylabel="true digit", xticks=digits, yticks=digits)
    axes.set_title(f"Test images: {confusion.trace()} of {confusion.sum()} read right")
    axes.imshow(confusion, cmap="Blues")
    for digit, counts in enumerate(confusion):
        for other, count in enumerate(counts):
            on_dark = "white" if count > confusion.max() / 2 else "black"
            colour = on_dark if digit == other else "tab:red" if count else "lightgrey"
            axes.text(other, digit, str(count), ha="center", va="center", color=colour)
    figure.savefig(path, dpi=150)


def model_card(run: Path, confusion: np.ndarray, facts: dict[str, Any]) -> str:
    """Return a model card: how good the network is and where it is not, from what, with which code it was made."""
    provenance = run / "provenance.json"
    known = json.loads(provenance.read_text()) if provenance.exists() else {}
    project = known.get("project", {})
    code = f"{project.get('commit') or 'no commit'}{', with changes' if project.get('edited') else ''}"
    manifest = ((known.get("raw_data") or {}).get("manifests") or {}).get("raw")
    raw = f"`data/raw.manifest` with sha256 {manifest['sha256'][:12]}…" if manifest else "not known"
    here = f"{project['root']}/" if project.get("root") else ""  # nobody else has the project in this folder
    right = confusion.diagonal() / confusion.sum(axis=1)
    worst = int(right.argmin())
    rows = [
        (f"accuracy on {facts['test_images']} test images", f"{facts['test_accuracy']:.4f}"),
        (f"accuracy on the hardest digit, {worst}", f"{right[worst]:.4f}"),
        ("run", f"`{run.name}`"),
        ("code", code),
        ("raw data", raw),
        ("machine", known.get("host", "not known")),
        ("torch", known.get("packages", {}).get("torch", "not known")),
        *((name, str(value).removeprefix(here)) for name, value in facts.get("config", {}).items()),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"""# Model card

Tells handwritten digits of 8 by 8 pixels apart: two convolutions, two linear layers.

| what | value |
|---|---|
{table}

**Meant for** images like those in `data/raw`: one digit, centred, 8 by 8 pixels, ink from 0 to 16.

**Not meant for** anything that matters: the 13 people who wrote the test digits wrote training digits, too, so expect
less of it for people that it has not seen.

**How often each digit is read right:** {", ".join(f"{digit}: {share:.2f}" for digit, share in enumerate(right))}.
"""
