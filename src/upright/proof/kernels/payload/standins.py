"""What an engine's kernel files import and a machine without a GPU cannot give -> stand-ins that answer or refuse.

`target` is set before any extracted module is loaded: modules ask for the capability when they are imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NoReturn

from .tensors import DTYPES, Dtype, FakeTensor, FloatInfo, NotKnownError, TensorDevice


class StandinTarget:
    """What everybody is told about the GPU."""

    capability = (0, 0)
    device_name = ""


target = StandinTarget()


class Missing:
    """A name that nothing here can answer for: harmless until it is used."""

    def __init__(self, refusal: str) -> None:
        object.__setattr__(self, "_refusal", refusal)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise NotKnownError(object.__getattribute__(self, "_refusal"))

    __call__ = __getitem__ = __bool__ = __eq__ = __lt__ = __gt__ = __add__ = __iter__ = __contains__ = _refuse

    def __hash__(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Triton and inspect ask every global for such things
            raise AttributeError(name)
        self._refuse()


def missing(name: str, module: str) -> Missing:
    return Missing(f"{name} (imported from {module}) is not in the engine's source")


def lazily(module: str, name: str) -> Any:
    """A name of another extracted module; if that cannot be loaded, only those who use the name hear of it."""
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # the engine's own code runs when its module is loaded
        return Missing(f"{name} cannot be loaded: {error}")


class ConfigurationTried:
    """Which of an autotuned kernel's launches is made just now."""

    group = 0
    configurations: int | None = None


tried = ConfigurationTried()


class Autotuned:
    """In place of @triton.autotune: launches every configuration once, where a GPU would time them and keep one."""

    def __init__(self, name: str, function: Any, configurations: Callable[[], Any] | None) -> None:
        self.name, self.fn, self._configurations = name, function, configurations
        self.arg_names = getattr(function, "arg_names", ())

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *args, **options: self.run(*args, grid=grid, warmup=False, **options)

    def run(self, *args: Any, grid: object, warmup: bool, **options: Any) -> None:
        tried.group += 1
        configurations = self._known()
        try:
            tried.configurations = len(configurations)
            for one in configurations:
                chosen = {**one.kwargs, "num_warps": one.num_warps, "num_stages": one.num_stages}
                self.fn.run(*args, grid=grid, warmup=warmup, **{**options, **chosen})
        finally:
            tried.configurations = None

    def _known(self) -> list[Any]:
        try:
            found = list(self._configurations()) if self._configurations is not None else []
        except Exception:  # the engine's own expression: it may ask a GPU
            found = []
        if found and all(hasattr(one, "kwargs") and hasattr(one, "num_warps") for one in found):
            return found
        count = f"{len(found)} configurations" if found else "configurations"
        raise NotKnownError(f"{self.name} is autotuned: which of its {count} runs is decided by timing them on the GPU")


def autotuned(name: str, configurations: Callable[[], Any] | None = None) -> Callable[[Any], Autotuned]:
    return lambda function: Autotuned(name, function, configurations)


class Settings:
    """An engine's environment switches, at the defaults which its own file states."""

    def __init__(self, module: str, defaults: dict[str, Any], *, wrapped: bool) -> None:
        self._module, self._defaults, self._wrapped = module, defaults, wrapped

    def __getattr__(self, name: str) -> Any:
        if name not in self._defaults:
            raise NotKnownError(f"the default of {name} cannot be read from {self._module}")
        default = self._defaults[name]
        return _Switch(default) if self._wrapped else default


class _Switch:
    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value


class Logger:
    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_args, **_kwargs: None


def get_logger(*_args: object) -> Logger:
    return Logger()


class Cuda:
    def get_device_capability(self, _device: object = None) -> tuple[int, int]:
        return target.capability

    def __getattr__(self, name: str) -> NoReturn:
        raise NotKnownError(f"torch.cuda.{name} is not known without a GPU")


class TorchVersion:
    """A build for NVIDIA's GPUs; of which CUDA is not said."""

    hip = xpu = None

    def __getattr__(self, name: str) -> NoReturn:
        raise NotKnownError(f"torch.version.{name} is not known without torch")


