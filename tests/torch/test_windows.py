"""`torch.signal.windows`; the numbers are PyTorch's."""

import pytest

import maquette.torch as torch
from maquette.torch.signal import windows

F64 = torch.float64


@pytest.mark.parametrize(
    "name, options, expected",
    [
        ("bartlett", {}, [0.0, 2 / 3, 2 / 3, 0.0]),
        ("cosine", {}, [0.38268343236509, 0.92387953251129, 0.92387953251129, 0.38268343236509]),
        ("hann", {}, [0.0, 0.75, 0.75, 0.0]),
        ("hamming", {}, [0.08, 0.77, 0.77, 0.08]),
        ("blackman", {}, [0.0, 0.63, 0.63, 0.0]),
        ("exponential", {"tau": 2}, [0.47236655274, 0.77880078307, 0.77880078307, 0.47236655274]),
        ("gaussian", {"std": 1}, [0.32465246736, 0.88249690258, 0.88249690258, 0.32465246736]),
        ("general_cosine", {"a": [1.0]}, [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_symmetric_windows(name: str, options: dict[str, object], expected: list[float]) -> None:
    made = getattr(windows, name)(4, dtype=F64, **options)
    assert made.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["hann", "blackman", "nuttall", "kaiser", "cosine", "bartlett"])
def test_a_periodic_window_is_a_longer_one_less_its_end(name: str) -> None:
    make = getattr(windows, name)
    assert make(5, sym=False, dtype=F64).tolist() == make(6, dtype=F64)[:5].tolist()


def test_short_windows() -> None:
    assert windows.hann(0).shape == (0,)
    assert windows.hann(1).tolist() == [1.0]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: windows.hann(-1), "non-negative window length, got M=-1"),
        (lambda: windows.kaiser(3, dtype=torch.float16), "kaiser expects float32 or float64"),
        (lambda: windows.exponential(3, tau=0), "Tau must be positive"),
        (lambda: windows.exponential(3, center=1), "Center must be None"),
        (lambda: windows.gaussian(3, std=-1), "Standard deviation must be positive"),
        (lambda: windows.general_cosine(3, a=[]), "cannot be empty"),
    ],
)
def test_wrong_arguments_are_refused(call: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_a_window_may_require_grad() -> None:
    assert windows.hann(3, requires_grad=True).requires_grad
