"""Fourier transforms, on the device: the Array API's extension, and the functions of `numpy.fft`."""

from __future__ import annotations

from vkcompute.arrays.operands import accept_host_data as _accept_host_data
from vkcompute.arrays.transforms import fft as fft
from vkcompute.arrays.transforms import fft2 as fft2
from vkcompute.arrays.transforms import fftfreq as fftfreq
from vkcompute.arrays.transforms import fftn as fftn
from vkcompute.arrays.transforms import fftshift as fftshift
from vkcompute.arrays.transforms import hfft as hfft
from vkcompute.arrays.transforms import ifft as ifft
from vkcompute.arrays.transforms import ifft2 as ifft2
from vkcompute.arrays.transforms import ifftn as ifftn
from vkcompute.arrays.transforms import ifftshift as ifftshift
from vkcompute.arrays.transforms import ihfft as ihfft
from vkcompute.arrays.transforms import irfft as irfft
from vkcompute.arrays.transforms import irfft2 as irfft2
from vkcompute.arrays.transforms import irfftn as irfftn
from vkcompute.arrays.transforms import rfft as rfft
from vkcompute.arrays.transforms import rfft2 as rfft2
from vkcompute.arrays.transforms import rfftfreq as rfftfreq
from vkcompute.arrays.transforms import rfftn as rfftn

_accept_host_data(globals())
