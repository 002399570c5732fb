"""from_torch of what torch.save wrote: by a stand-in for PyTorch, and by itself if it is there."""

import sys
import types
import zipfile

import numpy as np
import pytest

from tf_cudnn_rnn import weights

STATE = weights.to_torch(
    weights.from_cudnn(np.linspace(-1, 1, 128, dtype=np.float32), "lstm", 1, 4, 2)
).arrays
EVIL = "Weights only load failed. GLOBAL os.system was not an allowed global by default."
NO_ARRAY = np.zeros([0], np.int8)


class Tensor:
    """As much of PyTorch's as is read."""

    layout = "torch.strided"

    def __init__(self, values, dtype="torch.float32"):
        self.values, self.dtype = values, dtype

    def detach(self):
        return self

    def numel(self):
        return self.values.size

    def element_size(self):
        return self.values.itemsize

    def contiguous(self):
        return self

    def view(self, dtype):
        assert dtype == "int16" and self.dtype == "torch.bfloat16"
        return Tensor(self.values, "torch.int16")

    def numpy(self):
        if self.dtype in ("torch.bfloat16", "torch.qint8"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.values


def tensors(state=STATE):
    return {name: Tensor(values) for name, values in state.items()}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"PK")
    return path


@pytest.fixture
def pytorch(monkeypatch):
    """Lets torch.load return what the test sets as `holds`, or raise it."""

    def load(file, *, map_location, weights_only):
        assert (map_location, weights_only) == ("cpu", True)
        assert file.read() == b"PK"
        if isinstance(fake.holds, Exception):
            raise fake.holds
        return fake.holds

    fake = types.SimpleNamespace(
        load=load,
        is_tensor=lambda value: isinstance(value, Tensor),
        int16="int16",
        __version__="2.6.0+cpu",
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


def assert_read(path, **options):
    expected = weights.from_torch(STATE, "lstm")
    found = weights.from_torch(path, "lstm", **options)
    np.testing.assert_array_equal(found.params, expected.params)


@pytest.mark.parametrize("ending", ["pt", "pth"])
def test_a_state_dict(pytorch, path, ending):
    pytorch.holds = tensors() | {"head.weight": Tensor(NO_ARRAY, "torch.qint8"), "epoch": 3}
    assert_read(path.rename(path.with_suffix(f".{ending}")))


def test_a_checkpoint_with_a_state_dict_inside(pytorch, path):
    inside = {f"rnn.{name}": tensor for name, tensor in tensors().items()}
    pytorch.holds = {"epoch": 3, "state_dict": inside, "optimizer": {"lr": 0.1}}
    assert_read(path)
    assert_read(path, prefix="state_dict.rnn.")


def test_bfloat16(pytorch, path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    state = {name: values.astype(ml_dtypes.bfloat16) for name, values in STATE.items()}
    pytorch.holds = {
        name: Tensor(values.view(np.int16), "torch.bfloat16") for name, values in state.items()
    }
    found = weights.from_torch(path, "lstm")
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found.params, weights.from_torch(state, "lstm").params)


def test_views_of_few_numbers(pytorch, path, monkeypatch):
    """Such as those that one number, again and again, makes in a file of 900 bytes."""
    H, columns = 1200, 1500  # weight_ih of 29 MB
    shapes = {"weight_ih_l0": (4 * H, columns), "weight_hh_l0": (4 * H, H)}
    number = np.zeros([], np.float32)
    pytorch.holds = {name: Tensor(np.broadcast_to(number, shape)) for name, shape in shapes.items()}
    monkeypatch.setattr(Tensor, "numpy", lambda self: pytest.fail("it was read"))
    monkeypatch.setattr(Tensor, "contiguous", lambda self: pytest.fail("it was copied"))
    message = (
        r"The tensors of the RNN in .*model.pt must have at most 50331650 bytes of weights, as the "
        "file has 2; they refer to 51840000, the same bytes again and again"
    )
    for dtype in ("torch.float32", "torch.bfloat16"):
        for tensor in pytorch.holds.values():
            tensor.dtype = dtype
        with pytest.raises(ValueError, match=message):
            weights.from_torch(path, "lstm")


def test_an_rnn_under_two_names(pytorch, path):
    """Only the one that is read counts, and so do tensors that are no RNN's."""
    numbers = np.broadcast_to(np.zeros([], np.float32), (20_000_000,))
    pytorch.holds = tensors() | {
        "embedding": Tensor(numbers),
        "other.weight_ih_l0": Tensor(numbers),
    }
    assert_read(path, prefix="")


def test_a_zip_bomb(pytorch, path):
    """PyTorch would unpack it, as it does what it never writes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data/0", bytes(60_000_000))
    pytorch.holds = AssertionError("it was loaded")
    with pytest.raises(ValueError, match="model/data/0 in .*model.pt would take 60000000 bytes"):
        weights.from_torch(path, "lstm")


@pytest.mark.parametrize(
    ("holds", "message"),
    [
        (RuntimeError(EVIL), "model.pt is damaged, or forged: torch.load says .*os.system"),
        ([1, 2], "model.pt must hold a mapping of names to tensors, .*; it holds list"),
        ({"epoch": 3}, "model.pt: `state` must hold weight_ih_l0 .* no RNN but nothing"),
    ],
)
def test_what_is_refused(pytorch, path, holds, message):
    pytorch.holds = holds
    with pytest.raises(ValueError, match=message):
        weights.from_torch(path, "lstm")


def test_a_quantised_weight(pytorch, path):
    pytorch.holds = tensors() | {"weight_ih_l0": Tensor(NO_ARRAY, "torch.qint8")}
    message = "model.pt: `weight_ih_l0` must be an array of floats; got torch.qint8, torch.strided"
    with pytest.raises(ValueError, match=message):
        weights.from_torch(path, "lstm")


def test_no_pytorch_or_one_that_runs_code(monkeypatch, pytorch, path):
    pytorch.__version__ = "2.5.1+cu121"
    with pytest.raises(ImportError, match=r"model.pt needs PyTorch 2.6 or later.*found 2\.5\.1"):
        weights.from_torch(path, "lstm")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"model.pt can be read by PyTorch alone.*safetensors"):
        weights.from_torch(path, "lstm")
    with pytest.raises(FileNotFoundError):
        weights.from_torch(path.with_name("none.pt"), "lstm")


def test_pytorch_itself(tmp_path):
    torch = pytest.importorskip("torch", "2.6")
    state = {name: torch.from_numpy(values) for name, values in STATE.items()}
    for holds in (state, {"state_dict": state, "epoch": 3}):
        torch.save(holds, tmp_path / "model.pt")
        assert_read(tmp_path / "model.pt")
    torch.save({"code": test_bfloat16}, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="torch.load says .*Weights only load failed"):
        weights.from_torch(tmp_path / "model.pt", "lstm")
