"""Headers of group administration: 207 and 352 (200 has only a body)."""

from aerobee.remoting.headers._fields import Header


class DeleteGroupRequest(Header, frozen=True, kw_only=True):
    """DELETE_SUBSCRIPTIONGROUP; with `clean_offset` the group's committed offsets go as well."""

    group_name: str
    clean_offset: bool = False


class GroupRequest(Header, frozen=True, kw_only=True):
    """GET_SUBSCRIPTIONGROUP_CONFIG: one group's configuration."""

    group: str
