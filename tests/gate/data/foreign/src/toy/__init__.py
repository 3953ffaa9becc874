from toy import _core

FIRST = True


def double(x):
    y = x.clone()
    _core.double_in_place(y.data_ptr(), y.numel())
    return y


def square(x):
    return x * x


def negate(x):
    return -x


def thrice(x):
    return x * 3


def shift(x):
    return (x + 1) * (1 + 1e-6)


def halve(x):
    return x / 2


def lean(x):
    return x + 1


def broken(x):
    return x * 1.1


def repaired(x):
    return x * 1.1


def quits(x):
    return x + 2


def noisy(x):
    return x * 5
