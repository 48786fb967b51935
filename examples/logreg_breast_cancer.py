"""Breast-cancer diagnosis, compared with scikit-learn: accuracy and log-loss on held-out patients, and training time.

    python examples/logreg_breast_cancer.py

Needs the extra `ml`. With the extra `plot`, it also draws the loss curves.
"""

import time

import vkcompute as vc

try:
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression as Reference
    from sklearn.metrics import log_loss
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler
except ImportError:
    raise SystemExit("this example needs scikit-learn: pip install 'vkcompute[ml]'") from None

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
n = len(X_train)

with vc.Runtime() as gpu:
    print(f"{n} patients to train on, {len(X_test)} held out; on {gpu.device}\n")
    full = vc.LogisticRegression(solver="gradient", learning_rate=0.5, max_iter=500, tol=None, device=gpu)
    batches = vc.LogisticRegression(solver="gradient", batch_size=32, max_iter=30, tol=None, random_state=0, device=gpu)
    models = {
        "vkcompute, L-BFGS": vc.LogisticRegression(device=gpu),
        "vkcompute, full batch": full,
        "vkcompute, batches of 32": batches,
        "scikit-learn, L-BFGS": Reference(C=1),
    }
    print(f"{'':26}{'accuracy':>10}{'log-loss':>10}{'epochs':>8}{'seconds':>9}")
    for name, model in models.items():
        model.fit(X_train, y_train)  # untimed: drivers compile kernels at their first launch
        started = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - started
        accuracy, loss = model.score(X_test, y_test), log_loss(y_test, model.predict_proba(X_test))
        print(f"{name:26}{accuracy:10.3f}{loss:10.4f}{model.n_iter_[0]:8}{seconds:9.3f}")

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    print("\nno plot of the loss; for one: pip install 'vkcompute[plot]'")
else:
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(range(1, len(full.loss_curve_) + 1), full.loss_curve_, label="full batch")
    axes.plot(range(1, len(batches.loss_curve_) + 1), batches.loss_curve_, label="batches of 32")
    axes.set(xlabel="epoch", ylabel="loss (mean cross-entropy + penalty)", xscale="log", ylim=(0, None))
    axes.set_title("Logistic regression on the breast-cancer table")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig("breast_cancer_loss.png", dpi=150)
    print("\nloss curves: breast_cancer_loss.png")
