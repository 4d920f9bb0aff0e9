"""Lightning and NetDebug: one line in the Trainer. The network learns 60 pictures by heart, and that is told.

pip install 'tb_netdebug[lightning]' scikit-learn
python demo/lightning_run.py && tensorboard --logdir runs
"""

import argparse
import logging

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--logdir", default="runs")
options = parser.parse_args()


class Digits(lightning.LightningModule):
    """Reads handwritten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
        )

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        pictures, labels = batch
        return functional.cross_entropy(self.network(pictures), labels)

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        pictures, labels = batch
        self.log("val_loss", functional.cross_entropy(self.network(pictures), labels))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.003)


logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.manual_seed(0)
torch.set_num_threads(1)
digits = load_digits()  # 1797 pictures of 8 x 8 pixels
pictures, labels = torch.tensor(digits.images, dtype=torch.float32) / 16, torch.tensor(digits.target)
pictures = pictures + 0.4 * torch.randn(pictures.shape)
few = DataLoader(TensorDataset(pictures[:60], labels[:60]), batch_size=20, shuffle=True)
others = DataLoader(TensorDataset(pictures[60:660], labels[60:660]), batch_size=200)

trainer = lightning.Trainer(
    max_epochs=60,
    callbacks=[nd.LightningCallback(options.logdir, run="lightning")],
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Digits(), few, others)
