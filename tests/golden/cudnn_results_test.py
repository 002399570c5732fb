"""Every file that make_cudnn_golden.py wrote, against layout, judge and ops; and the program."""

import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tests.golden import fake_cudnn
from tests.golden import make_cudnn_golden as program
from tests.helpers import running
from tests.reference import cases, judge
from tf_cudnn_rnn import weights

FOLDER = pathlib.Path(__file__).resolve().parent / "cudnn"
DROPOUT_FILES = sorted(FOLDER.glob("dropout-*.npz"))
FILES = sorted({*FOLDER.glob("*.npz")} - {*DROPOUT_FILES})
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
        dropout=options.get("dropout", 0.0),
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


def assert_near(who: str, error: float, allowed: float, tensor: str, name: str) -> None:
    assert error <= allowed, (
        f"{tensor} of {name}: the {who} is off by {error:.3g}, {allowed:.3g} are allowed"
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
    is_empty = np.array(options["lengths"]) == 0
    for tensor in running.OUTPUTS + running.GRADIENTS:
        if tensor not in arrays:
            assert options["rnn_mode"] != "lstm" and tensor in ("c_n", "dc0"), f"{tensor} of {name}"
            continue
        theirs = arrays[tensor].astype(np.float64)
        if options["batch_major"] and tensor in ("y", "dx"):
            theirs = theirs.swapaxes(0, 1)
        is_state = tensor not in ("y", "dx", "dparams")
        if is_state:
            # Here a row of length 0 keeps its state, and passes on the state's gradient.
            assert not np.any(theirs[:, is_empty]), f"{tensor} of {name}: a row of length 0"
        allowed = running.tolerance(case, tensor, ours["judge"][tensor])
        for who, results in ours.items():
            errors = np.abs(results[tensor].astype(np.float64) - theirs)
            error = np.max(errors[:, ~is_empty] if is_state else errors)
            # The ops have an error of their own.
            assert_near(who, error, allowed * (1 if who == "judge" else 2), tensor, name)
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


def written(folder, cudnn, cudart, layout_only=False) -> list[pathlib.Path]:
    paths = program.write(
        folder,
        program.Library(cudnn, program.CUDNN, "cudnnGetErrorString"),
        None if layout_only else program.Library(cudart, program.CUDART, "cudaGetErrorString"),
        seed=7,
    )
    assert not cudnn.errors and not cudart.errors
    return paths


@pytest.fixture(scope="module")
def dry_run(tmp_path_factory):
    cudnn, cudart = libraries()
    paths = written(tmp_path_factory.mktemp("dry"), cudnn, cudart)
    assert not cudart.memory  # all of it was given back
    return paths


def test_a_dry_run_is_written_and_compared(dry_run):
    assert [p.name for p in dry_run] == ["results-9.27.0-sm90.npz", "dropout-9.27.0-sm90.npz"]
    assert check(dry_run[0]) == len(program.result_cases())
    for path in dry_run:
        with np.load(path) as file:
            about = json.loads(str(file["about"]))
        assert (about["cudnn"], about["runtime"], about["seed"]) == ("9.27.0", 12090, 7)
        assert path.stat().st_size < 1e6


def test_a_layout_is_written_without_a_gpu(tmp_path):
    (path,) = written(tmp_path, *libraries(fake_cudnn.FakeCudart(devices=0)), layout_only=True)
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
    arrays = load(dry_run[0])[NAME]
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
    path, _ = written(tmp_path, *libraries(wrong=wrong))
    with pytest.raises(AssertionError, match=f"{wrong} of rnn_relu-1x1-float64: the judge is off"):
        check(path)


def test_calls_that_cudnn_refuses_are_noted(tmp_path):
    path, _ = written(tmp_path, *libraries(refuses_zero=True))
    found = load(path)
    name = "gru-2x2-2_0_4-float64"
    assert str(found[name]["status"]) == "cudnnRNNForward: 3000 STATUS_3000"
    refused = [case for case in program.result_cases() if 0 in case.lengths]
    assert check(path) == len(program.result_cases()) - len(refused)
    other = found["gru-1x1-float64"]
    with pytest.raises(AssertionError, match="gru-1x1-float64: it broke"):
        check_results("gru-1x1-float64", other | {"status": np.array("it broke")})


def test_dropout_that_cudnn_refuses_is_noted(tmp_path):
    _, path = written(tmp_path, *libraries(refuses_dropout=True))
    for arrays in load(path).values():
        assert str(arrays["status"]) == "cudnnSetDropoutDescriptor: 3000 STATUS_3000"
        assert "y_undropped" in arrays and "y" not in arrays


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
    for found in (program.layout_cases(), program.result_cases(), program.dropout_cases()):
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
        ("dtype", ("float16", "float32", "float64")),
    ):
        assert {getattr(case, field) for case in found} == set(values), field


