"""The operators of probabilistic circuits: a torch reference a file, which is also the CPU path.

    reference_sum           n = log(theta exp(e)), scaled by the largest e, and its backward pass
    reference_wide          the same in float64 for any values, and for powers of theta and e
    reference_log_sum       the same for flows in log space
    reference_max           n = max(log theta + e), with where the maximum was
    reference_product       e = the sum of rows of n, and flows back to these rows
    reference_categorical   values picked from tables of probabilities, and counted into them
    reference_update        parameters from flows, in place

    elements, sum, combine, element_flows, row_flows, product, parameter_flows, categorical, em,
    max, max_flows, mode, log_flows, quotients
                            ..._triton: the same on a GPU, layer_triton what they share

Shapes: G groups with N sums and C children each, B samples, the batch innermost. theta [G, N, C],
e [G, C, B], n [G, N, B]; with one group the leading dimension may be left out.
"""
