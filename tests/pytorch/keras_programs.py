"""Programs of Keras' kind: `python keras_programs.py NAME FOLDER` trains one and prints what it has learnt as JSON.

Weights come from NumPy, rows keep their order, and nothing is dropped: each device computes the same.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

RANDOM = np.random.default_rng(0)


def set_weights(model: Any) -> None:
    """Gives a model the weights of each device."""
    model.set_weights([RANDOM.normal(0, 0.2, np.shape(value)).astype(value.dtype) for value in model.get_weights()])


def learnt(model: Any, x: np.ndarray, y: np.ndarray, folder: Path, **options: Any) -> dict[str, list[float]]:
    """Trains with callbacks, saves, loads, and returns losses, metrics and predictions."""
    set_weights(model)
    path = folder / "best.keras"
    callbacks = [
        keras.callbacks.ModelCheckpoint(path, monitor="loss", save_best_only=True),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1),
        keras.callbacks.CSVLogger(folder / "log.csv"),
        keras.callbacks.EarlyStopping(monitor="loss", patience=3),
    ]
    options = {"epochs": 3, "batch_size": 8, "shuffle": False, "validation_split": 0.25} | options
    history = model.fit(x, y, callbacks=callbacks, **options).history
    predicted = model.predict(x[:8], verbose=0)
    again = keras.models.load_model(path, {"Embedded": Embedded}).predict(x[:8], verbose=0)
    np.testing.assert_allclose(again, predicted, rtol=1e-4, atol=1e-5)
    evaluated = model.evaluate(x, y, verbose=0)
    assert len((folder / "log.csv").read_text().splitlines()) == 4
    return history | {"predicted": predicted.ravel().tolist(), "evaluated": np.ravel(evaluated).tolist()}


def words() -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of words, padded by zeros, and whether they contain word 7."""
    x = RANDOM.integers(1, 20, (32, 10))
    x[:, 6:] = 0
    return x, (x == 7).any(1).astype("int32")


def autoencoder(folder: Path) -> dict[str, list[float]]:
    """Trains convolutions and their transposes to return images."""
    inner = [layers.Conv2D(4, 3, activation="relu", padding="same"), layers.MaxPooling2D(2, padding="same")]
    outer = [layers.Conv2DTranspose(4, 3, strides=2, activation="relu", padding="same")]
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), *inner, *outer, layers.Conv2D(1, 3, activation="sigmoid", padding="same")]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy")
    x = RANDOM.random((32, 8, 8, 1)).astype("float32")
    return learnt(model, x, x, folder)


class Embedded(layers.Layer):  # type: ignore[misc]
    """Embeddings of words plus those of their positions."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.words, self.positions = layers.Embedding(20, 16), layers.Embedding(10, 16)

    def call(self, x: Any) -> Any:
        return self.words(x) + self.positions(keras.ops.arange(keras.ops.shape(x)[-1]))


def transformer(folder: Path) -> dict[str, list[float]]:
    """Trains a block with attention and embeddings of words and positions to classify text."""
    words_in = keras.Input((10,), dtype="int32")
    x = Embedded()(words_in)
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(2, 8)(x, x))
    x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dense(16)(layers.Dense(32, activation="relu")(x)))
    made = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(words_in, made)
    set_weights(model)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return learnt(model, *words(), folder)


def text(folder: Path) -> dict[str, list[float]]:
    """Trains a bidirectional LSTM on masked words."""
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(20, 8, mask_zero=True),
            layers.Bidirectional(layers.LSTM(6)),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    return learnt(model, *words(), folder)


def older(folder: Path) -> dict[str, list[float]]:
    """Trains a network as programs of Keras 2 do."""
    from keras import backend as K  # noqa: N812
    from keras.layers import Activation, Conv2D, Dense, Flatten, MaxPooling2D
    from keras.models import Sequential

    K.clear_session()
    K.set_floatx("float32")
    assert K.epsilon() == 1e-7
    shape = (1, 8, 8) if K.image_data_format() == "channels_first" else (8, 8, 1)
    model = Sequential()
    model.add(Conv2D(4, kernel_size=(3, 3), activation="relu", input_shape=shape))
    model.add(MaxPooling2D(pool_size=(2, 2)))
    model.add(Flatten())
    model.add(Dense(10))
    model.add(Activation("softmax"))
    model.compile(loss=keras.losses.categorical_crossentropy, optimizer=keras.optimizers.Adadelta(0.5), metrics=["acc"])
    x, y = RANDOM.random((32, *shape)).astype("float32"), RANDOM.integers(0, 10, 32)
    return learnt(model, x, keras.utils.to_categorical(y, 10), folder)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
