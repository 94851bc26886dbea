"""Layer 8: figures for Prometheus. It needs the extra `metrics`.

The files, in the order in which they may import one another:
    table       every metric: its name, its kind and what it says
    exposition  the daemon's answers in the format of Prometheus
    serving     /metrics alone, over HTTP
    command     `radrm metrics`
    wing        what it adds to radrm

`grafana.json` is a dashboard for Grafana, `alerts.yml` has rules for Prometheus.
"""
