"""What a smaller graph keeps of the release's onnx graph: kNN and mask IoU on the same images."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from eval_knn import EvalConfig, Evaluation, Evaluator, paired_bootstrap
from panendofm.backbone.networks import Network
from panendofm.deployment.config import FP32, CompressConfig
from panendofm.deployment.graph import graph_network
from panendofm.linear_probe.dense import DenseConfig, run_dense
from panendofm.records.release import KeptMetric, ReleaseFolder, ReleaseInfo
from panendofm.runtime.config import load_config
from panendofm.runtime.files import user_cache


def kept_metrics(folder: ReleaseFolder, kind: str, release: ReleaseInfo, config: CompressConfig) -> list[KeptMetric]:
    """Of the labeled images and of those with masks, as far as they are named."""
    pair = [graph_network(folder.weights(name), name, release) for name in (FP32, kind)]
    found = [_knn(pair, config)] if config.labeled is not None else []
    return found + (_masks(pair, config) if config.masks else [])


def _cache(config: CompressConfig) -> Path:
    return Path(config.cache) if config.cache is not None else user_cache("deployment")


def _knn(pair: list[Network], config: CompressConfig) -> KeptMetric:
    words = [f"data.path={config.labeled}", f"data.clean={str(config.clean).lower()}", "split.leave_one_group_out=true"]
    words += [
        f"ks=[{config.k}]",
        f"selection.metric=top1_k{config.k}",
        "selection.tie_breaks=[]",
        "features.device=cpu",
    ]
    evaluator = Evaluator(load_config(EvalConfig, None, [*words, f"cache={_cache(config)}"]))
    documents = [evaluator.score(network).document for network in pair]
    before, after = [
        Evaluation(
            checkpoint=document.checkpoint,
            step=None,
            values=document.values,
            ranks={k: at_k.rank_of_truth for k, at_k in document.k.items()},
            groups=tuple(int(group) for group in document.query_groups.split()),
            split_sha256=document.data.split_sha256,
        )
        for document in documents
    ]
    metric = f"top1_k{config.k}"
    bootstrap = config.bootstrap
    _, low, high = paired_bootstrap(after, before, metric, bootstrap.confidence, bootstrap.replicates)
    values = float(before.values[metric] or 0.0), float(after.values[metric] or 0.0)
    data = documents[0].data
    return KeptMetric(f"kNN top-1, k = {config.k}", data.path, data.queries, *values, low, high, bootstrap.confidence)


def _masks(pair: list[Network], config: CompressConfig) -> list[KeptMetric]:
    bootstrap = config.bootstrap
    with TemporaryDirectory() as out:
        words = [f"data=[{','.join(config.masks)}]", f"out={out}", "heads=[linear]", "device=cpu"]
        words += [f"side_px={config.masks_px}", f"bootstrap.replicates={bootstrap.replicates}"]
        words += [f"bootstrap.confidence={bootstrap.confidence}", f"bootstrap.seed={bootstrap.seed}"]
        results = run_dense(pair, load_config(DenseConfig, None, words)).results
    found = []
    for test in results.paired_tests:  # one of each test set, of the pair in its order
        if test.low is None or test.high is None:
            continue
        of_network = {one.network: one.tests[test.test] for one in results.results if test.test in one.tests}
        masks = {name: one.segmentation for name, one in of_network.items()}
        before, after = (masks[name] for name in (pair[0].name, pair[1].name))
        if before is None or after is None or before.iou.value is None or after.iou.value is None:
            continue
        images = of_network[test.a].images
        # The test says before − after.
        found.append(
            KeptMetric(
                "mask IoU",
                test.test,
                images,
                before.iou.value,
                after.iou.value,
                -test.high,
                -test.low,
                bootstrap.confidence,
            )
        )
    return found
