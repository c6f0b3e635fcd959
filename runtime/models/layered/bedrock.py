"""Models of Amazon Bedrock, over its Converse API."""

import os
from typing import Unpack

from callboard.actors.protocol.errors import MissingKey
from callboard.runtime.models.layered.model import LayeredModel, Params, Settings
from callboard.runtime.models.layered.schemas import sendable_to_nova
from callboard.runtime.models.layered.service import BEDROCK

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


class BedrockModel(LayeredModel):
    """A model of Amazon Bedrock.

    name: the model's id there, or that of an inference profile. region: of AWS, by default AWS_REGION, else
    AWS_DEFAULT_REGION. api_key: a key of Bedrock, by default AWS_BEARER_TOKEN_BEDROCK; without one the
    request is signed with the credentials that the AWS library finds. params: such as
    `{"inferenceConfig": {"temperature": 0}}`. cache: set prompt cache marks where the model takes them. The
    other arguments are those of `AnthropicModel`.

    >>> BedrockModel("amazon.nova-lite-v1:0", region="us-east-1").spec.name
    'bedrock:amazon.nova-lite-v1:0'
    """

    def __init__(
        self,
        name: str,
        *,
        region: str | None = None,
        base_url: str | None = None,
        params: Params = None,
        cache: bool = True,
        **settings: Unpack[Settings],
    ) -> None:
        found = region or next(filter(None, map(os.environ.get, _REGIONS)), "")
        domain = "amazonaws.com.cn" if found.startswith("cn-") else "amazonaws.com"
        address = f"https://bedrock-runtime.{found or 'unknown'}.{domain}"
        service = BEDROCK._replace(base_url=address, region=found, sets_marks=cache)
        if "amazon.nova" in name:
            service = service._replace(schema=sendable_to_nova, describes_schemas=False)
        super().__init__(service, name, f"bedrock:{name}", base_url=base_url, params=params, **settings)

    def check(self) -> None:
        """Raise MissingExtra without the AWS library, MissingKey without a region. Nothing is sent."""
        super().check()
        if not self._service.region:
            raise MissingKey(
                f"no region for {self.spec.name}: set the environment variable AWS_REGION, or pass "
                "BedrockModel(..., region=...)"
            )
