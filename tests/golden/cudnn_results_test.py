"""Every file that make_cudnn_golden.py wrote, against layout, judge and ops; and the program."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.golden import fake_cudnn
from tests.golden import make_cudnn_golden as program
from tests.python import running
from tests.reference import cases, judge
from tf_cudnn_rnn import weights

FOLDER = pathlib.Path(__file__).resolve().parent / "cudnn"
FILES = sorted(FOLDER.glob("*.npz"))
PROGRAM = pathlib.Path(program.__file__)

# ------------------------------------------------------------------------------------
# The comparison
# ------------------------------------------------------------------------------------


def load(path: pathlib.Path) -> dict[str, dict]:
    """The arrays of a file by case and name; each case's options are under "options"."""
    with np.load(path) as file:
        arrays = dict(file)
    found = {name: {"options": o} for name, o in json.loads(str(arrays["cases"])).items()}
    for key, array in arrays.items():
        if "/" in key:
            case, _, name = key.partition("/")
            found[case][name] = array
    return found


def config_of(options: dict) -> judge.Config:
    H, P = options["num_units"], options["num_proj"]
    return judge.Config(
        options["rnn_mode"],
        options["num_layers"],
        H,
        H if options["skip"] else program.I,
        judge.DIRECTIONS[options["num_dirs"] - 1],
        "skip_input" if options["skip"] else "linear_input",
        num_proj=0 if P == H else P,
    )


