"""Performance regressions of torch and Triton code, verified before they are timed."""
