"""What a cell of a sweep computes, one file a mechanism; `dpjax.sweep.registry` knows them by name and imports them late."""
