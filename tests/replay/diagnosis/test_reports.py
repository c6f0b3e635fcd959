from callboard.replay.diagnosis.reports import median, odd_places


def test_one_number_far_from_close_ones_is_odd() -> None:
    assert odd_places([20.5, 21.0, 24.0, 73.8, 22.3, 23.1]) == [3]
    assert odd_places([419.0, 375.5, 50_200, 448.0, 399.9]) == [2]
    assert odd_places([390_534, 401_200, 39_053, 388_000]) == [2]


def test_numbers_that_vary_widely_have_no_odd_one() -> None:
    assert odd_places([3, 12, 40, 55, 130, 950]) == []
    assert odd_places([100, 101, 102, 250]) == []


def test_small_counts_are_noise() -> None:
    assert odd_places([1, 1, 1, 1, 4]) == []
    assert odd_places([2, 0, 3, 1, 5]) == []
    assert odd_places([5, 5, 5, 6, 12]) == []


def test_zero_is_odd_among_large_numbers() -> None:
    assert odd_places([400, 420, 0, 390, 410]) == [2]
    assert odd_places([4.0, 4.2, 0.0, 3.9, 4.1]) == [2]
    assert odd_places([0, 0, 0, 7]) == []


def test_two_groups_and_numbers_below_zero_are_left_alone() -> None:
    assert odd_places([1.0, 1.0, 1.0, 1.0, 900.0, 900.0]) == []
    assert odd_places([20.0, 21.0, -300.0, 22.0]) == []
    assert odd_places([-3, -2, -90_000, -4]) == []


def test_numbers_of_any_size_are_compared() -> None:
    assert odd_places([10**400, 1, 1, 1]) == []
    assert odd_places([10**299, 1, 1, 1]) == [0]


def test_the_median_of_an_even_number_is_between_the_middle_ones() -> None:
    assert median([3, 1, 2]) == 2
    assert median([1, 2, 4, 8]) == 3
    assert median([1, 2]) == 1.5