# ------------------------------------------------------------------------------------
# Dropout between layers: cuDNN's, and the judge's in its place
# ------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[*DROPOUT_FILES, None],
    ids=lambda path: path.stem if path else "dry_run",
)
def dropout(request) -> dict[str, dict]:
    """A file, by case."""
    return load(request.param or request.getfixturevalue("dry_run")[1])


@pytest.fixture(scope="module", params=DROPOUT_FILES, ids=lambda path: path.stem)
def cudnn_dropout(request) -> dict[str, dict]:
    """A file of cuDNN itself, where it is known to differ from the judge."""
    return load(request.param)


def valid_steps(arrays: dict) -> np.ndarray:
    return ~case_of(arrays).padding()


def halves(arrays: dict, y: str) -> list[np.ndarray]:
    """What dropout multiplied layer 1's forward half by, [valid steps, H].

    So does each direction of layer 2 tell, for it passes on what it reads.
    """
    valid = valid_steps(arrays)
    return np.split(arrays[y][valid] / arrays["y_undropped"][valid], 2, axis=-1)


def are_close(one: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(one, other, rtol=1e-12, atol=1e-12)


def test_dropout_has_been_computed(dropout):
    assert list(dropout) == [case.name for case in program.dropout_cases()]
    for name, arrays in dropout.items():
        check_layout(name, arrays)
        assert str(arrays["status"]) == "", name


def test_dropout_zeroes_its_share_and_scales_the_rest(dropout):
    for name, arrays in dropout.items():
        rate = arrays["options"]["dropout"]
        for y in ("y", "y_next"):
            assert not np.any(arrays[y][~valid_steps(arrays)]), f"{y} of {name}: padding"
            for half in halves(arrays, y):
                kept = half[half != 0]
                assert are_close(kept, 1 / (1 - rate)), f"{y} of {name}: factors {kept}"
                deviation = np.sqrt(rate * (1 - rate) / half.size)
                share = np.mean(half == 0)
                assert abs(share - rate) <= 5 * deviation, f"{y} of {name}: {share} are dropped"


def test_cudnn_has_a_dropout_mask_for_each_direction(cudnn_dropout):
    """This library's ops have one for both, as the specification of their random numbers says."""
    for name, arrays in cudnn_dropout.items():
        rate = arrays["options"]["dropout"]
        forward, backward = halves(arrays, "y")
        expected = 2 * rate * (1 - rate)  # of masks that know nothing of each other
        deviation = np.sqrt(expected * (1 - expected) / forward.size)
        differ = np.mean((forward == 0) != (backward == 0))
        assert abs(differ - expected) <= 5 * deviation, f"{name}: the masks differ at {differ:.0%}"


def test_cudnn_takes_1_as_the_derivative_of_relu_at_0(cudnn_dropout):
    """Here it is 0. What was dropped enters ReLU as 0, for layer 2 has no biases."""
    arrays = cudnn_dropout[program.dropout_cases()[0].name]
    case = case_of(arrays)
    gradients = judge.split_params(case.config, arrays["dparams"])
    for direction, step in enumerate((-1, 0)):  # the last, with the gradient of the final state
        dz = np.split(arrays["dy"], 2, axis=-1)[direction].copy()
        dz[step] += arrays["dh_n"][2 + direction]
        assert are_close(gradients[2 + direction].bW[0], dz.sum(axis=(0, 1)))


def test_dropout_restarts_with_its_descriptor(dropout):
    for name, arrays in dropout.items():
        assert are_close(arrays["y_restarted"], arrays["y"]), f"{name}: another mask"


def test_dropout_goes_on_from_call_to_call(dropout):
    for name, arrays in dropout.items():
        assert not are_close(arrays["y_next"], arrays["y"]), f"{name}: the same mask"


def test_inference_drops_nothing(dropout):
    for name, arrays in dropout.items():
        assert are_close(arrays["y_inference"], arrays["y_undropped"]), f"{name}: inference"


def judged(arrays: dict) -> dict[str, np.ndarray]:
    """What the judge makes of a case with the masks that y shows.

    Its directions have one mask. So it computes the network twice, each time with the mask of one
    direction of layer 2 and without gradients from the other. The gradients are then added up.
    """
    case = case_of(arrays)
    H = case.config.H
    found: dict[str, np.ndarray] = {"y_undropped": case.forward().y}
    for direction, half in enumerate(halves(arrays, "y")):
        # y does not show what was dropped from layer 1's backward half, which layer 2 multiplies
        # by 0.
        mask = np.ones_like(arrays["y"])
        mask[valid_steps(arrays), :H] = half
        dy, dh_n = case.dy.copy(), case.dh_n.copy()
        np.split(dy, 2, axis=-1)[1 - direction][...] = 0
        dh_n[2 + 1 - direction] = 0
        if direction == 1:
            dh_n[:2] = 0  # of layer 1, once
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judge, "dropout_mask", lambda *_, mask=mask: mask)
            one = dataclasses.replace(case, dy=dy, dh_n=dh_n)
            forward, gradients = one.forward_backward(key=0)
        for tensor in ("dx", "dh0", "dparams"):
            found[tensor] = found.get(tensor, 0) + getattr(gradients, tensor)
        for tensor in ("y", "h_n"):
            found.setdefault(tensor, getattr(forward, tensor).copy())
        np.split(found["y"], 2, axis=-1)[direction][...] = np.split(forward.y, 2, -1)[direction]
        found["h_n"][2 + direction] = forward.h_n[2 + direction]
    return found


