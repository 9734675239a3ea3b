"""torchvision's operators against loops over pixels, and against ordinary convolution."""

import math

import pytest

import maquette as mq
from maquette.torch.families import vision_ops as vision
from maquette.torch.families.deformable import deform_conv2d, deform_conv2d_backward


def bilinear(image, y, x):
    height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    down = y - top if top < height - 1 else 0.0
    across = x - left if left < width - 1 else 0.0
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = image[top, left] * (1 - across) + image[top, right] * across
    lower = image[below, left] * (1 - across) + image[below, right] * across
    return upper * (1 - down) + lower * down


def aligned_by_loops(image, box, pooled, aligned):
    shift = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = (0.5 * v - shift for v in box)
    height, width = y2 - y1, x2 - x1
    if not aligned:
        height, width = max(height, 1.0), max(width, 1.0)
    rows, columns = math.ceil(height / pooled), math.ceil(width / pooled)
    out = mq.zeros(pooled, pooled)
    for p in range(pooled):
        for q in range(pooled):
            seen = [
                bilinear(
                    image,
                    y1 + (p + (i + 0.5) / rows) * height / pooled,
                    x1 + (q + (j + 0.5) / columns) * width / pooled,
                )
                for i in range(rows)
                for j in range(columns)
            ]
            out[p, q] = sum(seen) / len(seen)
    return out


@pytest.mark.parametrize("aligned", [True, False])
def test_boxes_are_averaged_from_samples(aligned):
    images = mq.randn(2, 1, 7, 9)
    rois = mq.tensor([[0, 1.0, 2.0, 13.0, 11.0], [1, 0.0, -3.0, 17.5, 15.0]])
    found = vision.roi_align(images, rois, 0.5, 3, 3, -1, aligned)
    for k, (image, *box) in enumerate(rois.tolist()):
        expected = aligned_by_loops(images[int(image), 0], box, 3, aligned)
        assert mq.allclose(found[k, 0], expected, atol=1e-5)


def test_the_gradient_of_boxes_is_the_transpose_of_their_average():
    images, rois = mq.randn(1, 2, 6, 6), mq.tensor([[0, 0.0, 0.0, 5.0, 4.0]])
    settings = (1.0, 2, 2, 2)
    out = vision.roi_align(images, rois, *settings, True)
    given = mq.randn(out.shape)
    back = vision.roi_align_backward(given, rois, 1.0, 2, 2, 1, 2, 6, 6, 2, True)
    assert mq.allclose((out * given).sum(), (images * back).sum(), atol=1e-4)


def test_each_bin_of_a_position_sensitive_box_reads_its_own_channel():
    images = mq.arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 6, 6).contiguous()
    rois = mq.tensor([[0, 0.0, 0.0, 6.0, 6.0]])
    for found, mapping in (
        vision.ps_roi_align(images, rois, 1.0, 2, 2, 2),
        vision.ps_roi_pool(images, rois, 1.0, 2, 2),
    ):
        assert mq.allclose(found[0, 0], mq.tensor([[0.0, 1.0], [2.0, 3.0]]))
        assert mapping[0, 0].tolist() == [[0, 1], [2, 3]]


def test_the_largest_of_a_box_is_found_with_its_pixel():
    images = mq.arange(36.0).reshape(1, 1, 6, 6)
    largest, places = vision.roi_pool(images, mq.tensor([[0, 0.0, 0.0, 3.0, 3.0]]), 1.0, 2, 2)
    assert largest[0, 0].tolist() == [[7.0, 9.0], [19.0, 21.0]]
    assert places[0, 0].tolist() == [[7, 9], [19, 21]]


def test_boxes_that_overlap_a_better_one_are_dropped():
    boxes = mq.tensor([[0, 0, 10, 10.0], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 9]])
    kept = vision.nms(boxes, mq.tensor([0.5, 0.9, 0.3, 0.6]), 0.5)
    assert kept.tolist() == [1, 2]
    assert vision.nms(boxes, mq.tensor([0.5, 0.9, 0.3, 0.6]), 0.99).tolist() == [1, 3, 0, 2]


def test_an_overlap_of_a_third_as_a_float32_is_more_than_a_third():
    boxes = mq.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 3.0, 1.0]])
    assert vision.nms(boxes, mq.tensor([0.9, 0.5]), 1 / 3).tolist() == [0]
    assert vision.nms(boxes.double(), mq.tensor([0.9, 0.5]).double(), 1 / 3).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("boxes", "scores", "words"),
    [
        (mq.zeros(4), mq.zeros(1), "2d tensor, got 1D"),
        (mq.zeros(2, 5), mq.zeros(2), "4 columns, got 5"),
        (mq.zeros(2, 4), mq.zeros(2, 1), "1d tensor, got 2D"),
        (mq.zeros(2, 4), mq.zeros(3), "got 2 and 3"),
        (mq.zeros(2, 4), mq.zeros(2).double(), "same dtype"),
    ],
)
def test_boxes_that_their_scores_do_not_fit_are_refused(boxes, scores, words):
    with pytest.raises(RuntimeError, match=words):
        vision.nms(boxes, scores, 0.5)


def test_bins_of_own_channels_leave_the_last_row_and_column_out():
    images = mq.arange(16.0).reshape(1, 1, 4, 4)
    mean, _ = vision.ps_roi_pool(images, mq.tensor([[0, 0.0, 0.0, 4.0, 4.0]]), 1.0, 1, 1)
    assert mean.flatten().tolist() == pytest.approx([5.0])  # of rows and columns 0, 1, 2


def test_no_offsets_make_an_ordinary_convolution():
    x, weight, bias = mq.randn(2, 4, 7, 6), mq.randn(6, 2, 3, 3), mq.randn(6)
    offset, mask = mq.zeros(2, 2 * 2 * 9, 4, 3), mq.ones(2, 2 * 9, 4, 3)
    found = deform_conv2d(x, weight, offset, mask, bias, 2, 2, 1, 1, 1, 1, 2, 2, True)
    expected = mq.nn.functional.conv2d(x, weight, bias, stride=2, padding=1, groups=2)
    assert mq.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("use_mask", [True, False])
def test_the_gradients_of_a_deformable_convolution_are_those_of_its_steps(use_mask):
    shapes = ((2, 4, 5, 6), (6, 2, 3, 2), (2, 2 * 2 * 6, 4, 5), (2, 2 * 6, 4, 5), (6,))
    arguments = [mq.randn(s, dtype=mq.float64, requires_grad=True) for s in shapes]
    steps = (1, 1, 1, 0, 1, 1, 2, 2, use_mask)
    out = deform_conv2d(*arguments, *steps)
    given = mq.randn(out.shape, dtype=mq.float64)
    expected = mq.autograd.grad(out, arguments, given, allow_unused=True)
    found = deform_conv2d_backward(given, *(a.detach() for a in arguments), *steps)
    for mine, theirs in zip(found, expected, strict=True):
        assert mq.allclose(mine, mq.zeros_like(mine) if theirs is None else theirs)


@pytest.mark.parametrize("name", ["_C", "_C_stable"])
def test_both_names_of_the_extension_are_stood_in_for(name, tmp_path):
    folder = tmp_path / "torchvision"
    folder.mkdir()
    (folder / f"{name}.so").write_bytes(b"linked against PyTorch")
    mq.ops.load_library(folder / f"{name}.so")
    assert mq.ops.torchvision._cuda_version() == -1
