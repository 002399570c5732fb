"""from_torch of what torch.save wrote: by a stand-in for PyTorch, and by itself if it is there."""

import struct
import sys
import zipfile

import numpy as np
import pytest

from tests.weights import pytorch as stand_in
from tests.weights.pytorch import Tensor
from tf_cudnn_rnn import runtime, weights

STATE = weights.to_torch(
    weights.from_cudnn(np.linspace(-1, 1, 128, dtype=np.float32), "lstm", 1, 4, 2)
).arrays
EVIL = "Weights only load failed. GLOBAL os.system was not an allowed global by default."
NO_ARRAY = np.zeros([0], np.int8)


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

    fake = stand_in.module(load)
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


def _split(path) -> tuple[bytes, bytes]:
    """The members of a zip file, and its directory."""
    content = path.read_bytes()
    size, begin = struct.unpack("<2L", content[-10:-2])
    return content[:begin], content[begin : begin + size]


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """A file that unpacks to 60 MB: its members, its directory, and one that says 60 bytes."""
    path = tmp_path_factory.mktemp("bomb") / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/version", b"3" + b"\n" * 59_999_999)  # which PyTorch reads first
    members, directory = _split(path)
    return members, directory, directory[:24] + struct.pack("<L", 60) + directory[28:]


def _end(size: int, begin: int) -> bytes:
    """The end of a zip file of one member.

    Args:
      size: of its directory.
      begin: where that begins.
    """
    return struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, begin, 0)


def _ends(size: int, begin: int, end: int, address: int | None = None) -> bytes:
    """The same, first in 64 bits and then in 32, as PyTorch writes it.

    Args:
      end: where this stands.
      address: what says so, if not `end`.
    """
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, begin)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end if address is None else address, 1)
    return end_64 + locator + _end(size, begin)


def test_zip_files_with_one_directory(pytorch, path, bomb):
    """With each of the ends."""
    members, _, directory = bomb
    size, begin = len(directory), len(members)
    pytorch.load = lambda file, **options: tensors()
    for ends in (_end(size, begin), _ends(size, begin, begin + size)):
        path.write_bytes(members + directory + ends)
        assert_read(path)


def bombs(members: bytes, bomb: bytes, directory: bytes) -> dict[str, bytes]:
    """Files in which the end leads PyTorch to the bomb, and zipfile to what is before the end."""
    size, begin = len(bomb), len(members)
    both = members + bomb + directory
    other_end = members + bomb + _ends(size, begin, begin + size)[:56] + directory
    at = len(other_end)
    return {
        "end": both + _end(size, begin),
        "end_of_64_bits": both + _ends(size, begin, len(both)),
        "address_of_that": other_end + _ends(size, at - size, at, begin + size),
    }


@pytest.mark.parametrize("leads", bombs(b"", b"", b""))
def test_a_zip_bomb_in_another_directory(pytorch, path, bomb, leads):
    path.write_bytes(bombs(*bomb)[leads])
    pytorch.holds = AssertionError("it was loaded")
    message = "must have one directory of its members, right before its end, and no"
    with pytest.raises(ValueError, match=f"model.pt {message}"):
        weights.from_torch(path, "lstm")


def test_a_zip_bomb_whose_size_is_there_twice(pytorch, path, bomb):
    """In 64 bits each: PyTorch takes the first, of 4 GB, and zipfile goes on to the second."""
    members, directory, _ = bomb
    extra = struct.pack("<2HQ2HQ", 1, 8, 2**32 - 1, 1, 8, 60)
    lengths = directory[28:30] + struct.pack("<H", len(extra))
    directory = directory[:24] + b"\xff" * 4 + lengths + directory[32:] + extra
    path.write_bytes(members + directory + _end(len(directory), len(members)))
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].file_size == 60
    pytorch.holds = AssertionError("it was loaded")
    with pytest.raises(ValueError, match=r"model/version in .*model.pt must have its size once"):
        weights.from_torch(path, "lstm")


def test_a_mapping_under_many_names(pytorch, path):
    """A few bytes of a file each, for thousands of names of tensors."""
    inside = dict.fromkeys(map(str, range(3000)), Tensor(NO_ARRAY))
    pytorch.holds = tensors() | dict.fromkeys(map(str, range(3000)), inside)
    with pytest.raises(ValueError, match=r"model.pt must have names of tensors .* at most"):
        weights.from_torch(path, "lstm", prefix="")
    pytorch.holds = tensors() | {"a" * 20_000_000: dict.fromkeys("abc", Tensor(NO_ARRAY))}
    with pytest.raises(ValueError, match=r"model.pt must have names of tensors .* at most"):
        weights.from_torch(path, "lstm", prefix="")


