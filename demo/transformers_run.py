"""The Trainer of transformers and NetDebug: one line. A tiny GPT-2 with a learning rate that is far too high.

    pip install 'tb_netdebug[transformers]'
    python demo/transformers_run.py && tensorboard --logdir runs

Nothing is downloaded: the network begins with random weights and learns to count.
"""

import argparse
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--logdir", default="runs")
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
starts = torch.randint(64, (256, 1))
texts = [{"input_ids": text, "labels": text} for text in (starts + torch.arange(16)) % 64]
sizes = {"vocab_size": 64, "n_positions": 16, "n_embd": 64, "n_layer": 2, "n_head": 4}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        learning_rate=0.5,
        max_grad_norm=0.0,
        num_train_epochs=8,
        per_device_train_batch_size=16,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=texts[:224],
        eval_dataset=texts[224:],
        callbacks=[nd.TransformersCallback(options.logdir, run="transformers")],
    )
    trainer.train()
