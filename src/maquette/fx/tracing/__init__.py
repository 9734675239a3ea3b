"""Tracing: functions and modules run on proxies, or on tensors that a mode follows."""
