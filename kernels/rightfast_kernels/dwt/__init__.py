"""One axis of the discrete wavelet transform: the oracle, and the faster kernels beside it.

``reference`` is the formula, slice by slice, and differentiable by plain autograd.
``polyphase`` is the same map in fewer, contiguous passes, with its adjoint.
``linear`` gives such a pair (map, adjoint) its derivatives of any order.
"""