def test_names_that_are_no_texts(pytorch, path):
    """They are of nothing that is read, be they what they will."""
    deep = ()
    for _ in range(3000):
        deep = (deep,)
    pytorch.holds = tensors() | {deep: tensors(), 10**5000: Tensor(NO_ARRAY), 0: {deep: 1}}
    assert_read(path)


@pytest.mark.parametrize(
    ("holds", "message"),
    [
        (RuntimeError(EVIL), "model.pt is damaged, or forged: torch.load says .*os.system"),
        (
            RuntimeError("Cannot use ``weights_only=True`` with TorchScript archives passed"),
            "model.pt must hold tensors alone, .*; it holds a model of TorchScript, which",
        ),
        (
            RuntimeError("Unsupported global: GLOBAL torch.nn.LSTM was not an allowed global by"),
            "it holds an object torch.nn.LSTM, which is not loaded, .* save the tensors",
        ),
        ([1, 2], "model.pt must hold a mapping of names to tensors, .*; it holds list"),
        ({"epoch": 3}, "model.pt: `state` must hold weight_ih_l0 .* no RNN but nothing"),
    ],
)
def test_what_is_refused(pytorch, path, holds, message):
    pytorch.holds = holds
    with pytest.raises(ValueError, match=message):
        weights.from_torch(path, "lstm")


@pytest.mark.parametrize(
    ("dtype", "layout", "kind"),
    [
        ("torch.qint8", "torch.strided", ""),
        ("torch.bfloat16", "torch.sparse_coo", ""),
        ("torch.bfloat16", "torch.strided", "meta"),
    ],
)
def test_a_weight_that_is_no_array(pytorch, path, dtype, layout, kind):
    pytorch.holds = tensors() | {"weight_ih_l0": Tensor(NO_ARRAY, dtype, layout, kind)}
    message = f"model.pt: `weight_ih_l0` must be an array of floats; got {dtype}, {layout}"
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
    with pytest.raises(ValueError, match="it holds an object tests.weights.torch_file_test.test_"):
        weights.from_torch(tmp_path / "model.pt", "lstm")
    module = torch.nn.LSTM(3, 4)
    torch.jit.save(torch.jit.script(module), tmp_path / "model.pt")
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="a model of TorchScript"):
        weights.from_torch(tmp_path / "model.pt", "lstm")
    parameters = dict(module.named_parameters())  # which require gradients
    expected = weights.from_torch(module.state_dict(), "lstm").params
    np.testing.assert_array_equal(weights.from_torch(parameters, "lstm").params, expected)


def test_tensors_that_are_not_in_a_file():
    """As parameters are, which NumPy does not take as they are."""
    state = {name: Tensor(values) for name, values in STATE.items()}
    np.testing.assert_array_equal(
        weights.from_torch(state, "lstm").params, weights.from_torch(STATE, "lstm").params
    )


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that the stand-in for PyTorch reads; its first bytes say that it is a pickle."""
    file = tmp_path / "model.pt"
    file.write_bytes(b"\x80\x02}.")
    state = {f"encoder.{name}": tensor for name, tensor in tensors().items()}
    module = stand_in.module(lambda *_, **__: {"state_dict": state})
    monkeypatch.setitem(sys.modules, "torch", module)
    return file


def test_load_reads_one_if_it_is_asked_to(file):
    expected = weights.from_torch(STATE, "lstm").params
    for given in ({}, {"prefix": "state_dict.encoder."}, {"rnn_mode": "lstm"}):
        found = weights.load(file, format="torch", **given)
        np.testing.assert_array_equal(found.params, expected)
    network = runtime.Network.load(file, format="torch")
    assert network.layout == found.layout


def test_load_reads_none_unasked(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match='is a pickle, which may run code .* pass format="torch"'):
        weights.load(file)
    for other in ("keras", "params", "checkpoint"):
        with pytest.raises(ValueError, match=f'format="{other}" reads: .* is another: pickle'):
            weights.load(file, format=other)
    with pytest.raises(ImportError, match="can be read by PyTorch alone"):
        weights.load(file, format="torch")


def test_load_refuses_tensors_that_have_no_shape(file, monkeypatch):
    for name in ("weight_hh_l0", "weight_hr_l0"):
        state = tensors() | {name: Tensor(STATE["weight_hh_l0"], kind="nested")}
        monkeypatch.setitem(sys.modules, "torch", stand_in.module(lambda *_, s=state, **__: s))
        with pytest.raises(ValueError, match=f"model.pt: `{name}` must be an array of floats"):
            weights.load(file, format="torch")


@pytest.mark.parametrize("name", ["model.pth.tar", "model.model", "model"])
def test_load_reads_one_of_any_name(file, name):
    expected = weights.load(file, format="torch").params
    found = weights.load(file.rename(file.with_name(name)), format="torch").params
    np.testing.assert_array_equal(found, expected)
