"""Many calls over several connections, some of them cancelled; for crowd.py, as its own process.

    crowd_client.py ADDRESS METHOD CONNECTIONS WIDTH TIMEOUT_S

Reads from stdin a list of calls in JSON, and runs them in order, WIDTH at once on each connection:
[request in hex, turns of the event loop before it may be cancelled, number of responses after which
it is cancelled or null, first byte of a response at which it is or null]. Writes what each got when
all are over. It knows no messages.
"""

import asyncio
import json
import os
import sys

import grpc

# Windows as HTTP/2 has them at first: what a client that reads nothing is sent has a bound.
OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
           ("grpc.http2.bdp_probe", 0)]


async def one(method, timeout, request, num_turns, leave_after, leave_at):
    """[status, its message, its details in hex, the responses in hex, was it cancelled here]"""
    stream, responses, has_left = method(bytes.fromhex(request), timeout=timeout), [], False

    def leave():
        is_enough = leave_after is not None and len(responses) >= leave_after
        is_there = bool(responses) and responses[-1][0] == leave_at
        if is_enough or is_there:
            stream.cancel()  # false where the end is there already
        return is_enough or is_there

    try:
        for _ in range(num_turns):
            await asyncio.sleep(0)  # lets the others go on, and waits for nothing
        has_left = leave()
        async for response in stream:
            responses.append(response)
            has_left = has_left or leave()
    except (grpc.RpcError, asyncio.CancelledError):
        pass  # the status tells
    details = dict(iter(await stream.trailing_metadata())).get("grpc-status-details-bin", b"")
    return [(await stream.code()).name, await stream.details(), details.hex(),
            [response.hex() for response in responses], has_left]


async def main(address, method, num_connections, width, timeout):
    channels = [grpc.aio.insecure_channel(address, options=OPTIONS)
                for _ in range(int(num_connections))]
    calls = json.load(sys.stdin)
    results, waiting = [None] * len(calls), iter(enumerate(calls))

    async def work(channel):
        call = channel.unary_stream(method)
        for i, args in waiting:  # shared by all
            results[i] = await one(call, float(timeout), *args)

    await asyncio.gather(*(work(channel) for channel in channels for _ in range(int(width))))
    json.dump(results, sys.stdout)
    sys.stdout.flush()
    # gRPC 1.51 may wait for itself for ever when it tidies up after many cancels.
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
