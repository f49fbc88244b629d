"""An emulator of PTX in NumPy: runs compiled CUDA kernels without a GPU, checks their use of memory, counts it."""

from . import annotate, banks
from .api import Kernel, Launch, Struct, load
from .arrays import Array, Texture
from .counters import Counters
from .errors import KernelFault, PtxError, PtxsimError
from .exec.session import device
from .faults import Accepted, Found
from .launch import Checks, Limits
from .observer import Observer
from .prediction import Prediction, predict
from .tensor_maps import TensorMap
from .texture_arrays import TextureArray

__all__ = [
    "Accepted",
    "Array",
    "Checks",
    "Counters",
    "Found",
    "Kernel",
    "KernelFault",
    "Launch",
    "Limits",
    "Observer",
    "Prediction",
    "PtxError",
    "PtxsimError",
    "Struct",
    "TensorMap",
    "Texture",
    "TextureArray",
    "annotate",
    "banks",
    "device",
    "load",
    "predict",
]
