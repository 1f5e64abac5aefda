"""The settings a nameserver runs with: 319."""

from aerobee.namesrv.context import NamesrvContext
from aerobee.remoting.codes import RequestCode
from aerobee.remoting.config.java_properties import format_java_properties
from aerobee.remoting.config.settings import without_secrets
from aerobee.remoting.net.routes import NoHeader, Reply, Request, Routes

routes: Routes[NamesrvContext] = Routes("settings")


@routes.on(RequestCode.GET_NAMESRV_CONFIG)
def get_settings(ctx: NamesrvContext, request: Request[NoHeader]) -> Reply:
    """List all settings as properties text; whoever can connect may ask, so no passwords."""
    shown = without_secrets(dict(ctx.settings.items()))
    return Reply(body=format_java_properties(shown).encode())
