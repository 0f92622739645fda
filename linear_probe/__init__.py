"""Frozen networks on PanEndoX tasks: linear heads, tables with confidence intervals, predictions."""

from linear_probe.predict import predict
from linear_probe.run import Benchmark, ProbeConfig, run_benchmark

__all__ = ["Benchmark", "ProbeConfig", "predict", "run_benchmark"]
