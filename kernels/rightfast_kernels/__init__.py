"""Kernels, one operation a folder, one file a kernel. Imports nothing of `rightfast`."""
