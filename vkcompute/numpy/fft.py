"""Fourier transforms, on the device: the Array API's extension, and the functions of `numpy.fft`."""

from __future__ import annotations

from vkcompute.arrays.functions.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.functions.transforms import fft as fft
from vkcompute.arrays.functions.transforms import fft2 as fft2
from vkcompute.arrays.functions.transforms import fftfreq as fftfreq
from vkcompute.arrays.functions.transforms import fftn as fftn
from vkcompute.arrays.functions.transforms import fftshift as fftshift
from vkcompute.arrays.functions.transforms import hfft as hfft
from vkcompute.arrays.functions.transforms import ifft as ifft
from vkcompute.arrays.functions.transforms import ifft2 as ifft2
from vkcompute.arrays.functions.transforms import ifftn as ifftn
from vkcompute.arrays.functions.transforms import ifftshift as ifftshift
from vkcompute.arrays.functions.transforms import ihfft as ihfft
from vkcompute.arrays.functions.transforms import irfft as irfft
from vkcompute.arrays.functions.transforms import irfft2 as irfft2
from vkcompute.arrays.functions.transforms import irfftn as irfftn
from vkcompute.arrays.functions.transforms import rfft as rfft
from vkcompute.arrays.functions.transforms import rfft2 as rfft2
from vkcompute.arrays.functions.transforms import rfftfreq as rfftfreq
from vkcompute.arrays.functions.transforms import rfftn as rfftn

_accept_host_data(globals())
