"""Keras and NetDebug: one argument of `fit`. The loss expects probabilities, gets logits, and that is told.

pip install 'tb_netdebug[keras]' scikit-learn
python demo/keras_run.py && tensorboard --logdir runs
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from sklearn.datasets import load_digits

import tb_netdebug as nd

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--logdir", default="runs")
options = parser.parse_args()

keras.utils.set_random_seed(0)
digits = load_digits()  # 1797 pictures of 8 x 8 pixels
pictures, labels = digits.images[..., None] / 16.0, digits.target
layers = keras.layers
model = keras.Sequential(
    [
        layers.Conv2D(16, 3, padding="same"),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Flatten(),
        layers.Dropout(0.2),
        layers.Dense(10),
    ]
)
# There is no softmax in the model: it would have to be SparseCategoricalCrossentropy(from_logits=True).
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
watching = nd.KerasCallback(options.logdir, run="keras")
model.fit(pictures, labels, epochs=5, validation_split=0.2, verbose=0, callbacks=[watching])
