"""Take a training state apart into plain values, and put it back in place."""

from __future__ import annotations

import copy
import random
from collections import OrderedDict
from collections.abc import MutableMapping, MutableSequence
from typing import Any

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from helpers.errors import HelpersError, InvalidRequest
from helpers.training.checkpoints.encoding import ObjectState

_GENERATORS = (torch.Generator, random.Random, np.random.Generator)


class StateMismatch(HelpersError, ValueError):
    """A checkpoint does not fit the objects that it is to be loaded into."""


def capture(value: Any, path: str = "state") -> Any:
    """Return ``value`` with every object replaced by its :class:`ObjectState`; tensors are not copied.

    Raises:
        InvalidRequest: If an object is sharded, or cannot be loaded in place.
    """
    target = unwrap(value)
    _refuse_unfit(target, path)
    if is_object(target):
        return ObjectState(target.state_dict())
    if isinstance(target, _GENERATORS):
        return ObjectState(_generator_state(target))
    if type(target) is dict or (isinstance(target, MutableMapping) and path == "state"):
        return {key: capture(item, f"{path}.{key}") for key, item in target.items()}
    if type(target) is OrderedDict:
        captured = copy.copy(target)  # with the versions that a module's state carries
        captured.update((key, capture(item, f"{path}.{key}")) for key, item in target.items())
        return captured
    if type(target) in {list, tuple}:
        return type(target)(capture(item, f"{path}.{index}") for index, item in enumerate(target))
    return target


def _refuse_unfit(target: Any, path: str) -> None:
    """Refuse what would be saved wrongly, or could not be loaded in place."""
    if {base.__name__ for base in type(target).__mro__} & {"FullyShardedDataParallel", "FSDPModule"}:
        raise InvalidRequest(
            f"{path} is sharded over the ranks (FSDP); sharded state cannot be kept yet.",
            hint="Use DDP: model = wrap(model); or torch.distributed.checkpoint for this model.",
        )
    if isinstance(target, DataLoader) and not is_object(target):
        raise InvalidRequest(
            f"{path} is a DataLoader of torch, which does not know its position.",
            hint="loader = make_loader(dataset, batch_size=…, shuffle=True)",
        )
    if isinstance(target, torch.Tensor) and _repeats_itself(target):
        raise InvalidRequest(
            f"{path} shows the same memory several times, so that nothing can be loaded into it.",
            hint="tensor.clone()  # of what expand() has returned",
        )


def restore(current: Any, saved: Any, path: str = "state") -> Any:
    """Load ``saved`` into ``current`` and return what belongs in its place.

    Objects and tensors are loaded in place and returned; dictionaries and lists are changed in place; all
    else is replaced by what was saved.

    Raises:
        StateMismatch: If the two do not have the same form.
    """
    target = unwrap(current)
    if isinstance(saved, ObjectState):
        return _restore_object(current, target, saved.state, path)
    if is_object(target) or isinstance(target, _GENERATORS):
        raise StateMismatch(f"{path} was saved as a plain {type(saved).__name__}; now it is {_name(target)}.")
    if isinstance(target, torch.Tensor) and isinstance(saved, torch.Tensor):
        return _restore_tensor(target, saved, path)
    if isinstance(target, MutableMapping) and isinstance(saved, dict):
        return _restore_mapping(target, saved, path)
    if type(target) in {list, tuple} and type(saved) is type(target) and _holds_in_place(target):
        return _restore_sequence(target, saved, path)
    if isinstance(target, MutableSequence) and isinstance(saved, list):
        target[:] = saved
        return target
    return saved


def find_generators(value: Any, path: str = "state") -> dict[str, Any]:
    """Return the random generators in a state, by path: unlike all else they differ from rank to rank."""
    if isinstance(value, _GENERATORS):
        return {path: value}
    found: dict[str, Any] = {}
    if isinstance(value, MutableMapping):
        for key, item in value.items():
            found |= find_generators(item, f"{path}.{key}")
    elif type(value) in {list, tuple}:
        for index, item in enumerate(value):
            found |= find_generators(item, f"{path}.{index}")
    return found


def finish_loaders(state: MutableMapping[str, Any]) -> None:
    """Move the loaders in a state to their next epoch, so that what is saved from now on says so."""
    for loader in _loaders(state):
        loader.finish_epoch()


def at_last_step(state: MutableMapping[str, Any], batches_given: int) -> bool:
    """Say whether the step that has been done was the last of a loader's epoch.

    A loader for validation that is run in the midst of an epoch stays at its end through many steps.

    Args:
        state: What is saved.
        batches_given: By all loaders, when the step began.
    """
    return any(loader.ended_since(batches_given) for loader in _loaders(state))


def _loaders(value: Any) -> list[Any]:
    if callable(getattr(value, "finish_epoch", None)):
        return [value]
    items = value.values() if isinstance(value, MutableMapping) else value if type(value) in {list, tuple} else ()
    return [loader for item in items for loader in _loaders(item)]


