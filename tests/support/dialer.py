"""An agent's own way to a collector, in a process of its own: what came of trying."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping

MOST_ATTEMPTS = 20


def dial(address: str, environ: Mapping[str, str]) -> str:
    """ "welcome", the name of the status, or the sentence of the error. Nothing else of NETDEBUG_… is set.

    gRPC forgets why a stream was ended while something was being sent on it; an agent asks again, too.
    """
    attempts = (dialed(address, environ) for _ in range(MOST_ATTEMPTS))
    return next((found for found in attempts if found != "INTERNAL"), "INTERNAL")


def dialed(address: str, environ: Mapping[str, str]) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith("NETDEBUG_")}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    ran = subprocess.run(
        [sys.executable, __file__, address],
        env={**own, "PYTHONPATH": path, "GRPC_VERBOSITY": "NONE", **environ},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


async def _dialed(address: str) -> str:
    import grpc

    from tb_netdebug.transport.addresses import address_of
    from tb_netdebug.transport.channel import connected
    from tb_netdebug.transport.credentials import CredentialsError, TrainerCredentials
    from tb_netdebug.transport.stream_pb2 import Down, Hello, Up

    try:
        channel = await connected(address_of(address), TrainerCredentials.of(os.environ))
    except CredentialsError as error:
        return str(error)
    async with channel:
        call = channel.stream_stream("/netdebug.Stream/Connect")()
        try:
            await call.write(Up(hello=Hello(version=1, agent="a" * 32)).SerializeToString())
            return str(Down.FromString(await call.read()).WhichOneof("what"))
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        except asyncio.InvalidStateError:
            return str((await call.code()).name)


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_dialed(sys.argv[1])))
