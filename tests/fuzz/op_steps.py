"""Which steps of a call are valid, and in which order they are taken.

Ops take lengths. KerasRNN takes masks, too, may begin with the last step, and may repeat outputs at
steps that are not valid. The judge knows lengths alone: for it, valid steps move to the front.
"""

import dataclasses

import numpy as np

from tests.fuzz import op_calls


@dataclasses.dataclass(frozen=True)
class Steps:
    """Those of a call. What is "in order" is [T, B, ...], and begins with what is taken first."""

    valid: np.ndarray  # bool [T, B], in order
    time_major: bool
    go_backwards: bool
    repeats: bool

    @property
    def identity(self) -> tuple:
        """What a forward call and its Backprop have to agree in."""
        return self.valid.tobytes(), self.go_backwards

    @property
    def lengths(self) -> np.ndarray:
        return self.valid.sum(axis=0, dtype=np.int32)

    @property
    def have_output(self) -> np.ndarray:
        """bool [T, B], in order: at which `output` holds that of a valid step."""
        return np.logical_or.accumulate(self.valid) if self.repeats else self.valid

    def in_order(self, tensor: np.ndarray, is_output: bool = False) -> np.ndarray:
        """A view of a tensor of the op; `output`, and its gradient, are in order themselves."""
        steps = tensor if self.time_major else np.swapaxes(tensor, 0, 1)
        return steps[::-1] if self.go_backwards and not is_output else steps

    def to_front(self, tensor: np.ndarray, is_output: bool = False) -> np.ndarray:
        """A tensor of the op with each row's valid steps in front, and zeros behind them."""
        places = np.argsort(~self.valid, axis=0, kind="stable")
        moved = np.take_along_axis(self.in_order(tensor, is_output), places[:, :, None], axis=0)
        moved[np.arange(len(moved))[:, None] >= self.lengths] = 0
        return moved if self.time_major else np.swapaxes(moved, 0, 1)

    def padded(self, output: np.ndarray) -> np.ndarray:
        """What `output` has to be in order, if it is right at valid steps."""
        steps = self.in_order(output, is_output=True)
        places = np.where(self.valid, np.arange(len(steps))[:, None], 0)
        last = np.maximum.accumulate(places)[:, :, None]
        padded = np.take_along_axis(steps, last, axis=0)
        padded[~self.have_output] = 0
        return padded

    def without_repeats(self, gradient: np.ndarray) -> np.ndarray:
        """That of `output`, with those of repeated outputs added to that of what they repeat."""
        if not self.repeats:
            return gradient
        gradient = gradient.astype(np.float64)
        steps = self.in_order(gradient, is_output=True)
        for t in range(len(steps) - 1, 0, -1):
            steps[t - 1] += np.where(self.valid[t][:, None], 0, steps[t])
        return gradient


def steps_of(call: dict, tensors: dict, sizes: op_calls.Sizes) -> Steps:
    """Those of a call, whose tensors, by input, are arrays."""
    time_major = op_calls.attribute(call, "time_major")
    has_options = "go_backwards" in op_calls.attributes_of(call["op"])
    go_backwards = has_options and op_calls.attribute(call, "go_backwards")
    if sizes.B == 0:
        valid = np.zeros([sizes.T, 0], bool)  # T may be larger than memory
    else:
        lengths = tensors.get("sequence_lengths", np.full([sizes.B], sizes.T))
        valid = np.arange(sizes.T)[:, None] < lengths
        for mask in tensors.get("masks", []):
            valid &= mask if time_major else mask.T
    return Steps(
        valid[::-1] if go_backwards else valid,
        time_major,
        go_backwards,
        has_options and not op_calls.attribute(call, "zero_output_for_mask"),
    )


def described_steps(call: dict, tensors: dict, sizes: op_calls.Sizes) -> Steps:
    """The same of tensors as op_calls.py describes them."""

    def array(tensor):
        return np.array(tensor["values"], tensor["dtype"]).reshape(tensor["shape"])

    arrays = {"masks": list(map(array, tensors.get("masks", [])))}
    if "sequence_lengths" in tensors:
        arrays["sequence_lengths"] = array(tensors["sequence_lengths"])
    return steps_of(call, arrays, sizes)
