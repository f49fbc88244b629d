"""An emulator of PTX in NumPy: runs compiled CUDA kernels without a GPU, checks their use of
memory, counts it.
"""

from .count import annotate, banks
from .count.counters import Counters
from .count.prediction import Prediction, predict
from .engine.kernel import Launch, Struct
from .errors import KernelFault, Kind, PtxError, PtxsimError
from .exec.session import device
from .interface import Kernel, load
from .machine.arrays import Array, Texture
from .machine.faults import Accepted, Found
from .machine.launch import Checks, Limits
from .machine.observer import Observer
from .machine.tensor_maps import TensorMap
from .machine.texture_arrays import TextureArray

__all__ = [
    "Accepted",
    "Array",
    "Checks",
    "Counters",
    "Found",
    "Kernel",
    "KernelFault",
    "Kind",
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
