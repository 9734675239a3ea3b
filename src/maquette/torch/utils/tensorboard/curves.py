"""Curves and charts of `torch.utils.tensorboard`: precision over recall, layouts of charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

from maquette.torch.utils.tensorboard.summary import array, of_plugin, shape_of, summary_of

# The page that draws them takes no more.
_MOST_THRESHOLDS = 127
_LEAST = 1e-7


def pr_curve(
    tag: str,
    labels: object,
    predictions: object,
    num_thresholds: int = _MOST_THRESHOLDS,
    weights: object = None,
) -> Summary:
    """Precision over recall, by thresholds that part the predictions from 0 to 1.

    labels: 0 or 1, or bools. weights: how much each prediction counts, 1 by default.
    """
    thresholds = min(num_thresholds, _MOST_THRESHOLDS)
    wanted, given = array(labels).astype(float), array(predictions)
    counts = np.float64(1.0) if weights is None else array(weights)
    place = np.int32(np.floor(given * (thresholds - 1)))

    def above(share: npt.NDArray[Any]) -> npt.NDArray[Any]:
        drawn = np.histogram(place, bins=thresholds, range=(0, thresholds - 1), weights=share)[0]
        return drawn[::-1].cumsum()[::-1]

    right, wrong = above(wanted * counts), above((1.0 - wanted) * counts)
    missed = right[0] - right
    precision = right / np.maximum(_LEAST, right + wrong)
    recall = right / np.maximum(_LEAST, right + missed)
    rows = np.stack([right, wrong, wrong[0] - wrong, missed, precision, recall])
    return _pr_summary(tag, rows, thresholds)


def pr_curve_raw(
    tag: str,
    tp: object,
    fp: object,
    tn: object,
    fn: object,
    precision: object,
    recall: object,
    num_thresholds: int = _MOST_THRESHOLDS,
    weights: object = None,
) -> Summary:
    """Precision over recall that is counted already: right and wrong, taken and left."""
    rows = np.stack([array(row) for row in (tp, fp, tn, fn, precision, recall)])
    return _pr_summary(tag, rows, min(num_thresholds, _MOST_THRESHOLDS))


def _pr_summary(tag: str, rows: npt.NDArray[Any], thresholds: int) -> Summary:
    content = PrCurvePluginData(version=0, num_thresholds=thresholds).SerializeToString()
    proto = TensorProto(
        dtype="DT_FLOAT",
        float_val=rows.reshape(-1).tolist(),
        tensor_shape=shape_of(rows.shape),
    )
    return summary_of(tag=tag, tensor=proto, metadata=of_plugin("pr_curves", content))


# --- layouts -------------------------------------------------------------------------


def chart(kind: str, tags: Sequence[str], category: str, title: str) -> layout_pb2.Category:
    """One chart: several figures ("Multiline"), or one between two others ("Margin").

    ValueError for a margin's with another number of tags than three.
    """
    return layout_pb2.Category(title=category, chart=[_chart(title, kind, tags)])


def custom_scalars(
    layout: Mapping[str, Mapping[str, Sequence[Any]]] | Sequence[layout_pb2.Category],
) -> Summary:
    """Which charts are shown, by category and title: ``{"a": {"b": ["Multiline", tags]}}``."""
    if isinstance(layout, Mapping):
        layout = [
            layout_pb2.Category(
                title=category, chart=[_chart(title, *chart) for title, chart in charts.items()]
            )
            for category, charts in layout.items()
        ]
    written = layout_pb2.Layout(category=layout).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[written], tensor_shape=shape_of(()))
    about = of_plugin("custom_scalars")
    return summary_of(tag="custom_scalars__config__", tensor=proto, metadata=about)


def _chart(title: str, kind: str, tags: Sequence[str]) -> layout_pb2.Chart:
    if kind != "Margin":
        return layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
    if len(tags) != 3:
        raise ValueError(f"a chart with margins has three tags, got {len(tags)}: {list(tags)}")
    value, lower, upper = tags
    series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
    content = layout_pb2.MarginChartContent(series=[series])
    return layout_pb2.Chart(title=title, margin=content)
