"""beartype with the rule of PEP 484 that mypy follows too: where a float is asked for, an int will do."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
