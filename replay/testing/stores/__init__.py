"""What every event log must do, as a suite that any store can be held against."""