def layer_1(case: cases.Case, params: np.ndarray) -> list[np.ndarray]:
    """The weights of its two directions."""
    of_directions = judge.split_params(case.config, params)[:2]
    return [array for w in of_directions for array in (*w.W, *w.R, *w.bW, *w.bR)]


def test_dropout_gradients_are_the_judges(dropout):
    for name, arrays in dropout.items():
        case = case_of(arrays)
        for tensor, expected in judged(arrays).items():
            theirs = arrays[tensor].copy()
            if tensor == "dparams":
                # Where dropout left 0, layer 2's differ: see the derivative of ReLU at 0.
                expected, theirs = (
                    np.concatenate([w.flat for w in layer_1(case, params)])
                    for params in (expected, theirs)
                )
            error = np.max(np.abs(expected - theirs))
            assert_near("judge", error, running.tolerance(case, tensor, expected), tensor, name)


def with_mask(arrays: dict, change: Callable) -> dict:
    """The arrays if dropout had multiplied by something else."""
    mask = np.where(arrays["y"] != 0, 1 / (1 - arrays["options"]["dropout"]), 0)
    return {"y": arrays["y_undropped"] * change(mask)}


def swapped_in_time(mask: np.ndarray) -> np.ndarray:
    """Two steps of the longest row change places, which no final state shows."""
    mask[[1, 2], 1] = mask[[2, 1], 1]
    return mask


def off(arrays: dict, tensor: str) -> dict:
    """The tensor with its first element a little off."""
    changed = arrays[tensor].copy()
    changed.flat[0] += 1e-9
    return {tensor: changed}


@pytest.mark.parametrize(
    ("test", "tamper", "message"),
    [
        (
            test_dropout_zeroes_its_share_and_scales_the_rest,
            lambda a: with_mask(a, np.sign),
            "factors",
        ),
        (
            test_dropout_zeroes_its_share_and_scales_the_rest,
            lambda a: with_mask(a, lambda mask: np.full_like(mask, 4 / 3)),
            "y of .*: 0.0 are dropped",
        ),
        (
            test_dropout_zeroes_its_share_and_scales_the_rest,
            lambda a: {"y": np.where(a["y_undropped"] == 0, 1e-9, a["y"])},
            "padding",
        ),
        (test_dropout_restarts_with_its_descriptor, lambda a: {"y_restarted": a["y_next"]}, "mask"),
        (test_dropout_goes_on_from_call_to_call, lambda a: {"y_next": a["y"]}, "mask"),
        (test_inference_drops_nothing, lambda a: {"y_inference": a["y"]}, "inference"),
        (
            test_dropout_gradients_are_the_judges,
            lambda a: with_mask(a, swapped_in_time),
            "dx of .*: the judge is off",
        ),
        *(
            (
                test_dropout_gradients_are_the_judges,
                lambda a, tensor=tensor: off(a, tensor),
                f"{tensor} of .*: the judge is off",
            )
            for tensor in ("y_undropped", "h_n", "dx", "dh0", "dparams")
        ),
    ],
)
def test_tampered_dropout_is_seen(dry_run, test, tamper, message):
    found = load(dry_run[1])
    test(found)
    # The second case has padding.
    name, arrays = list(found.items())[1]
    with pytest.raises(AssertionError, match=message):
        test({name: arrays | tamper(arrays)})


def test_the_judges_dropout_is_not_taken_for_cudnns(dry_run):
    found = load(dry_run[1])
    with pytest.raises(AssertionError, match="the masks differ at 0%"):
        test_cudnn_has_a_dropout_mask_for_each_direction(found)
    with pytest.raises(AssertionError):
        test_cudnn_takes_1_as_the_derivative_of_relu_at_0(found)
