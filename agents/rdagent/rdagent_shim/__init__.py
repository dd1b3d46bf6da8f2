"""What RD-Agent lacks to run here: a complete scenario, this harness's task and gateway, and a record in plain JSON."""
