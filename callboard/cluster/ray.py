"""Shards of a log on a Ray cluster, and tools that run as tasks of Ray."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.cluster.ray_shard": ("SessionAnswer", "ShardAnswer", "ShardSpec"),
    "runtime.cluster.ray_shards": ("RayShards", "start_shards"),
    "runtime.cluster.ray_tools": ("RayCall", "RayOptions", "ray_call", "ray_options"),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
