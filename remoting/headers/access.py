"""Headers of users and their policies: 3001 to 3010; what is asked for stands in the body."""

from aerobee.remoting.headers.typed import Header


class UserRequest(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_USER, AUTH_UPDATE_USER, AUTH_DELETE_USER, AUTH_GET_USER: which user."""

    username: str | None = None


class ListUsersRequest(Header, frozen=True, kw_only=True):
    """AUTH_LIST_USER: users whose names have `filter` in them, all without one."""

    filter: str | None = None


class SubjectRequest(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_ACL, AUTH_UPDATE_ACL, AUTH_GET_ACL: whose policies, as `User:name`."""

    subject: str | None = None


class DeleteAclRequest(Header, frozen=True, kw_only=True):
    """AUTH_DELETE_ACL: one entry of a user, all that he has without a `resource`."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequest(Header, frozen=True, kw_only=True):
    """AUTH_LIST_ACL: entries whose subjects and resources have these in them."""

    subject_filter: str | None = None
    resource_filter: str | None = None
