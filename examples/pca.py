"""scikit-learn's PCA on the device: set SCIPY_ARRAY_API=1, and pass it a device array.

Prints the share of the variance that two components explain, and says how they compare with scikit-learn's on the host.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy and scikit-learn are imported

import numpy as np

import vkcompute as vc

try:
    import sklearn
    from sklearn.datasets import load_iris
    from sklearn.decomposition import PCA
except ImportError:
    raise SystemExit("this example needs scikit-learn: pip install 'vkcompute[ml]'") from None

X = load_iris().data.astype(np.float32)

with vc.Runtime() as gpu, sklearn.config_context(array_api_dispatch=True):
    pca = PCA(n_components=2)
    projected = pca.fit_transform(gpu.array(X))
    assert isinstance(projected, vc.Array)
    print(f"variance explained on {gpu.device}: {float(pca.explained_variance_ratio_.sum()):.1%}")
    on_device = projected.numpy()

on_host = PCA(n_components=2).fit_transform(X)
agrees = np.allclose(np.abs(on_device), np.abs(on_host), atol=1e-4)
print("agrees with the host" if agrees else "differs from the host")
