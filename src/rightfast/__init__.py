"""The library that the suite guards: wavelets, and the runtime, circuits and datasets to come."""
