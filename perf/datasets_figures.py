"""The figures of `check_datasets.py`: bars of the medians, with the fastest and the slowest."""

import statistics


def bars(path, title, seconds, columns):
    """One group of bars for each row, one bar for each of ``columns``, (key, label)."""
    from matplotlib.figure import Figure

    rows = list(dict.fromkeys(key[0] for key in seconds))
    figure = Figure(figsize=(9, 1.5 + 0.16 * len(rows) * len(columns)), layout="constrained")
    axes = figure.subplots()
    for number, (column, label) in enumerate(columns):
        places, middles, reach = [], [], ([], [])
        for row, name in enumerate(rows):
            if found := seconds.get((name, *column)):
                middle = statistics.median(found)
                places.append(row + (number - (len(columns) - 1) / 2) * 0.8 / len(columns))
                middles.append(1e3 * middle)
                reach[0].append(1e3 * (middle - min(found)))
                reach[1].append(1e3 * (max(found) - middle))
        axes.barh(places, middles, 0.8 / len(columns), xerr=reach, label=label)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
