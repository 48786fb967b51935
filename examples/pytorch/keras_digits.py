"""Keras' convolutional network for digits (mnist_convnet) on scikit-learn's digits, with a plot of the training.

VKCOMPUTE_KERAS=1 python examples/pytorch/keras_digits.py [number of epochs]
"""

import sys

import keras
import matplotlib as mpl
import numpy as np
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

mpl.use("Agg")
from matplotlib import pyplot as plt


def model():
    """The network of https://keras.io/examples/vision/mnist_convnet, for images of 8 by 8."""
    return keras.Sequential(
        [
            keras.Input(shape=(8, 8, 1)),
            layers.Conv2D(32, kernel_size=(3, 3), activation="relu"),
            layers.MaxPooling2D(pool_size=(2, 2)),
            layers.Conv2D(64, kernel_size=(2, 2), activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def plot(history, path):
    """Draws the accuracy and the loss of each epoch."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, name in zip(axes, ("accuracy", "loss"), strict=True):
        for key, label in ((name, "training"), (f"val_{name}", "validation")):
            axis.plot(range(1, len(history[key]) + 1), history[key], label=label)
        axis.set(xlabel="epoch", ylabel=name)
        axis.legend()
    figure.savefig(path, dpi=120)


def main(n_epochs=10):
    keras.utils.set_random_seed(0)
    digits = load_digits()
    images = (digits.images / 16).astype("float32")[..., None]
    x, x_test, y, y_test = train_test_split(images, digits.target, test_size=0.2, random_state=0)
    network = model()
    network.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    history = network.fit(x, y, batch_size=128, epochs=n_epochs, validation_split=0.1, verbose=2)
    loss, accuracy = network.evaluate(x_test, y_test, verbose=0)
    network.save("keras_digits.keras")
    same = np.allclose(keras.models.load_model("keras_digits.keras").predict(x_test, verbose=0),
                       network.predict(x_test, verbose=0), atol=1e-6)  # fmt: skip
    plot(history.history, "keras_digits.png")
    print(f"test loss {loss:.3f}, accuracy {accuracy:.3f}; the saved network predicts the same: {same}")
    print("wrote keras_digits.png and keras_digits.keras")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
