# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.cluster.ray_shard import SessionAnswer as SessionAnswer
from callboard.runtime.cluster.ray_shard import ShardAnswer as ShardAnswer
from callboard.runtime.cluster.ray_shard import ShardSpec as ShardSpec
from callboard.runtime.cluster.ray_shards import RayShards as RayShards
from callboard.runtime.cluster.ray_shards import start_shards as start_shards
from callboard.runtime.cluster.ray_tools import RayCall as RayCall
from callboard.runtime.cluster.ray_tools import RayOptions as RayOptions
from callboard.runtime.cluster.ray_tools import ray_call as ray_call
from callboard.runtime.cluster.ray_tools import ray_options as ray_options

__all__ = [
    "RayCall",
    "RayOptions",
    "RayShards",
    "SessionAnswer",
    "ShardAnswer",
    "ShardSpec",
    "ray_call",
    "ray_options",
    "start_shards",
]
