from callboard.replay.testing.stopwatch import Stopwatch


def test_it_never_runs_backwards() -> None:
    watch = Stopwatch()
    readings = [watch.seconds for _ in range(100)]
    assert readings == sorted(readings)
    assert readings[0] >= 0