def unwrap(value: Any) -> Any:
    """Return the model inside ``DistributedDataParallel`` and ``torch.compile``.

    So a checkpoint of four ranks loads into one process, and one of a compiled model into a plain one.
    """
    while True:
        if isinstance(value, DistributedDataParallel):
            value = value.module
        elif isinstance(value, torch.nn.Module) and isinstance(getattr(value, "_orig_mod", None), torch.nn.Module):
            value = value._orig_mod  # noqa: SLF001 -- torch has no public way to ask
        else:
            return value


def _repeats_itself(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and not is_lazy(tensor)
        and any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))
    )


def is_object(value: Any) -> bool:
    """Say whether ``value`` keeps its state itself."""
    if isinstance(value, type):
        return False
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _holds_in_place(value: Any) -> bool:
    """Say whether there is something in ``value`` that must be loaded in place."""
    if isinstance(value, (torch.Tensor, *_GENERATORS)) or is_object(unwrap(value)):
        return True
    items = value.values() if isinstance(value, MutableMapping) else value
    return isinstance(value, (MutableMapping, list, tuple)) and any(map(_holds_in_place, items))


def _restore_object(current: Any, target: Any, state: Any, path: str) -> Any:
    try:
        if is_object(target):
            _refuse_cast(target, state, path)
            target.load_state_dict(state)
        elif isinstance(target, torch.Generator):
            target.set_state(state)
        elif isinstance(target, random.Random):
            target.setstate(state)
        elif isinstance(target, np.random.Generator):
            target.bit_generator.state = state
        else:
            raise StateMismatch(f"{path} was saved from an object; now it is {_name(target)}.")
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, HelpersError):
            raise
        raise StateMismatch(
            f"{path} does not fit into this {_name(target)}: {error}",
            hint="The code or its settings changed since the checkpoint; begin a new run, or load parts with "
            "Checkpointer.load(folder, name).",
        ) from error
    return current


def _refuse_cast(target: Any, state: Any, path: str) -> None:
    """Refuse tensors of another dtype, which a module converts without a word."""
    if not isinstance(target, torch.nn.Module):
        return
    for name, tensor in target.state_dict().items():
        saved = state.get(name)
        if isinstance(tensor, torch.Tensor) and isinstance(saved, torch.Tensor) and tensor.dtype != saved.dtype:
            raise StateMismatch(
                f"{path}.{name} was saved as {saved.dtype}; now it is {tensor.dtype}.",
                hint=f"Make it {saved.dtype} before it is restored; to convert it on purpose, begin a new run with "
                "model.load_state_dict(Checkpointer.load(folder, name)).",
            )


def _restore_tensor(target: torch.Tensor, saved: torch.Tensor, path: str) -> torch.Tensor:
    if target.shape != saved.shape or target.dtype != saved.dtype:
        raise StateMismatch(
            f"{path} was saved as {saved.dtype} of shape {tuple(saved.shape)}; now it is {target.dtype} of "
            f"shape {tuple(target.shape)}.",
            hint="A tensor is loaded in place; one that grows during training begins as None, or as a list.",
        )
    try:
        with torch.no_grad():
            target.copy_(saved)
    except RuntimeError as error:  # made in torch.inference_mode(), for example
        raise StateMismatch(f"{path} cannot be loaded in place: {error}", hint="tensor.clone()") from error
    return target


def _restore_mapping(target: MutableMapping[Any, Any], saved: dict[Any, Any], path: str) -> Any:
    missing = [key for key in target if key not in saved]
    if missing and (path == "state" or any(_holds_in_place(target[key]) for key in missing)):
        raise StateMismatch(
            f"The checkpoint has no {', '.join(map(repr, missing))} in {path}; it has {sorted(map(str, saved))}.",
            hint="Begin a new run, or load parts with Checkpointer.load(folder, name).",
        )
    for key in missing:
        del target[key]
    for key, item in saved.items():
        if key in target:
            target[key] = restore(target[key], item, f"{path}.{key}")
        elif isinstance(item, ObjectState):
            raise StateMismatch(
                f"The checkpoint has an object {key!r} in {path}, and there is none to load it into.",
                hint=f"Put it into the state of the Checkpointer: {{{key!r}: ...}}.",
            )
        else:
            target[key] = item
    return target


def _restore_sequence(target: Any, saved: Any, path: str) -> Any:
    if len(target) != len(saved):
        raise StateMismatch(f"{path} was saved with {len(saved)} items; now it has {len(target)}.")
    items = [restore(old, new, f"{path}.{i}") for i, (old, new) in enumerate(zip(target, saved, strict=True))]
    if isinstance(target, tuple):
        return tuple(items)
    target[:] = items
    return target


def _generator_state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state


def _name(value: Any) -> str:
    return f"a {type(value).__qualname__}"
