"""The store on PostgreSQL. Needs `callboard[postgres]`."""
