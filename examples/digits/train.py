"""Train the demo's digit classifier on scikit-learn's handwritten digits and export it through PyTorch.

    pip install torch scikit-learn onnx onnxscript
    python examples/digits/train.py

Writes ``digits.onnx`` (a convolutional network over 8x8 images, free batch dimension) and ``unseen.npz`` (images and
labels that training never saw) beside this file. The demo needs neither PyTorch nor scikit-learn.
"""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

FOLDER = pathlib.Path(__file__).parent
EPOCHS, BATCH, SEED = 40, 64, 0


class Digits(nn.Module):
    """Three convolutions with batch norms, a residual sum, two pools, and a softmax: f32[N, 1, 8, 8] -> f32[N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.block = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.classify = nn.Linear(64 * 2 * 2, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image / 16.0)
        x = self.pool(x + self.block(x))
        x = self.pool(self.head(x))
        return torch.softmax(self.classify(x.flatten(1)), dim=1)


def train(images: torch.Tensor, labels: torch.Tensor) -> Digits:
    """A trained network in inference mode; the images are moved by up to one pixel while training."""
    model = Digits()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH):
            shift = tuple(int(s) for s in torch.randint(-1, 2, (2,)))
            probabilities = model(images[batch].roll(shift, (2, 3)))
            loss = nn.functional.nll_loss(torch.log(probabilities + 1e-9), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    return model.eval()


def strip_notes(path: pathlib.Path) -> None:
    """Drop what the exporter notes about this machine's files: the model shall be the same wherever it is made."""
    model = onnx.load(path)
    graph = model.graph
    for item in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del item.metadata_props[:]
        item.doc_string = ""
    onnx.save(model, path)


def main() -> None:
    torch.manual_seed(SEED)
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images, digits.target, test_size=0.2, random_state=SEED, stratify=digits.target
    )
    model = train(torch.from_numpy(seen), torch.from_numpy(seen_labels))
    with torch.no_grad():
        predicted = model(torch.from_numpy(unseen)).argmax(1).numpy()
    print(f"accuracy on {len(unseen)} unseen images: {(predicted == unseen_labels).mean():.4f}")
    batch = torch.export.Dim("batch", min=1, max=4096)
    torch.onnx.export(
        model,
        (torch.from_numpy(unseen[:2]),),
        FOLDER / "digits.onnx",
        input_names=["image"],
        output_names=["probabilities"],
        opset_version=18,
        dynamo=True,
        external_data=False,
        dynamic_shapes={"image": {0: batch}},
        verbose=False,
    )
    strip_notes(FOLDER / "digits.onnx")
    np.savez_compressed(FOLDER / "unseen.npz", images=unseen.astype(np.uint8), labels=unseen_labels.astype(np.uint8))
    print(f"{FOLDER / 'digits.onnx'}: {(FOLDER / 'digits.onnx').stat().st_size} bytes")


if __name__ == "__main__":
    main()