class Torch:
    """The few things of torch that launchers use before they launch."""

    Tensor = FakeTensor
    finfo = FloatInfo
    dtype = Dtype
    device = TensorDevice
    cuda = Cuda()
    version = TorchVersion()

    def __getattr__(self, name: str) -> Any:
        if name in DTYPES:
            return DTYPES[name]
        raise NotKnownError(f"torch.{name} is not known to the stand-in")

    def _new(self, *shape: Any, dtype: Dtype | None = None, device: object = None) -> FakeTensor:
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return FakeTensor((dtype or DTYPES["float32"]).name, lengths)

    empty = zeros = ones = _new

    def empty_like(self, tensor: FakeTensor, dtype: Dtype | None = None) -> FakeTensor:
        return FakeTensor((dtype or tensor.dtype).name, tensor.shape, tensor.strides)

    zeros_like = empty_like

    def tensor(self, _value: object, dtype: Dtype | None = None, device: object = None) -> FakeTensor:
        return FakeTensor((dtype or DTYPES["float32"]).name, ())


torch = Torch()


class Platform:
    """vLLM's current_platform on an NVIDIA GPU of the target's capability."""

    def is_cuda(self) -> bool:
        return True

    is_cuda_alike = is_cuda

    def is_rocm(self) -> bool:
        return False

    is_xpu = is_cpu = is_tpu = is_rocm

    def get_device_capability(self, _device: int = 0) -> Capability:
        return Capability(target.capability)

    def is_device_capability(self, wanted: tuple[int, int] | int, _device: int = 0) -> bool:
        return target.capability == _pair(wanted)

    def has_device_capability(self, wanted: tuple[int, int] | int, _device: int = 0) -> bool:
        return target.capability >= _pair(wanted)

    def is_device_capability_family(self, wanted: int, _device: int = 0) -> bool:
        return target.capability[0] == wanted // 10

    def is_arch_support_pdl(self, _device: int = 0) -> bool:
        return target.capability[0] >= 9

    def fp8_dtype(self) -> Dtype:
        return DTYPES["float8_e4m3fn"]

    def __getattr__(self, name: str) -> NoReturn:
        raise NotKnownError(f"current_platform.{name} is not known without a GPU")


class Capability(tuple):  # type: ignore[type-arg]
    @property
    def major(self) -> int:
        return int(self[0])

    @property
    def minor(self) -> int:
        return int(self[1])

    def to_int(self) -> int:
        return self.major * 10 + self.minor


def _pair(wanted: tuple[int, int] | int) -> tuple[int, int]:
    return divmod(wanted, 10) if isinstance(wanted, int) else (wanted[0], wanted[1])


current_platform = Platform()


class ServerArguments:
    """SGLang's own, as they are when nobody asked for anything."""

    enable_deterministic_inference = False

    @property
    def deterministic(self) -> ServerArguments:
        return self

    def __getattr__(self, name: str) -> NoReturn:
        raise NotKnownError(f"the server argument {name} is not known without the engine")


def server_arguments() -> ServerArguments:
    return ServerArguments()


def yes(*_args: object) -> bool:
    return True


def no(*_args: object) -> bool:
    return False


def is_sm90(*_args: object) -> bool:
    return target.capability[0] == 9


def is_sm100(*_args: object) -> bool:
    return target.capability[0] == 10


def is_sm120(*_args: object) -> bool:
    return target.capability[0] == 12


def is_sm90_or_newer(*_args: object) -> bool:
    return target.capability[0] >= 9


def get_device_capability(*_args: object) -> tuple[int, int]:
    return target.capability


def get_device_name(*_args: object) -> str:
    return target.device_name


def get_device_sm(*_args: object) -> int:
    return target.capability[0] * 10 + target.capability[1]


def grouped_fp8(tensor: FakeTensor, group: int, *_args: object, **_kwargs: object) -> tuple[FakeTensor, FakeTensor]:
    return _grouped(tensor, group, "float8_e4m3fn")


def grouped_int8(tensor: FakeTensor, group: int, *_args: object, **_kwargs: object) -> tuple[FakeTensor, FakeTensor]:
    return _grouped(tensor, group, "int8")


def per_token_int8(tensor: FakeTensor, *_args: object, **_kwargs: object) -> tuple[FakeTensor, FakeTensor]:
    return _grouped(tensor, tensor.shape[-1], "int8")


def scaled_fp8(
    tensor: FakeTensor, scale: FakeTensor | None = None, use_per_token_if_dynamic: bool = False, **_kwargs: object
) -> tuple[FakeTensor, FakeTensor]:
    rows = (tensor.shape[0], 1) if use_per_token_if_dynamic else (1,)
    return FakeTensor("float8_e4m3fn", tensor.shape), scale or FakeTensor("float32", rows)


def _grouped(tensor: FakeTensor, group: int, dtype: str) -> tuple[FakeTensor, FakeTensor]:
    groups = -(-tensor.shape[-1] // group)
    return FakeTensor(dtype, tensor.shape), FakeTensor("float32", (*tensor.shape[:-1], groups))
