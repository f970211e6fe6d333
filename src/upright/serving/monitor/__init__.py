"""Deployments -> what a Prometheus, a Grafana and a terminal need to watch them."""
