"""One axis of the discrete wavelet transform: the oracle, and the faster kernel beside it.

    reference   the formulas, slice by slice, differentiable by plain autograd: the oracle
    extension   how a signal continues past its ends, nine modes, and the adjoint
    polyphase   the same map as the reference in fewer, contiguous passes, with its adjoint
    few_calls   the same for small signals, with as few calls as possible
    phases      splitting a signal into even and odd samples, and weaving them back
    linear      derivatives of every order for a pair (map, adjoint)
    native      several levels over several axes in C++, on the CPU (operators.cpp and its kin)

A kernel is a module with ``analysis``, ``synthesis`` and the two adjoints, as polyphase has
them. ``extension.MODES`` names the modes, ``reference.coeff_len`` gives the lengths.
"""