def check_layout(name: str, arrays: dict) -> None:
    """Compares size, offsets and shapes with those of this library."""
    config = config_of(arrays["options"])
    layout = weights.Layout(
        config.rnn_mode,
        config.L,
        config.H,
        config.I,
        config.direction,
        config.input_mode,
        config.num_proj,
    )
    assert arrays["size"] == layout.size, f"size of {name}"
    names = ("forward", "backward")
    for k in range(config.L * config.D):
        place = (k // config.D, names[k % config.D])
        for kind, regions in (("matrices", layout.weights), ("biases", layout.biases)):
            expected = [
                (r.offset, *r.shape) if r.size else [-1] * arrays[kind].shape[-1]
                for r in regions
                if (r.name.layer, r.name.direction) == place
            ]
            if kind == "biases" and config.has_projection:
                expected.append([-1, -1])  # a projection has none
            assert arrays[kind][k].tolist() == list(map(list, expected)), f"{kind} {k} of {name}"


def case_of(arrays: dict) -> cases.Case:
    """The call, time-major."""
    options = arrays["options"]
    lstm = options["rnn_mode"] == "lstm"
    none = np.zeros([], options["dtype"])
    swapped = {key: arrays[key] for key in ("x", "dy")}
    if options["batch_major"]:
        swapped = {key: np.ascontiguousarray(a.swapaxes(0, 1)) for key, a in swapped.items()}
    return cases.Case(
        config=config_of(options),
        **swapped,
        h0=arrays["h0"],
        c0=arrays["c0"] if lstm else none,
        params=arrays["params"],
        sequence_lengths=np.array(options["lengths"], np.int32),
        dh_n=arrays["dh_n"],
        dc_n=arrays["dc_n"] if lstm else none,
    )


def check_results(name: str, arrays: dict) -> bool:
    """Compares with the judge and both families of ops; False if cuDNN refused the call."""
    options = arrays["options"]
    if str(arrays["status"]):
        # Not all versions take sequences of length 0, which work here.
        assert 0 in options["lengths"], f"{name}: {arrays['status']}"
        return False
    case = case_of(arrays)
    ours = {"judge": running.judged(case)}
    ours |= {op: running.forward_backward(op, case) for op in (running.OWN_V3, running.V3)}
    for tensor in running.OUTPUTS + running.GRADIENTS:
        if tensor not in arrays:
            assert options["rnn_mode"] != "lstm" and tensor in ("c_n", "dc0"), f"{tensor} of {name}"
            continue
        theirs = arrays[tensor].astype(np.float64)
        if options["batch_major"] and tensor in ("y", "dx"):
            theirs = theirs.swapaxes(0, 1)
        if tensor == "dx":
            # What cuDNN leaves at padding is not documented.
            theirs = np.where(case.padding()[..., None], 0, theirs)
        allowed = running.tolerance(case, tensor, ours["judge"][tensor])
        for who, results in ours.items():
            error = np.max(np.abs(results[tensor].astype(np.float64) - theirs))
            # The ops have an error of their own.
            assert error <= allowed * (1 if who == "judge" else 2), (
                f"{tensor} of {name}: the {who} is off by {error:.3g}, {allowed:.3g} are allowed"
            )
    return True


def check(path: pathlib.Path) -> int:
    """Compares a file; returns how many calls were compared."""
    compared = 0
    for name, arrays in load(path).items():
        check_layout(name, arrays)
        if "status" in arrays:
            compared += check_results(name, arrays)
    return compared


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cudnn_says_the_same(path):
    compared = check(path)
    assert (compared > 40) == path.name.startswith("results-")


def test_layouts_have_been_asked_of_cudnn():
    (path,) = [path for path in FILES if path.name.startswith("layout-")]
    found = load(path)
    assert list(found) == [case.name for case in program.layout_cases()]
    kinds = {(a["options"]["rnn_mode"], a["options"]["num_layers"]) for a in found.values()}
    assert kinds == {(mode, layers) for mode in judge.RNN_MODES for layers in (1, 2, 3)}
    assert any(a["options"]["skip"] for a in found.values())


# ------------------------------------------------------------------------------------
# The program, with the judge in cuDNN's place
# ------------------------------------------------------------------------------------


def libraries(fake_cudart=None, **options):
    cudnn, cudart = fake_cudnn.FakeCudnn(**options), fake_cudart or fake_cudnn.FakeCudart()
    return cudnn, cudart


def written(folder, cudnn, cudart, layout_only=False) -> pathlib.Path:
    path = program.write(
        folder,
        program.Library(cudnn, program.CUDNN, "cudnnGetErrorString"),
        None if layout_only else program.Library(cudart, program.CUDART, "cudaGetErrorString"),
        seed=7,
    )
    assert not cudnn.errors and not cudart.errors
    return path


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    cudnn, cudart = libraries()
    path = written(tmp_path_factory.mktemp("dry"), cudnn, cudart)
    assert not cudart.memory  # all of it was given back
    return path


def test_a_dry_run_is_written_and_compared(dry_run):
    assert dry_run.name == "results-9.27.0-sm90.npz"
    assert check(dry_run) == len(program.result_cases())
    with np.load(dry_run) as file:
        about = json.loads(str(file["about"]))
    assert (about["cudnn"], about["runtime"], about["seed"]) == ("9.27.0", 12090, 7)
    assert dry_run.stat().st_size < 1e6


def test_a_layout_is_written_without_a_gpu(tmp_path):
    path = written(tmp_path, *libraries(fake_cudnn.FakeCudart(devices=0)), layout_only=True)
    assert path.name == "layout-9.27.0.npz" and check(path) == 0
    assert load(path).keys() == {case.name for case in program.layout_cases()}


NAME = "lstm-2x2-2_4_1-float64"


@pytest.mark.parametrize(
    ("tensor", "index", "message"),
    [
        *(
            (name, (0,), f"{name} of {NAME}: the judge is off by")
            for name in (*running.OUTPUTS, *running.GRADIENTS)
        ),
        ("params", (3,), f"of {NAME}: the judge is off by"),
        ("size", (), f"size of {NAME}"),
        ("matrices", (1, 2, 0), f"matrices 1 of {NAME}"),
        ("matrices", (0, 0, 2), f"matrices 0 of {NAME}"),
        ("biases", (3, 7, 0), f"biases 3 of {NAME}"),
    ],
)
def test_a_tampered_file_is_seen(dry_run, tensor, index, message):
    arrays = load(dry_run)[NAME]
    check_layout(NAME, arrays)
    assert check_results(NAME, arrays)
    changed = arrays[tensor].copy()
    if changed.ndim == 3 and tensor not in ("matrices", "biases"):
        index = (0, 1, 0)  # a valid step of the longest row
    changed[index] += 1 if changed.dtype.kind == "i" else 1e-9
    with pytest.raises(AssertionError, match=message):
        check_layout(NAME, arrays | {tensor: changed})
        check_results(NAME, arrays | {tensor: changed})


@pytest.mark.parametrize("wrong", ["y", "dx", "dparams"])
def test_wrong_results_are_seen(tmp_path, wrong):
    path = written(tmp_path, *libraries(wrong=wrong))
    with pytest.raises(AssertionError, match=f"{wrong} of rnn_relu-1x1-float64: the judge is off"):
        check(path)


def test_calls_that_cudnn_refuses_are_noted(tmp_path):
    path = written(tmp_path, *libraries(refuses_zero=True))
    found = load(path)
    name = "gru-2x2-2_0_4-float64"
    assert str(found[name]["status"]) == "cudnnRNNForward: 3000 STATUS_3000"
    refused = [case for case in program.result_cases() if 0 in case.lengths]
    assert check(path) == len(program.result_cases()) - len(refused)
    other = found["gru-1x1-float64"]
    with pytest.raises(AssertionError, match="gru-1x1-float64: it broke"):
        check_results("gru-1x1-float64", other | {"status": np.array("it broke")})


def test_without_a_gpu_it_says_so(tmp_path):
    for cudart, options, message in (
        (fake_cudnn.FakeCudart(devices=0), {}, "There is no NVIDIA GPU that CUDA can use."),
        (None, {"version": 8907}, "The library must be cuDNN 9; it is 8.9.7."),
    ):
        with pytest.raises(program.Unavailable) as refusal:
            written(tmp_path, *libraries(cudart, **options))
        assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cudart", "/no/such/file"], "There is no library /no/such/file."),
        (["--layout-only", "--cudnn", "/no/such/file"], "There is no library /no/such/file."),
    ],
)
def test_without_its_libraries_it_ends_with_a_sentence(arguments, message):
    run = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"make_cudnn_golden.py: {message}\n"


def test_help():
    run = subprocess.run([sys.executable, PROGRAM, "--help"], capture_output=True, text=True)
    assert run.returncode == 0 and "--layout-only" in run.stdout


def test_cases_have_names_of_their_own():
    for found in (program.layout_cases(), program.result_cases()):
        assert len({case.name for case in found}) == len(found)


def test_all_options_are_asked_for():
    found = program.result_cases()
    for field, values in (
        ("rnn_mode", judge.RNN_MODES),
        ("num_layers", (1, 2)),
        ("num_dirs", (1, 2)),
        ("num_proj", (2, 5)),
        ("skip", (False, True)),
        ("batch_major", (False, True)),
        ("dtype", ("float32", "float64")),
    ):
        assert {getattr(case, field) for case in found} == set(values), field
