"""Files for Prometheus and Grafana, and readings for a terminal, of running deployments."""
