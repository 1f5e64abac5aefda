"""Bodies of access control: users and their policies (codes 3001 to 3010)."""

import msgspec

from aerobee.remoting.bodies._codec import Body


class UserInfo(Body, frozen=True, kw_only=True):
    """A user; blank fields of a change keep what was there (UserInfo.java)."""

    username: str = ""
    password: str | None = None
    user_type: str | None = None  # Super, Normal
    user_status: str | None = None  # enable, disable

    def __repr__(self) -> str:
        return (
            f"UserInfo(username={self.username!r}, user_type={self.user_type!r},"
            f" user_status={self.user_status!r})"
        )


class PolicyEntryInfo(Body, frozen=True, kw_only=True):
    """What of a policy concerns one resource (AclInfo.PolicyEntryInfo)."""

    resource: str = ""
    actions: list[str] = msgspec.field(default_factory=list)
    source_ips: list[str] | None = None
    decision: str = ""


class PolicyInfo(Body, frozen=True, kw_only=True):
    """Entries of one type (AclInfo.PolicyInfo)."""

    policy_type: str | None = None  # Custom, Default
    entries: list[PolicyEntryInfo] = msgspec.field(default_factory=list)


class AclInfo(Body, frozen=True, kw_only=True):
    """What one user may do (AclInfo.java)."""

    subject: str = ""  # User:name
    policies: list[PolicyInfo] = msgspec.field(default_factory=list)
