"""Fuzzers of what reads foreign bytes, for atheris, a coverage-guided fuzzer.

    python -m pip install --group fuzz
    python -m scripts.fuzz TARGET [options of libFuzzer, such as -max_total_time=3600]

Run it in the checkout. Targets are those of ``targets.TARGETS``. What it learns goes into
``.fuzz/TARGET``, which may be thrown away; it begins with ``tests/data/fuzz/TARGET``, which the
tests run as well. An input that fails is written to the current directory: mend the fault, and put
the input, as short as it can be, among those.
"""
