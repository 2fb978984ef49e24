"""Sends many calls at once over several connections when told to; for flood_test.py.

    flood_client.py ADDRESS METHOD REQUEST_IN_HEX CONNECTIONS CALLS_ON_EACH TIMEOUT_S

Says "ready", waits for a line on stdin, then prints one line of JSON: what each call got. It knows
no messages, so that it costs little to start.
"""

import asyncio
import json
import sys

import grpc


async def one(call, request, timeout):
    """[status, its message, its details in hex, the pushback in ms, the responses in hex]"""
    stream, responses = call(request, timeout=timeout), []
    try:
        async for response in stream:
            responses.append(response.hex())
    except grpc.aio.AioRpcError:
        pass
    trailers = dict(iter(await stream.trailing_metadata()))
    return [(await stream.code()).name, await stream.details(),
            trailers.get("grpc-status-details-bin", b"").hex(),
            trailers.get("grpc-retry-pushback-ms"), responses]


async def main(address, method, request, num_connections, num_calls, timeout):
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=options)
                for _ in range(int(num_connections))]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    print("ready", flush=True)
    sys.stdin.readline()
    request = bytes.fromhex(request)
    results = await asyncio.gather(*(one(channel.unary_stream(method), request, float(timeout))
                                     for channel in channels for _ in range(int(num_calls))))
    print(json.dumps(results), flush=True)
    await asyncio.gather(*(channel.close() for channel in channels))


asyncio.run(main(*sys.argv[1:]))
