import asyncio
async def run_console(settings, journal, stop, kube):
    await stop.wait()
