"""One short script for each figure or table of the papers: read a config, call dpjax, draw."""
