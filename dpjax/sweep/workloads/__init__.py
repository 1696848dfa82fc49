"""What a cell of a sweep computes, one file a mechanism; `dpjax.sweep.workload` knows them by name and imports them late."""
