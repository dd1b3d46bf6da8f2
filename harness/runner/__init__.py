"""One run, from plan to record: what is started here is stopped here, or taken up again after a death."""
